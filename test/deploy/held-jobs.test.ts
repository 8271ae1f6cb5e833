import { describe, expect, it } from "vitest";
import type { CheckJobs, JobCheck } from "../../src/deploy/held-jobs.ts";
import { up } from "../../src/deploy/up.ts";
import { type Stage, stage, writeAll } from "./_fixture.ts";

const HELD: JobCheck = {
  known: true,
  jobs: 3,
  problems: ['one: held: recorded step "fetch", now step "load"'],
  unsure: [],
};
const FITS: JobCheck = { known: true, jobs: 3, problems: [], unsure: [] };
const UNSURE: JobCheck = { ...FITS, unsure: ['two: unsure: The handler has not made step "fetch"'] };
const UNKNOWN: JobCheck = { known: false, reason: "the code cannot be loaded" };

/** Deploys, with what a check of the open jobs finds; resolves with the jobs that it was given each time. */
async function deploy(at: Stage, found: JobCheck, options: Parameters<Stage["open"]>[0] = {}) {
  const asked: string[] = [];
  const check: CheckJobs = async (jobs) => {
    let text = "";
    for await (const bytes of jobs) text += Buffer.from(bytes).toString();
    asked.push(text);
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
  await deploy(at, FITS);
  writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
  return at;
}

const warnings = ({ events }: Stage) =>
  events.flatMap((event) => (event.type === "notice" && event.level === "warning" ? [event.message] : []));
const serving = (at: Stage) => at.world.read().services["hello-dev"]?.serving;

describe("the open jobs of the live service", () => {
  it("are not checked at a first deployment or where the code stays the same, and else as the service sends them", async () => {
    const at = await stage();
    const job = { job_id: "one", status: "awaiting" };

    const first = await deploy(at, FITS);
    at.world.change((world) => Object.assign(world, { jobs: { "hello-dev": [job] } }));
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    const second = await deploy(at, FITS);
    const unchanged = await deploy(at, HELD);
    writeAll(at.cwd, { "deploy.yaml": "variables: { MORE: yes-please }\n" });
    const other = await deploy(at, HELD);

    expect([first, unchanged, other]).toEqual([[], [], []]);
    expect(second).toEqual([`${JSON.stringify(job)}\n`]);
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

  it("are not checked where their loss with the disk was accepted", async () => {
    const at = await stage({ ephemeralDisk: true });
    await deploy(at, FITS);
    const jobs = { "hello-dev": [{ job_id: "one", status: "awaiting" }] };
    at.world.change((world) => Object.assign(world, { jobs }));
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    const before = serving(at);

    await expect(deploy(at, HELD)).rejects.toMatchObject({ code: "open_work", exitCode: 7 });
    const asked = await deploy(at, HELD, { acceptDataLoss: true });

    expect(asked).toEqual([]);
    expect(serving(at)).not.toEqual(before);
  });

  it.each([
    ["could not be checked", UNKNOWN, "the code cannot be loaded"],
    ["could not all be judged", UNSURE, 'two: unsure: The handler has not made step "fetch"'],
  ])("stop it where they %s, unless that was accepted", async (_, found, detail) => {
    const at = await live();
    const before = at.world.read();

    await expect(deploy(at, found)).rejects.toMatchObject({
      ...{ code: "held_jobs", exitCode: 8, detail, fix: expect.stringContaining("--held-jobs unchecked") },
    });
    const after = at.world.read();
    await deploy(at, found, { heldJobs: "unchecked" });

    expect([after.services, after.calls]).toEqual([before.services, before.calls]);
    expect(serving(at)).not.toEqual(before.services["hello-dev"]?.serving);
    expect(warnings(at)).toContainEqual(expect.stringContaining("as accepted by --held-jobs unchecked"));
  });

  it("stop it where the service does not send them", async () => {
    const at = await live();
    const { services } = at.world.read();
    at.world.change(({ faults }) => Object.assign(faults, { "open-jobs": "fail" }));

    await expect(deploy(at, FITS)).rejects.toMatchObject({
      ...{ exitCode: 8, detail: "it responded to /utils/open-jobs with 500" },
    });

    expect(at.world.read().services).toEqual(services);
  });

  it("stop it where some do not fit, also if only those of which it is not known were accepted", async () => {
    const at = await live();

    await expect(deploy(at, HELD, { heldJobs: "unchecked" })).rejects.toMatchObject({
      code: "held_jobs",
      message: expect.stringContaining("would not continue"),
    });
  });

  it("need no other check in a run that is resumed for the same code, as it may have stopped the service", async () => {
    const at = await live();
    const before = serving(at);
    at.world.change(({ faults }) => Object.assign(faults, { "image.build": "fail" }));
    await expect(deploy(at, FITS)).rejects.toMatchObject({ code: "failed" });
    at.world.change(({ faults }) => {
      delete faults["image.build"];
      faults["open-jobs"] = "fail";
    });

    writeAll(at.cwd, { "src/controller.ts": "export default { other: true };\n" });
    await expect(deploy(at, FITS)).rejects.toMatchObject({ exitCode: 8 });
    expect(serving(at)).toBe(before);
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    await deploy(at, FITS);

    expect(serving(at)).not.toBe(before);
  });
});
