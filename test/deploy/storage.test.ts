// @long
import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { ResourceAction } from "../../src/core/models/deployment.ts";
import { doctor } from "../../src/deploy/doctor.ts";
import { down } from "../../src/deploy/down.ts";
import { composeFile } from "../../src/deploy/export/compose.ts";
import { rollback } from "../../src/deploy/rollback.ts";
import { newRsaKey } from "../../src/deploy/secrets.ts";
import { up } from "../../src/deploy/up.ts";
import { svc } from "./_cli.ts";
import type { Stage } from "./_fixture.ts";
import { stage, writeAll } from "./_fixture.ts";

const KEYS = { generateApiKey: true, generateRsa: true };
const CREATED = "gs://hello-dev-bucket/store";
const S3 = "s3://elsewhere/agents?region=eu-central-1";
const JOB = [{ job_id: "job-1", status: "awaiting" }];
const PG = JSON.stringify({ name: "hello", type: "module", dependencies: { pg: "^8.0.0" } });
const DATABASE = {
  env: { PATH: process.env.PATH, SERVICE_DATABASE_URL: "postgres://agents@db.example.com/agents" },
};

const cloud = () => stage({ predictable: true, ephemeralDisk: true, buckets: true });

async function deploy(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open({ ...KEYS, ...args[0] }, args[1]);
  try {
    const outcome = await up(deployment, async () => true);
    return { ...outcome, flags: deployment.target.flags };
  } finally {
    await deployment.close();
  }
}

async function remove(at: Stage, ...args: Parameters<Stage["open"]>) {
  const deployment = await at.open({ acceptDataLoss: true, ...args[0] }, args[1]);
  try {
    const { removed, left } = await down(deployment, async () => true);
    return { removed, kept: keysIn(left) };
  } finally {
    await deployment.close();
  }
}

const keysIn = (left: readonly ResourceAction[]) =>
  left.flatMap(({ resource_type, resource_name }) => (resource_type === "secret" ? [resource_name] : []));

/** Keys without which jobs cannot be read. */
const OWN = ["SERVICE_ENCRYPTION_KEYS", "SERVICE_RSA_PRIVATE_KEY"];
const ENCRYPTED = {
  env: { PATH: process.env.PATH, SERVICE_ENCRYPTION_KEYS: `a:${randomBytes(32).toString("base64")}` },
};

const setJobs = (at: Stage, jobs: readonly object[]) =>
  at.world.change((world) => Object.assign(world, { jobs: { "hello-dev": jobs } }));
const change = (at: Stage) => writeAll(at.cwd, { "src/controller.ts": `export default ${Math.random()};\n` });
const newest = (at: Stage) => at.world.read().services["hello-dev"]?.revisions.at(-1);
const notices = (at: Stage) =>
  at.events.flatMap((event) => (event.type === "notice" ? [event.message] : [])).join("\n");

describe("a service with a bucket", () => {
  it("is deployed to prod without a warning of lost jobs, with one instance and the price of the bucket", async () => {
    const at = await cloud();

    const { result, plan, flags } = await deploy(at, { env: "prod", storage: "create" });

    expect(result.success).toBe(true);
    expect(notices(at)).not.toMatch(/wipes|accept-data-loss/);
    expect(flags.maxInstances).toBe(1);
    expect(plan.total_cost_estimate).toMatch(/USD 0\.00 a month.*; the bucket about \$0\.20 a month/);
    expect(plan.target_env_vars.SERVICE_STORAGE_URL).toBe("gs://hello-prod-bucket/store");
  });

  it("gets its bucket once it was agreed to, before the build", async () => {
    const at = await cloud();
    const deployment = await at.open({ ...KEYS, storage: "create" });

    await expect(up(deployment, async () => false)).rejects.toMatchObject({ code: "declined" });
    expect(at.world.read().calls).toEqual([]);
    await deployment.close();
    await deploy(at, { storage: "create" });

    const { calls } = at.world.read();
    expect(calls.indexOf("bucket.create")).toBeGreaterThanOrEqual(0);
    expect(calls.indexOf("bucket.create")).toBeLessThan(calls.indexOf("image.build"));
  });

  it("keeps it when the option is omitted, and its open jobs continue", async () => {
    const at = await cloud();
    await deploy(at, { storage: "create" });
    setJobs(at, JOB);
    change(at);

    const { continued, openWork, flags } = await deploy(at);

    expect(newest(at)).toMatchObject({ name: "r2", env: { SERVICE_STORAGE_URL: CREATED } });
    expect(continued).toEqual({ continued: 1, ended: 0, held: [] });
    expect(openWork).toBeUndefined();
    expect(flags.maxInstances).toBeUndefined();
  });

  it("is not replaced by code that its open jobs do not fit", async () => {
    const at = await cloud();
    await deploy(at, { storage: "create" });
    change(at);
    const check = async () => ({
      ...{ known: true as const, jobs: 1, problems: ["job-1: another call"], unsure: [] },
    });

    const failed = up(await at.open(KEYS), async () => true, check);

    await expect(failed).rejects.toMatchObject({ code: "held_jobs" });
    expect(newest(at)?.name).toBe("r1");
  });

  it("has at most one instance", async () => {
    const at = await cloud();

    const two = at.open({ storage: "create" }, { flags: { maxInstances: 2 } });
    await expect(two).rejects.toMatchObject({ code: "usage", message: expect.stringMatching(/at most one/) });
    await deploy(at, { storage: "create" });

    await expect(deploy(at, {}, { flags: { maxInstances: 2 } })).rejects.toMatchObject({ code: "usage" });
  });

  it.each([
    ["its API key", { generateRsa: true, generateApiKey: false }, /SERVICE_API_KEY is missing/],
    ["its RSA key", { generateRsa: false, generateApiKey: true }, /SERVICE_RSA_PRIVATE_KEY is missing/],
  ])("is refused before anything is made where %s is missing", async (_, keys, message) => {
    const at = await cloud();

    const failed = deploy(at, { ...keys, storage: "create" });

    await expect(failed).rejects.toMatchObject({ exitCode: 5, message: expect.stringMatching(message) });
    expect(at.world.read().calls).toEqual([]);
  });

  it("is refused where the platform gives no access to it and its keys are no secrets, then takes them", async () => {
    const at = await cloud();
    const env = { PATH: process.env.PATH, BUCKET_ID: "AKIDEXAMPLE", BUCKET_SECRET: "bucket-secret-1" };

    const failed = deploy(at, { storage: S3 });
    await expect(failed).rejects.toMatchObject({
      exitCode: 5,
      message: expect.stringMatching(/AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is missing/),
    });
    expect(at.world.read().calls).toEqual([]);
    writeAll(at.cwd, {
      "deploy.yaml": `storage: ${S3}\nsecrets:\n  AWS_ACCESS_KEY_ID: { env: BUCKET_ID }\n  AWS_SECRET_ACCESS_KEY: { env: BUCKET_SECRET }\n`,
    });
    await deploy(at, {}, { env });

    expect(newest(at)?.env.SERVICE_STORAGE_URL).toBe(S3);
    expect(newest(at)?.secrets).toHaveProperty("AWS_SECRET_ACCESS_KEY");
    expect(at.world.read().calls).not.toContain("bucket.create");
  });

  it("of Azure is refused without a key among the secrets, then takes one", async () => {
    const at = await cloud();
    const storage = "azblob://mycompany/agents";

    await expect(deploy(at, { storage })).rejects.toMatchObject({
      exitCode: 5,
      message: expect.stringMatching(/neither AZURE_STORAGE_SAS_TOKEN nor AZURE_STORAGE_KEY is a secret/),
    });
    writeAll(at.cwd, {
      "deploy.yaml": `storage: ${storage}\nsecrets:\n  AZURE_STORAGE_SAS_TOKEN: { env: SAS }\n`,
    });
    await deploy(at, {}, { env: { PATH: process.env.PATH, SAS: "sv=2021&sig=bucket-secret-1" } });

    expect(newest(at)?.env.SERVICE_STORAGE_URL).toBe(storage);
    expect(newest(at)?.secrets).toHaveProperty("AZURE_STORAGE_SAS_TOKEN");
  });

  it.each([
    ["ftp://bucket/prefix", /must be|must look like/],
    ["s3://key:secret@bucket/prefix", /has credentials/],
    ["gs://bucket/prefix?region=eu", /unknown parameter "region"/],
    ["file:///data", /must be|does not last/],
  ])("is not taken from %s", async (storage, message) => {
    const at = await cloud();

    const failed = at.open({ storage });

    await expect(failed).rejects.toMatchObject({ code: "usage", message: expect.stringMatching(message) });
    await expect(failed).rejects.not.toThrow(/key:secret/);
  });

  it("cannot be created where the platform has none", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true });

    const failed = deploy(at, { storage: "create" });

    await expect(failed).rejects.toMatchObject({ code: "usage", fix: expect.stringContaining("endpoint") });
  });

  it("has no other store besides, and its URL only from the option", async () => {
    const at = await cloud();

    const database = deploy(at, { storage: "create" }, DATABASE);
    await expect(database).rejects.toMatchObject({
      message: expect.stringContaining("SERVICE_DATABASE_URL"),
    });
    writeAll(at.cwd, { "deploy.yaml": "store: file\nstorage: create\n" });
    await expect(deploy(at)).rejects.toMatchObject({ message: expect.stringContaining("store: file") });
    writeAll(at.cwd, { "deploy.yaml": "variables: { SERVICE_STORAGE_URL: gs://a-bucket/b }\n" });

    await expect(deploy(at)).rejects.toMatchObject({
      message: expect.stringContaining("the option storage"),
    });
  });

  it("is warned of where a write is acknowledged before it is in the bucket, on a disk that does not last", async () => {
    const at = await cloud();
    writeAll(at.cwd, { "deploy.yaml": "storage: create\nvariables: { SERVICE_DURABILITY: disk }\n" });

    await deploy(at);

    expect(notices(at)).toMatch(/SERVICE_DURABILITY is "disk"/);
  });

  it("is removed without its bucket", async () => {
    const at = await cloud();
    await deploy(at, { storage: "create" });
    setJobs(at, JOB);

    const { removed, openWork } = await down(await at.open(), async (plan) => {
      expect(plan.actions).toContainEqual(
        expect.objectContaining({ resource_type: "bucket", action_type: "noop", resource_name: CREATED }),
      );
      return true;
    });

    expect(removed.join()).not.toMatch(/bucket/);
    expect(openWork).toBeUndefined();
  });

  it("leaves the keys that read its jobs, which the next deployment has", async () => {
    const at = await cloud();
    writeAll(at.cwd, { "deploy.yaml": "secrets: { SERVICE_ENCRYPTION_KEYS: {} }\n" });
    await deploy(at, { storage: "create" }, ENCRYPTED);
    const before = at.world.read().secrets["hello-dev"]!;

    const first = await remove(at);
    const again = await remove(at);
    const left = at.world.read().secrets["hello-dev"]!;
    await deploy(at, { storage: "create" });

    expect(first).toMatchObject({
      removed: expect.not.arrayContaining(["secret SERVICE_RSA_PRIVATE_KEY"]),
      kept: OWN,
    });
    expect(again).toMatchObject({ removed: [], kept: OWN });
    expect(left).toEqual(Object.fromEntries(OWN.map((name) => [name, before[name]])));
    expect(newest(at)!.secrets).toMatchObject(
      Object.fromEntries(OWN.map((name) => [name, expect.any(String)])),
    );
    expect(at.world.read().secrets["hello-dev"]).toMatchObject(left);
  });

  it("is removed with these keys where that is asked for, also later; without a bucket, nothing stays", async () => {
    const at = await cloud();
    await deploy(at, { storage: "create" });
    const [kept, gone] = [await remove(at), await remove(at, { removeKeys: true })];
    const late = at.world.read().secrets["hello-dev"];
    await deploy(at, { storage: "create" });
    const whole = await remove(at, { removeKeys: true });
    await deploy(at);
    const files = await remove(at);

    expect([kept.kept.length, gone.removed, late]).toEqual([1, ["secret SERVICE_RSA_PRIVATE_KEY"], {}]);
    for (const { removed, kept } of [whole, files]) {
      expect(kept).toEqual([]);
      expect(removed).toContain("secret SERVICE_RSA_PRIVATE_KEY");
    }
    expect(at.world.read().secrets["hello-dev"]).toEqual({});
  });

  it("is not removed where its keys would end with it, unless they are known or given up", async () => {
    const at = await stage({ predictable: true, ephemeralDisk: true, buckets: true, endsSecrets: true });
    const key = newRsaKey();
    const env = { PATH: process.env.PATH, SERVICE_RSA_PRIVATE_KEY: key };
    await deploy(at, { storage: "create" });
    const refused = await remove(at).catch((error: unknown) => error);
    const other = await remove(at, {}, { env }).catch((error: unknown) => error);
    const given = await remove(at, { removeKeys: true });
    await deploy(at, { storage: "create" }, { env });
    const known = await remove(at, {}, { env });

    for (const error of [refused, other])
      expect(error).toMatchObject({
        code: "open_work",
        message: expect.stringContaining("would be lost: SERVICE_RSA_PRIVATE_KEY"),
        fix: expect.stringContaining("--remove-keys"),
      });
    expect([given, known].map(({ removed }) => removed.includes("service hello-dev"))).toEqual([true, true]);
  });

  it("has a folder that it can write to where it is run by compose", () => {
    const env = { SERVICE_STORAGE_URL: CREATED };

    const file = composeFile({ image: "hello", port: 8000, env, secrets: {} });

    expect(parse(file).services.service).toMatchObject({ read_only: true, volumes: ["data:/data"] });
  });

  it("is what doctor checks", async () => {
    const at = await cloud();

    const good = await doctor(await at.open({ storage: "create" }));
    const bad = await doctor(await at.open({ storage: S3 }));

    expect(good).toContainEqual({ level: "ok", subject: "Bucket", message: CREATED });
    expect(bad).toContainEqual(expect.objectContaining({ level: "error", subject: "Bucket" }));
  });
});

describe("the option --storage", () => {
  const typed = "--platform memory --name hello --storage create";

  it("is what a deployment, its plan and doctor take from the command line", async () => {
    const at = await cloud();
    const up = "up --yes --generate-api-key --generate-rsa";

    const planned = await svc(at, `plan ${typed} --generate-api-key --generate-rsa`);
    const checked = await svc(at, `doctor ${typed}`);
    const made = await svc(at, `${up} ${typed}`);
    setJobs(at, JOB);
    const gone = await svc(at, "down --yes --platform memory --name hello");

    expect(planned.out).toMatch(/Cost .*the bucket about \$0\.20 a month/);
    expect(checked.out).toContain(CREATED);
    expect(made.code).toBe(0);
    expect(at.world.read().prepared).toContain(CREATED);
    expect(gone.out).toMatch(
      /was removed.*bucket .* stays, with the jobs in it.*secret SERVICE_RSA_PRIVATE_KEY +stays.*--remove-keys/s,
    );
  });
});

describe("a service whose jobs move", () => {
  const other = { storage: "gs://another/store" };
  it.each([
    ["from files to a bucket", {}, {}, { storage: "create" }, {}, "its files are deleted"],
    ["from a bucket to another", { storage: "create" }, {}, other, {}, `they stay in ${CREATED}`],
    ["from a bucket to a database", { storage: "create" }, {}, {}, DATABASE, `they stay in ${CREATED}`],
    ["from a database to a bucket", {}, DATABASE, { storage: "create" }, {}, "they stay in a database"],
  ])("%s is refused while jobs are open, and not without them", async (_, one, first, two, second, fate) => {
    const at = await cloud();
    writeAll(at.cwd, { "package.json": PG });
    await deploy(at, one, first);
    setJobs(at, JOB);

    const failed = deploy(at, two, second);

    await expect(failed).rejects.toMatchObject({
      code: "open_work",
      message: expect.stringContaining(fate),
      detail: "job-1: awaiting",
    });
    expect(newest(at)?.name).toBe("r1");
    setJobs(at, []);
    const { plan } = await deploy(at, two, second);
    expect(newest(at)?.name).toBe("r2");
    expect(notices(at)).toMatch(/has its jobs in .*, and the new release does not use it/);
    expect(JSON.stringify(plan.actions)).toMatch(/SERVICE_STORAGE_URL/);
  });

  it("leaves a bucket for files where the configuration says so, and takes nothing of it along", async () => {
    const at = await cloud();
    writeAll(at.cwd, { "deploy.yaml": "storage: create\nvariables: { SERVICE_DURABILITY: bucket }\n" });
    await deploy(at);
    writeAll(at.cwd, { "deploy.yaml": "store: file\n" });

    await deploy(at);

    expect(newest(at)?.env).not.toHaveProperty("SERVICE_STORAGE_URL");
    expect(newest(at)?.env).not.toHaveProperty("SERVICE_DURABILITY");
    expect(notices(at)).toMatch(/wipes/);
  });

  it("counts none of the jobs that it was agreed to leave as continued", async () => {
    const at = await cloud();
    await deploy(at, { storage: "create" });
    setJobs(at, JOB);

    const { continued } = await deploy(at, { ...other, acceptDataLoss: true });

    expect(continued).toBeUndefined();
    expect(notices(at)).toMatch(/as accepted by --accept-data-loss/);
  });

  it("is not rolled back to a release with another store while jobs are open", async () => {
    const at = await cloud();
    await deploy(at);
    await deploy(at, { storage: "create" });
    setJobs(at, JOB);

    const failed = rollback(await at.open(), { to: undefined, consent: async () => true });

    await expect(failed).rejects.toMatchObject({ code: "open_work" });
  });
});
