import { hostname } from "node:os";
import { describe, expect, it } from "vitest";
import type { LockPlace } from "../../src/deploy/remote-lock.ts";
import { pipelineOf, takeRemoteLock } from "../../src/deploy/remote-lock.ts";

/** A place in memory, with the lock that it holds. */
function placeOf(text?: object) {
  let held = text && { text: JSON.stringify(text), version: "0" };
  let versions = 0;
  const place: LockPlace = {
    async create(wanted) {
      if (held !== undefined) return false;
      held = { text: wanted, version: String(++versions) };
      return true;
    },
    read: async () => held,
    async remove(version) {
      if (held?.version === version) held = undefined;
    },
    async renew(version, wanted) {
      if (held?.version !== version) return false;
      held = { text: wanted, version: String(++versions) };
      return true;
    },
  };
  return { place, now: () => held && (JSON.parse(held.text) as { id: string; holder: string }) };
}

const NOW = new Date("2026-11-23T10:00:00Z");
const tools = { now: () => NOW, report: () => undefined, env: {} };
const me = { id: "mine", holder: "me@here (svc deploy up)", since: NOW.toISOString() };
const ann = {
  id: "hers",
  holder: "ann@elsewhere (svc deploy up)",
  since: "2026-11-23T09:55:00Z",
  pid: 1,
  host: "elsewhere",
  until: "2026-11-23T10:25:00Z",
};
const request = { seconds: 1800, breakLock: false };

describe("the lock of a target for all machines", () => {
  it("is taken by one run, the next one is rejected by its name, and then it is free", async () => {
    const { place, now } = placeOf();

    const release = await takeRemoteLock(place, me, request, tools);
    const second = takeRemoteLock(place, { ...me, id: "second" }, request, tools);

    await expect(second).rejects.toMatchObject({
      code: "locked",
      exitCode: 6,
      message: expect.stringContaining("me@here"),
    });
    await release();
    expect(now()).toBeUndefined();
  });

  it("names who holds it, since when, and what to do", async () => {
    await expect(takeRemoteLock(placeOf(ann).place, me, request, tools)).rejects.toMatchObject({
      message: expect.stringContaining("ann@elsewhere"),
      detail: expect.stringMatching(
        /since 2026-11-23T09:55:00Z, for 5 min\. .* ends by itself at 2026-11-23T10:25/,
      ),
      fix: expect.stringContaining("--break-lock"),
    });
  });

  it.each([
    ["is over its time", { ...ann, until: "2026-11-23T09:59:00Z" }, false],
    [
      "belongs to a process of this machine that has ended",
      { ...ann, host: hostname(), pid: 2 ** 22 + 7 },
      false,
    ],
    ["is broken by --break-lock", ann, true],
  ])("is taken over if it %s", async (_, held, breakLock) => {
    const { place, now } = placeOf(held);

    await takeRemoteLock(place, me, { seconds: 1800, breakLock }, tools);

    expect(now()).toMatchObject({ id: "mine" });
  });

  it("is not released by a run that has lost it", async () => {
    const { place, now } = placeOf();
    const release = await takeRemoteLock(place, me, request, tools);
    await takeRemoteLock(place, { ...me, id: "second" }, { ...request, breakLock: true }, tools);

    await release();

    expect(now()).toMatchObject({ id: "second" });
  });

  it("ends within minutes where the run that held it is dead, and not while it gives signs of life", async () => {
    const { place, now } = placeOf();
    let clock = NOW.getTime();
    const passing = { ...tools, now: () => new Date(clock) };
    let renew = async () => false;
    const lease = {
      ...request,
      seconds: 3600,
      onLease: (how: () => Promise<boolean>) => {
        renew = how;
      },
    };
    const take = (id: string) => takeRemoteLock(place, { ...me, id, holder: id }, lease, passing);
    // Of another machine: of a process here one knows whether it is alive.
    const elsewhere: LockPlace = {
      ...place,
      create: (text) => place.create(JSON.stringify({ ...JSON.parse(text), host: "elsewhere" })),
      renew: (version, text) =>
        place.renew(version, JSON.stringify({ ...JSON.parse(text), host: "elsewhere" })),
    };
    await takeRemoteLock(elsewhere, me, lease, passing);
    const renewFirst = renew;
    for (let minute = 0; minute < 30; minute++) {
      clock += 60_000;
      expect(await renewFirst()).toBe(true);
    }
    const refused = await take("early").catch((error: unknown) => error);
    clock += 10 * 60_000;

    await take("later");

    expect(refused).toMatchObject({
      code: "locked",
      detail: expect.stringMatching(/ends by itself at 2026-11-23T10:39/),
    });
    expect(now()).toMatchObject({ id: "later" });
    // Who comes back late finds that out, and changes nothing of the new lock.
    expect(await renewFirst()).toBe(false);
    expect(now()).toMatchObject({ id: "later" });
  });

  it("names the job of a pipeline", () => {
    expect(
      pipelineOf({
        GITHUB_ACTIONS: "true",
        GITHUB_REPOSITORY: "a/b",
        GITHUB_RUN_ID: "7",
        GITHUB_ACTOR: "ann",
      }),
    ).toBe("GitHub a/b, run 7 of ann");
    expect(pipelineOf({ GITLAB_CI: "true", CI_PROJECT_PATH: "a/b", CI_JOB_ID: "8" })).toBe(
      "GitLab a/b, job 8",
    );
    expect(pipelineOf({})).toBeUndefined();
  });
});
