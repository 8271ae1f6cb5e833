// @long
// @losses
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import { bundleChild } from "../_bundle.ts";
import { requirement } from "../_require.ts";
import { limitOf, shareOf } from "../_share.ts";
import { type Sshd, startSshd } from "../_sshd.ts";
import { docker } from "./_local-project.ts";
import { allOf } from "./_server.ts";
import { leftovers } from "./server/leftovers.ts";
import { runKilled } from "./server/run-killed.ts";
import { type Checkout, failure, KEY } from "./server/site.ts";
import { withDatabase } from "./server/with-database.ts";

const { describe, it, met } = requirement("docker", "sshd", "postgres");
const SHARES = 24;
const KEYS = { SERVICE_API_KEY: KEY, SERVICE_RSA_PRIVATE_KEY: newRsaKey() };

let sshd: Sshd;
let child: string;
beforeAll(async () => {
  if (!met) return;
  sshd = await startSshd();
  child = await bundleChild(new URL("server/child.ts", import.meta.url));
});
afterAll(() => sshd?.close());

/**
 * Kills at each line of a journal about the database, the one before and the one after, with the next run in the same checkout and
 * in another one; of these a share.
 */
function killsOf(steps: readonly string[]) {
  const isOf = (index: number) => steps[index]?.startsWith("database.") === true;
  const lines = [...steps.keys()].filter((index) => [index - 1, index, index + 1].some(isOf));
  expect(lines.length).toBeGreaterThan(5);
  return shareOf(
    [false, true].flatMap((elsewhere) => lines.map((index) => ({ killAt: index + 1, elsewhere }))),
    SHARES,
  );
}

/** Containers of the service itself that run. */
function serving(at: Awaited<ReturnType<typeof withDatabase>>["at"]): string[] {
  return at.running().filter((name) => !name.endsWith(".postgres"));
}

/** A service with a database beside it, and runs of its deployment that are killed. */
async function killable() {
  const made = await withDatabase(sshd.config);
  const { at, database } = made;
  const port = Number(new URL(at.url).port);
  return {
    ...made,
    run: (from: Checkout, postgres: string, killAt: number) => {
      const flags = { host: "server", sshConfig: sshd.config, bind: "127.0.0.1", postgres };
      return runKilled(child, { name: at.name, port, cwd: from.cwd, flags, env: KEYS, killAt });
    },
    /** Everything of it on the server, without what each release has of its own. */
    parts: () =>
      allOf(at.serviceName)
        .map((one) => one.replaceAll(at.name, "name").replaceAll(/[0-9a-f]{8,}/g, "*"))
        .sort(),
    /** What the database's container is made of, and whether it runs. */
    databaseState: () => docker("inspect", "--format", "{{.Config.Image}} {{.State.Status}}", database),
  };
}

describe("a first deployment with a database beside the service, killed at a line of its journal", () => {
  it(
    "is completed there and in another checkout: a database that works, one container, nothing else",
    async () => {
      const undisturbed = await killable();
      undisturbed.mine.step("one");
      const { steps } = await undisturbed.run(undisturbed.mine, undisturbed.image, 0);
      const expected = undisturbed.parts();
      expect(expected).toContain("volume name-dev.postgres");

      const failures: string[] = [];
      for (const { killAt, elsewhere } of killsOf(steps)) {
        const told = `${killAt}${elsewhere ? " elsewhere" : ""}`;
        const { at, mine, checkout, image, run, parts, start, expectStatuses, query } = await killable();
        mine.step("one");
        const { signal } = await run(mine, image, killAt);
        if (signal !== "SIGKILL") failures.push(`${told}: ended with ${signal}`);
        const next = elsewhere ? checkout() : mine;
        next.step("one");
        const made = await next.up({ flags: { postgres: image }, env: KEYS });
        const idle = await next.up({ flags: { postgres: image }, env: KEYS });

        if (idle.changed) failures.push(`${told}: not up to date after it`);
        if (made.release.env?.STEP !== "one") failures.push(`${told}: ${made.release.env?.STEP}`);
        for (const one of leftovers(at.serviceName, next.cwd)) failures.push(`${told}: ${one} is left`);
        if (parts().join("\n") !== expected.join("\n"))
          failures.push(`${told}: ${parts().join(", ")} instead of ${expected.join(", ")}`);
        await start("one");
        await expectStatuses({ one: "awaiting" }).catch(() => failures.push(`${told}: no job was started`));
        if (query("select count(*) from pg_tables where tablename ilike '%job%'") === "0")
          failures.push(`${told}: the jobs are not in the database`);
      }

      expect(failures).toEqual([]);
    },
    limitOf(600_000, SHARES),
  );
});

describe("another image of the database beside a service, killed at a line of its journal", () => {
  it(
    "is completed there and in another checkout: the job is there, and so is its backup",
    async () => {
      const { at, mine, checkout, image, run, parts, start, expectStatuses, databaseState } =
        await killable();
      const other = `${image}-again`;
      docker("tag", image, other);
      onTestFinished(() => void docker("image", "rm", "--force", other));
      const { run: back } = at.elsewhere();
      mine.step("one");
      await mine.up({ flags: { postgres: image }, env: KEYS });
      await start("one");
      await expectStatuses({ one: "awaiting" });
      const { steps } = await run(mine, other, 0);
      const expected = parts();
      let wanted = other;

      const failures: string[] = [];
      for (const { killAt, elsewhere } of killsOf(steps)) {
        const told = `${killAt}${elsewhere ? " elsewhere" : ""}`;
        wanted = wanted === image ? other : image;
        const { signal } = await run(mine, wanted, killAt);
        if (signal !== "SIGKILL") failures.push(`${told}: ended with ${signal}`);
        const next = elsewhere ? checkout() : mine;
        next.step("one");
        await next.up({ flags: { postgres: wanted }, env: KEYS });
        const idle = await next.up({ env: KEYS });

        if (idle.changed) failures.push(`${told}: not up to date after it`);
        if (databaseState() !== `${wanted} running`) failures.push(`${told}: ${databaseState()}`);
        for (const one of leftovers(at.serviceName, next.cwd)) failures.push(`${told}: ${one} is left`);
        // An earlier release may have been kept besides.
        const unexpected = parts().filter((one) => !expected.includes(one));
        if (unexpected.length > 0) failures.push(`${told}: ${unexpected}`);
        if (serving(at).length !== 1) failures.push(`${told}: ${at.running()}`);
        await expectStatuses({ one: "awaiting" }).catch(() => failures.push(`${told}: the job has vanished`));
        const copied = await back(`backup --to copy-${told.replace(" ", "-")}`);
        if (copied.code !== 0) failures.push(`${told}: no backup: ${copied.err}`);
      }

      expect(failures).toEqual([]);
    },
    limitOf(600_000, SHARES),
  );
});

describe("two first deployments of a service with a database beside it at the same time", () => {
  it("take turns: one is refused by the name of the other, and then finishes", async () => {
    const { at, mine, checkout, image, start, expectStatuses, parts } = await killable();
    const theirs = checkout();
    mine.step("mine");
    theirs.step("theirs");
    const up = (one: Checkout) => one.up({ flags: { postgres: image }, env: KEYS });

    const ran = await Promise.all([mine, theirs].map((one) => up(one).catch(failure)));
    const refused = ran.findIndex((one) => "code" in one);
    const made = await up([mine, theirs][refused]!);
    await start("one");
    await expectStatuses({ one: "awaiting" });

    expect(ran.filter((one) => "code" in one)).toEqual([
      expect.objectContaining({ code: "locked", message: expect.stringMatching(/svc deploy up/) }),
    ]);
    expect(ran.filter((one) => "changed" in one)).toEqual([expect.objectContaining({ changed: true })]);
    expect(made.release.env?.STEP).toBe(["mine", "theirs"][refused]);
    expect(serving(at).length).toBe(1);
    for (const one of [mine, theirs]) expect(leftovers(at.serviceName, one.cwd)).toEqual([]);
    expect(parts().filter((one) => one.startsWith("volume")).length).toBe(5);
  }, 300_000);
});
