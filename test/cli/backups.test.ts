import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { testServer } from "agent-control-service/testing";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { type Cluster, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { jobContext } from "../http/_jobs.ts";
import { type S3Server, startS3 } from "../storage/s3-server.ts";

const log = { info() {}, warn() {}, error() {} };
let s3: S3Server;
let root: string;
let url: string;
let tests = 0;
beforeAll(async () => {
  s3 = await startS3(["backups"]);
});
afterAll(() => s3.close());
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "svc-backups-"));
  url = `s3://backups/service-${++tests}?region=${s3.region}&endpoint=${s3.url}`;
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

async function svc(argv: string[], env: Record<string, string> = {}) {
  const lines: string[] = [];
  const keep = (line: string) => void lines.push(line);
  const keys = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };
  const code = await main(argv, {
    ...{ argv, self: [], cwd: root, env: { ...keys, ...env }, interactive: false, platforms: {} },
    print: keep,
    note: keep,
  });
  expect(lines.join("\n")).not.toContain("s3-test-secret");
  return { code, text: lines.join("\n") };
}

async function withStore<T>(
  folder: string,
  work: (store: Awaited<ReturnType<typeof openJsonStore>>) => Promise<T>,
) {
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir: join(root, folder), log });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const addJob = (id: string) =>
  withStore("data", async (store) => {
    await store.table("Job").insert(makeJob(id));
    await store.table("Case").insert(makeCase(`case-of-${id}`, id));
    await store.log("Run").append(id, { type: "mark", mark: "note", message: "hello", at: "" });
  });

const jobsOf = (folder: string) => withStore(folder, (store) => store.table("Job").ids({ sort: "id" }));

describe("svc store backup --to and svc store restore --from", () => {
  it("ship a folder to a bucket, and restore it as it was at a time", async () => {
    await addJob("a");
    const first = await svc(["store", "backup", "--to", url]);
    const between = new Date().toISOString();
    // The next backup is of a later millisecond.
    await expect.poll(() => new Date().toISOString() > between).toBe(true);
    await addJob("b");
    await svc(["store", "backup", "--to", url]);

    const newest = await svc(["store", "restore", "--from", url, "--data-dir", "newest"]);
    const earlier = await svc(["store", "restore", "--from", url, "--at", between, "--data-dir", "earlier"]);
    const listed = await svc(["store", "restore", "--from", url, "--list"]);

    expect([first.code, newest.code, earlier.code, listed.code]).toEqual([0, 0, 0, 0]);
    expect(await jobsOf("newest")).toEqual(["a", "b"]);
    expect(await jobsOf("earlier")).toEqual(["a"]);
    expect(listed.text.match(/\d{8}T\d{9}Z-[\da-f]{8}/g)).toHaveLength(2);
    expect(s3.buckets.violations).toEqual([]);
  });

  it("test a restore without changing anything, and count what is in it", async () => {
    await addJob("a");
    await svc(["store", "backup", "--to", url]);
    const temporary = () => readdirSync(tmpdir()).filter((name) => name.startsWith("svc-restore-"));
    const before = temporary();

    const tested = await svc(["store", "restore", "--from", url, "--dry-run"]);

    expect(tested.code).toBe(0);
    expect(tested.text).toMatch(/Job +1 +[\da-f]{32}/);
    expect(tested.text).toMatch(/Run \(log\) +1 /);
    expect(tested.text).toMatch(/no damage/);
    expect(temporary().filter((name) => !before.includes(name))).toEqual([]);
    expect(readdirSync(root)).toEqual(["data"]);
  });

  it("find damage: the test of the restore fails, and says which backup to use instead", async () => {
    await addJob("a");
    await svc(["store", "backup", "--to", url]);
    const [part] = s3.buckets.names("backups", `service-${tests}/`).filter((name) => name.includes("part-"));
    const { body } = s3.buckets.objects.get("backups")!.get(part!)!;
    s3.buckets.put("backups", part!, { body: Buffer.from(body).fill(0, 20), headers: {} });

    const tested = await svc(["store", "restore", "--from", url, "--dry-run"]);

    expect(tested.code).toBe(1);
    expect(tested.text).toContain("is damaged (the checksum of part 1 of 1 does not match)");
    expect(tested.text).toContain("--list");
  });

  it("test the backup in a folder too", async () => {
    await addJob("a");
    await svc(["store", "backup", "copy"]);

    const tested = await svc(["store", "restore", "copy", "--dry-run"]);

    expect(tested.text).toMatch(/Job +1 /);
    expect(readdirSync(root).sort()).toEqual(["copy", "data"]);
  });

  it("ship a running service", async () => {
    await using server = await testServer({
      agents: [greeter],
      dataDir: join(root, "live"),
      store: undefined,
    });
    const job = { job_context: jobContext("j1"), job_fields: { name: "Ada" } };
    await server.request("/agents/greeter/jobs", { method: "POST", json: job });
    const target = pathToFileURL(join(root, "bucket")).href;

    const made = await svc(["store", "backup", "--to", target, "--url", server.url, "--key", server.key]);
    const tested = await svc(["store", "restore", "--from", target, "--dry-run"]);

    expect([made.text, made.code, tested.code]).toEqual([expect.stringContaining("backup 2"), 0, 0]);
    expect(tested.text).toMatch(/Job +1 /);
  });

  it("restore into the storage of a service, which is verified, exported, and moved to a folder", async () => {
    await addJob("a");
    await svc(["store", "backup", "--to", url]);
    const env = { SERVICE_STORAGE_URL: `${url.replace("?", "-live?")}&conditional=true` };

    const restored = await svc(["store", "restore", "--from", url], env);
    const verified = await svc(["store", "verify"], env);
    const again = await svc(["store", "backup", "copy"], env);
    const moved = await svc(["store", "move", "--to", "moved"], env);
    const closed = await svc(["store", "move", "--from", "moved", "--to", env.SERVICE_STORAGE_URL], {});

    expect([restored.code, verified.code, again.code, moved.code]).toEqual([0, 0, 0, 0]);
    expect(verified.text).toMatch(/Job +1 /);
    expect(moved.text).toContain("without SERVICE_DATABASE_URL and SERVICE_STORAGE_URL");
    expect(await jobsOf("moved")).toEqual(["a"]);
    expect(closed.text).toContain("was moved to folder");
  });

  it("say what is wrong with a place", async () => {
    await addJob("a");
    const gone = url.replace("s3://backups/", "s3://deleted/");

    expect((await svc(["store", "backup", "--to", gone])).text).toContain(
      'The bucket "deleted" does not exist',
    );
    expect((await svc(["store", "restore", "--from", url])).text).toContain("There is no complete backup");
    expect((await svc(["store", "backup"])).code).toBe(2);
    expect((await svc(["store", "backup", "folder", "--to", url])).code).toBe(2);
    expect((await svc(["store", "restore", "folder", "--at", "2026-01-01"])).code).toBe(2);
    const elsewhere = await svc(["store", "repair"], { SERVICE_STORAGE_URL: "gs://agents" });
    expect(elsewhere.text).toContain("SERVICE_STORAGE_URL is set");
    const secret = await svc(["store", "backup", "--to", "s3://AKID:hunter2@backups?region=x"]);
    expect(secret.text).toContain("has credentials");
    expect(secret.text).not.toContain("hunter2");
  });
});

requirement("postgres").describe("a database", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await sharedCluster();
    await cluster.query(`create database backups${process.pid}`);
  });
  afterAll(() => cluster.query(`drop database backups${process.pid} with (force)`));

  it("is restored from the backup of a folder, and shipped itself", async () => {
    await addJob("a");
    await svc(["store", "backup", "--to", url]);
    const database = { SERVICE_DATABASE_URL: cluster.url.replace("/postgres?", `/backups${process.pid}?`) };

    const restored = await svc(["store", "restore", "--from", url], database);
    const shipped = await svc(["store", "backup", "--to", url], database);
    await svc(["store", "restore", "--from", url, "--data-dir", "back"]);

    expect([restored.text, restored.code]).toEqual([expect.stringMatching(/Job +1 /), 0]);
    expect([shipped.text, shipped.code]).toEqual([expect.stringContaining("backup 2"), 0]);
    expect(await jobsOf("back")).toEqual(["a"]);
  });
});
