import { describe, expect, it } from "vitest";
import type { CheckJobs, JobCheck } from "../../src/deploy/held-jobs.ts";
import { up } from "../../src/deploy/up.ts";
import { type Stage, stage, writeAll } from "./_fixture.ts";

const HELD: JobCheck = {
  known: true,
  jobs: 3,
  problems: ['one: held: recorded step "fetch", now step "load"'],
};

/** Deploys, with what a check of the open jobs finds; resolves with what it was asked for. */
async function deploy(at: Stage, found: JobCheck, options: Parameters<Stage["open"]>[0] = {}) {
  const asked: { url: string; key: string }[] = [];
  const check: CheckJobs = async (url, key) => {
    asked.push({ url, key });
    return found;
  };
  const deployment = await at.open({ generateApiKey: true, ...options });
  try {
    await up(deployment, async () => true, check);
  } finally {
    await deployment.close();
  }
  return asked;
}

/** A live service, and something new to deploy. */
async function live(): Promise<Stage> {
  const at = await stage();
  await deploy(at, { known: true, jobs: 0, problems: [] });
  writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
  return at;
}

const warnings = ({ events }: Stage) =>
  events.flatMap((event) => (event.type === "notice" && event.level === "warning" ? [event.message] : []));
const serving = (at: Stage) => at.world.read().services["hello-dev"]?.serving;

describe("the open jobs of the live service", () => {
  it("are not checked at a first deployment, and with its address and key at the next one", async () => {
    const at = await stage();
    const fits: JobCheck = { known: true, jobs: 3, problems: [] };

    const first = await deploy(at, fits);
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    const second = await deploy(at, fits);
    const unchanged = await deploy(at, HELD);

    expect([first, unchanged]).toEqual([[], []]);
    expect(second).toEqual([
      { url: expect.stringMatching(/^http.*hello-dev$/), key: expect.stringMatching(/.{20}/) },
    ]);
    expect(warnings(at)).not.toContainEqual(expect.stringContaining(second[0]!.key));
  });

  it("stop the deployment where the new code does not fit them: nothing is changed", async () => {
    const at = await live();
    const before = at.world.read();

    const stopped = deploy(at, HELD);

    await expect(stopped).rejects.toMatchObject({
      ...{ code: "held_jobs", exitCode: 8 },
      message: '1 of 3 open jobs on "hello-dev" would not continue under the new code',
      detail: 'one: held: recorded step "fetch", now step "load"',
    });
    expect(at.world.read().services).toEqual(before.services);
    expect(at.world.read().calls).toEqual(before.calls);
  });

  it("do not stop it where that was accepted, and it is reported", async () => {
    const at = await live();
    const before = serving(at);

    await deploy(at, HELD, { heldJobs: "ok" });

    expect(serving(at)).not.toEqual(before);
    expect(warnings(at)).toContainEqual(expect.stringContaining("as accepted by --held-jobs ok"));
  });

  it("do not stop it where they could not be checked, and it is reported why", async () => {
    const at = await live();
    const before = serving(at);

    await deploy(at, { known: false, reason: "the service has no such route" });

    expect(serving(at)).not.toEqual(before);
    expect(warnings(at)).toContainEqual(
      "Its open jobs were not checked against the new code: the service has no such route",
    );
  });
});
