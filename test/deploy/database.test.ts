// @long
import { describe, expect, it } from "vitest";
import { describeContinued } from "../../src/deploy/continued.ts";
import { prepare } from "../../src/deploy/plan.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { up } from "../../src/deploy/up.ts";
import { svc } from "./_cli.ts";
import type { Stage } from "./_fixture.ts";
import { allText, stage, temporaryProject, writeAll } from "./_fixture.ts";

const URL = "postgres://agents:pass-word-of-db@db.example.com:5432/agents";
const PROJECT = {
  "package.json": JSON.stringify({ name: "hello", type: "module", dependencies: { pg: "^8.0.0" } }),
  "src/controller.ts": "export default {};\n",
};
const GIVEN = { env: { PATH: process.env.PATH, SERVICE_DATABASE_URL: URL } };
const KEYS = { generateApiKey: true, generateRsa: true };

/** A project that needs `pg`, and a platform that wipes files. */
async function withPg(): Promise<Stage> {
  const at = await stage({ predictable: true, ephemeralDisk: true });
  writeAll(at.cwd, PROJECT);
  return at;
}

async function deploy(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open({ ...KEYS, ...args[0] }, args[1]);
  try {
    const outcome = await up(deployment, async () => true);
    return { ...outcome, flags: deployment.target.flags };
  } finally {
    await deployment.close();
  }
}

async function flagsOf(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open({ ...KEYS, ...args[0] }, args[1]);
  await prepare(deployment);
  await deployment.close();
  return deployment.target.flags;
}

const newest = (at: Stage) => at.world.read().services["hello-dev"]?.revisions.at(-1);
const notices = (at: Stage) => at.events.flatMap((event) => (event.type === "notice" ? [event.message] : []));

describe("a service with a database among its secrets", () => {
  it("is deployed to prod without a warning of lost jobs, and may have several instances", async () => {
    const at = await withPg();

    const { result } = await deploy(at, { env: "prod" }, GIVEN);
    const chosen = await flagsOf(at, {}, { ...GIVEN, flags: { maxInstances: 7 } });

    expect(result.success).toBe(true);
    expect(notices(at).join()).not.toMatch(/wipes|accept-data-loss/);
    expect(chosen.maxInstances).toBe(7);
  });

  it("is planned where nobody knows the URL, as a pipeline does, and not where it will be deployed", async () => {
    const at = await withPg();
    writeAll(at.cwd, {
      "deploy.yaml":
        "platform: memory\nname: hello\ngenerateApiKey: true\ngenerateRsa: true\nsecrets:\n  SERVICE_DATABASE_URL:\n",
    });

    const read = await svc(at, "plan --read-only --no-check");
    const other = await svc(at, "plan --no-check");
    const wrong = await svc(at, "plan --read-only --no-check", {
      env: { ...GIVEN.env, SERVICE_DATABASE_URL: "mysql://db.example.com" },
    });

    expect(read).toMatchObject({ code: 0, out: expect.stringMatching(/CREATE.*SERVICE_DATABASE_URL/) });
    expect(other).toMatchObject({
      code: 2,
      err: expect.stringContaining("SERVICE_DATABASE_URL has no value"),
    });
    expect(wrong.err).toContain("SERVICE_DATABASE_URL must be postgres://");
  });

  it("gets the platform's scaling when it is new, and keeps what runs from then on", async () => {
    const at = await withPg();

    const first = await deploy(at, {}, GIVEN);
    const least = await flagsOf(at, { name: "other" }, { ...GIVEN, flags: { minInstances: 5 } });
    const later = await flagsOf(at);

    expect(first.flags.maxInstances).toBe(3);
    expect(least).toMatchObject({ minInstances: 5, maxInstances: 5 });
    expect(later.maxInstances).toBeUndefined();
  });

  it("gets the platform's scaling when it moves from files to the database", async () => {
    const at = await withPg();
    await deploy(at);

    const moved = await deploy(at, {}, GIVEN);

    expect(moved.flags.maxInstances).toBe(3);
    expect(newest(at)?.secrets).toMatchObject({ SERVICE_DATABASE_URL: "SERVICE_DATABASE_URL:1" });
  });

  it("keeps the database when it is deployed from a checkout that does not know it", async () => {
    const at = await withPg();
    await deploy(at, {}, GIVEN);
    const fresh = temporaryProject({ ...PROJECT, "src/controller.ts": "export default { next: true };\n" });

    await deploy(at, { env: "dev" }, { cwd: fresh });
    writeAll(fresh, { ".deployment/config.yaml": "environment: {A: b}\n" });
    await deploy(at, { env: "dev" }, { cwd: fresh, flags: { maxInstances: 4 } });

    expect(newest(at)).toMatchObject({ name: "r3", env: { A: "b" } });
    expect(newest(at)?.secrets).toHaveProperty("SERVICE_DATABASE_URL");
    expect(notices(at).join()).not.toMatch(/wipes/);
  });

  it("goes back to files only where the configuration says so", async () => {
    const at = await withPg();
    await deploy(at, {}, GIVEN);
    writeAll(at.cwd, { ".deployment/config.yaml": "store: file\n" });

    const both = deploy(at, {}, GIVEN);
    await expect(both).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining("store: file"),
    });
    await deploy(at);

    expect(newest(at)?.secrets).not.toHaveProperty("SERVICE_DATABASE_URL");
    expect(notices(at).join()).toMatch(/wipes[\s\S]*they wait there/);
  });

  it.each([
    ["says that its jobs wait there when it is rolled back to a release without it", {}, true],
    ["says nothing of that when the earlier release has it, too", GIVEN, false],
  ])("%s", async (_, before, warns) => {
    const at = await withPg();
    await deploy(at, {}, before);
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    await deploy(at, {}, GIVEN);
    const deployment = await at.open({ acceptDataLoss: true }, GIVEN);

    await rollback(deployment, { to: undefined, consent: async () => true });

    await deployment.close();
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r1");
    expect(notices(at).some((message) => message.includes("they wait there"))).toBe(warns);
  });

  it("does not take a URL from the environment where the configuration says that jobs are elsewhere", async () => {
    const at = await withPg();
    writeAll(at.cwd, { ".deployment/config.yaml": "store: external\n" });

    await deploy(at, {}, GIVEN);

    expect(newest(at)?.env).toMatchObject({ SERVICE_STORE: "external" });
    expect(newest(at)?.secrets).not.toHaveProperty("SERVICE_DATABASE_URL");
  });

  it("is not asked for open jobs before it is replaced: they are in the database", async () => {
    const at = await withPg();
    await deploy(at, {}, GIVEN);
    at.world.change((world) =>
      Object.assign(world, { jobs: { "hello-dev": [{ job_id: "job-1", status: "in_progress" }] } }),
    );
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });

    const { result } = await deploy(at);

    expect(result.success).toBe(true);
  });

  it("has its URL in the vault alone: not in the plan, the variables, the state, the log or what is shown", async () => {
    const at = await withPg();

    const { plan } = await deploy(at, {}, GIVEN);

    const { secrets, ...world } = at.world.read();
    expect(secrets["hello-dev"]?.SERVICE_DATABASE_URL?.value).toBe(URL);
    expect(plan.target_secrets).toHaveProperty("SERVICE_DATABASE_URL", "***");
    for (const text of [JSON.stringify([plan, world, at.events]), allText(at.cwd)])
      expect(text).not.toMatch(/pass-word-of-db/);
  });
});

describe("a service with a database that could not start", () => {
  const refused = async (at: Stage, ...args: Parameters<Stage["open"]>) => {
    const deployment = await at.open(...args);
    return up(deployment, async () => true).catch((error: unknown) => error);
  };

  it("is refused before the build where the keys that all instances need are missing", async () => {
    const at = await withPg();

    const error = await refused(at, { generateApiKey: true }, GIVEN);

    expect(error).toMatchObject({
      exitCode: 5,
      message: expect.stringMatching(/SERVICE_RSA_PRIVATE_KEY is missing/),
      fix: expect.stringContaining("--generate-rsa"),
    });
    expect(at.world.read().calls).toEqual([]);
  });

  it("is refused before the build where the project lacks the package", async () => {
    const at = await stage({ predictable: true });

    const error = await refused(at, KEYS, GIVEN);

    expect(error).toMatchObject({ exitCode: 5, fix: "npm install pg" });
    expect(at.world.read().calls).toEqual([]);
  });

  it("is refused where the URL is not one of Postgres, without showing it", async () => {
    const at = await withPg();
    const env = { ...GIVEN.env, SERVICE_DATABASE_URL: "mysql://agents:pass-word-of-db@db/agents" };

    const error = await refused(at, KEYS, { env });

    expect(error).toMatchObject({ exitCode: 5, message: expect.stringContaining("must be postgres://") });
    expect(JSON.stringify([error, at.events])).not.toMatch(/pass-word-of-db/);
  });

  it("is warned of where the URL leads to the container itself", async () => {
    const at = await withPg();
    const env = { ...GIVEN.env, SERVICE_DATABASE_URL: "postgres://agents@localhost/agents" };

    await deploy(at, {}, { env });

    expect(notices(at).join()).toMatch(/leads to localhost/);
  });
});

describe("a release with a database", () => {
  /** Releases it with jobs that are open before and after. */
  async function withJobs(before: readonly object[], after: readonly object[]) {
    const at = await withPg();
    await deploy(at, {}, GIVEN);
    const jobs = (now: readonly object[]) =>
      at.world.change((world) => Object.assign(world, { jobs: { "hello-dev": now } }));
    jobs(before);
    writeAll(at.cwd, { "src/controller.ts": "export default { next: true };\n" });
    const deployment = await at.open(KEYS);
    const release = deployment.session.release.bind(deployment.session);
    deployment.session.release = async (spec) => {
      jobs(after);
      return release(spec);
    };
    const { continued } = await up(deployment, async () => true);
    return { continued, notices: notices(at) };
  }

  it("counts the jobs that continued, and names those that are held since", async () => {
    const job = (job_id: string, status: string, stop_reason?: string) => ({ job_id, status, stop_reason });
    const before = [
      job("runs", "in_progress"),
      job("asks", "awaiting"),
      job("ends", "in_progress"),
      job("misfit", "in_progress"),
      job("old-misfit", "awaiting", "code_changed"),
    ];
    const after = [
      ...before.filter(({ job_id }) => !["ends", "misfit"].includes(job_id)),
      job("misfit", "awaiting", "code_changed"),
      job("new", "in_progress"),
    ];

    const { continued, notices } = await withJobs(before, after);

    expect(continued).toEqual({ continued: 3, ended: 1, held: ["misfit"] });
    expect(describeContinued(continued!)).toBe("3 jobs continued, 1 of them has ended");
    expect(notices.join()).toMatch(/Held since the release: misfit$/);
  });

  it("is rolled back where its instances have run no probe job: they keep jobs elsewhere", async () => {
    const at = await withPg();
    await deploy(at, {}, GIVEN);
    writeAll(at.cwd, { ".deployment/config.yaml": 'environment: {SICK: "no probe"}\n' });

    const failed = deploy(at);

    await expect(failed).rejects.toMatchObject({
      exitCode: 3,
      detail: expect.stringContaining("no probe job"),
    });
    expect(at.world.read().services["hello-dev"]?.serving).toBe("r1");
  });
});
