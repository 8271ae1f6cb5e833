import { describe, expect, it } from "vitest";
import { down } from "../../src/deploy/down.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { up } from "../../src/deploy/up.ts";
import type { Stage } from "./_fixture.ts";
import { stage, writeAll } from "./_fixture.ts";

const yes = async () => true;

async function deploy(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open({ generateApiKey: true, showApiKey: true, ...args[0] }, args[1]);
  try {
    return await up(deployment, yes);
  } finally {
    await deployment.close();
  }
}

/** A service whose disk does not last, with a job that runs and one that asks, and something new to deploy. */
async function busy(options: Parameters<typeof stage>[0] = {}): Promise<Stage> {
  const at = await stage({ predictable: true, ephemeralDisk: true, ...options });
  await deploy(at);
  writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
  begin(at, "running-1", "in_progress");
  begin(at, "asking-1", "awaiting");
  return at;
}

function begin(at: Stage, job_id: string, status: string): void {
  at.world.change((world) => {
    const jobs = world.jobs?.["hello-dev"] ?? [];
    Object.assign(world, { jobs: { ...world.jobs, "hello-dev": [...jobs, { job_id, status }] } });
  });
}

const end = (at: Stage) => at.world.change((world) => Object.assign(world, { jobs: {} }));
const serving = (at: Stage) => at.world.read().services["hello-dev"]?.serving;
const notices = (at: Stage) => at.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));

describe("a service with open jobs on an ephemeral disk", () => {
  it("is not replaced: the jobs are listed, and nothing is changed", async () => {
    const at = await busy();
    const before = at.world.read().calls;

    const stopped = deploy(at);

    await expect(stopped).rejects.toMatchObject({
      code: "open_work",
      exitCode: 7,
      message: expect.stringMatching(/1 job has not ended and 1 question is open/),
      detail: "running-1: in_progress\nasking-1: awaiting",
      fix: expect.stringContaining("--accept-data-loss"),
      facts: { open_work: { known: true, total: 2 } },
    });
    expect(at.world.read().calls).toEqual(before);
  });

  it("is replaced once their loss is accepted, which is reported", async () => {
    const at = await busy();

    const outcome = await deploy(at, { acceptDataLoss: true });

    expect(outcome).toMatchObject({ changed: true, openWork: { known: true, total: 2 } });
    expect(notices(at).join("\n")).toMatch(/1 job has not ended .* --accept-data-loss/);
  });

  it("is replaced once they have ended", async () => {
    const at = await busy();
    end(at);

    await deploy(at);

    expect(serving(at)).toBe("r2");
  });

  it("is checked again right before the release, as the build takes time", async () => {
    const at = await busy();
    end(at);
    const deployment = await at.open({ generateApiKey: true, showApiKey: true });
    const build = deployment.session.build?.bind(deployment.session);
    Object.assign(deployment.session, {
      async build(...args: Parameters<NonNullable<typeof build>>) {
        begin(at, "late-1", "in_progress");
        return build?.(...args);
      },
    });

    await expect(up(deployment, yes)).rejects.toMatchObject({
      code: "open_work",
      detail: "late-1: in_progress",
    });
    expect(serving(at)).toBe("r1");
  });

  it.each([
    ["by an option", { acceptEphemeralDisk: true }, ""],
    ["by deploy.yaml", {}, "store: file\n"],
  ])("is not replaced in prod either, where its disk was accepted %s", async (_, options, store) => {
    const at = await stage({ predictable: true, ephemeralDisk: true });
    writeAll(at.cwd, { "deploy.yaml": `platform: memory\nname: hello\n${store}` });
    const prod = { env: "prod", ...options };
    await deploy(at, prod);
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    at.world.change((world) =>
      Object.assign(world, { jobs: { "hello-prod": [{ job_id: "asking-1", status: "awaiting" }] } }),
    );

    await expect(deploy(at, prod)).rejects.toMatchObject({ code: "open_work", exitCode: 7 });
    await deploy(at, { ...prod, acceptDataLoss: true });

    expect(at.world.read().services["hello-prod"]?.serving).toBe("r2");
  });

  it("counts as busy if it cannot be reached", async () => {
    const at = await busy({ readable: false });
    end(at);

    await expect(deploy(at)).rejects.toMatchObject({
      code: "open_work",
      message: expect.stringMatching(/unknown .*: its key is unknown here/),
      fix: expect.stringContaining("SERVICE_API_KEY"),
    });
    const wrong = deploy(at, {}, { env: { PATH: process.env.PATH, SERVICE_API_KEY: "another" } });
    await expect(wrong).rejects.toThrow(/rejects the key/);
    expect(serving(at)).toBe("r1");
  });

  it("is checked with the key that the platform stores if the local one is new", async () => {
    const at = await busy();

    const env = { PATH: process.env.PATH, SERVICE_API_KEY: "a-new-key" };

    await expect(deploy(at, {}, { env })).rejects.toMatchObject({ facts: { open_work: { total: 2 } } });
  });

  it("is not rolled back", async () => {
    const at = await busy();
    end(at);
    await deploy(at);
    begin(at, "running-2", "in_progress");
    const deployment = await at.open();

    const stopped = rollback(deployment, { to: undefined, consent: yes });

    await expect(stopped).rejects.toMatchObject({ code: "open_work", detail: "running-2: in_progress" });
    expect(serving(at)).toBe("r2");
  });
});

describe("a service with open jobs", () => {
  it("is not removed, on any disk", async () => {
    const at = await busy({ ephemeralDisk: false });
    const stopping = await at.open();

    await expect(down(stopping, yes)).rejects.toMatchObject({
      code: "open_work",
      message: expect.stringContaining("removed"),
    });
    await stopping.close();
    const accepted = await at.open({ acceptDataLoss: true });
    const { removed, openWork } = await down(accepted, yes);

    expect(removed).toContain("service hello-dev");
    expect(openWork).toMatchObject({ total: 2 });
  });

  it("is replaced without a question if its disk is persistent, or its store is outside", async () => {
    const lasting = await busy({ ephemeralDisk: false });
    await deploy(lasting);
    const outside = await stage({ predictable: true, ephemeralDisk: true });
    writeAll(outside.cwd, { ".deployment/config.yaml": "store: external" });
    await deploy(outside);
    begin(outside, "running-1", "in_progress");
    writeAll(outside.cwd, { "src/controller.ts": "export default { next: true };\n" });
    await deploy(outside);

    expect([serving(lasting), serving(outside)]).toEqual(["r2", "r2"]);
  });

  it("is not replaced by one that would store its jobs elsewhere: its own would still be lost", async () => {
    const at = await busy();
    writeAll(at.cwd, { ".deployment/config.yaml": "store: external" });

    await expect(deploy(at)).rejects.toMatchObject({ code: "open_work" });
  });

  it("whose first release failed has none, and is fixed without a question", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true, readable: false });
    writeAll(at.cwd, { ".deployment/config.yaml": 'environment: {SICK: "500"}' });
    await deploy(at).catch(() => undefined);
    writeAll(at.cwd, { ".deployment/config.yaml": "environment: {OK: yes}" });

    const { result } = await deploy(at);

    expect(result.success).toBe(true);
  });
});
