import { spawn } from "node:child_process";
import { chownSync, mkdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { testServer } from "agent-control-service/testing";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { fenceTests } from "../../src/core/store/contract/fences.ts";
import { inFolder, makeJob, type StoreTest, withStore } from "../../src/core/store/contract/fixtures.ts";
import { isolationTests } from "../../src/core/store/contract/isolation.ts";
import { logTests } from "../../src/core/store/contract/logs.ts";
import { transactionTests } from "../../src/core/store/contract/transactions.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { borrowSchema, type Cluster, openAt, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";

/** Fewer than one store opens: transactions of one client run on several connections, beside those of others. */
const CONNECTIONS = 2;
/** Only the name of a socket in a folder of its own. */
const PORT = 6432;

/** PgBouncer in transaction mode, in front of the server that tests share. It ends with this process. */
class Pooler {
  readonly #folder: string;
  readonly #end: () => Promise<void>;

  private constructor(folder: string, end: () => Promise<void>) {
    this.#folder = folder;
    this.#end = end;
  }

  static async start(cluster: Cluster, name = "pooler", ...more: string[]): Promise<Pooler> {
    const folder = join(cluster.folder, name);
    mkdirSync(folder);
    const { uid, gid } = statSync(join(cluster.folder, "data"));
    const settings = [
      "[databases]",
      `* = host=${cluster.folder} user=svc`,
      "[pgbouncer]",
      ...["pool_mode = transaction", `default_pool_size = ${CONNECTIONS}`, "max_client_conn = 300"],
      ...["auth_type = any", "admin_users = svc", "listen_addr =", `listen_port = ${PORT}`],
      ...[`unix_socket_dir = ${folder}`, `logfile = ${folder}/log`],
      ...more,
    ];
    const file = join(folder, "settings");
    writeFileSync(file, settings.join("\n"));
    // It refuses to run as root.
    for (const path of [folder, file]) chownSync(path, uid, gid);
    const child = spawn("sh", ["-c", `pgbouncer -q '${file}' </dev/null & read -r _; kill -INT $!; wait`], {
      ...(process.getuid?.() === 0 && { uid, gid }),
      cwd: "/tmp",
      stdio: ["pipe", "ignore", "ignore"],
    });
    const pooler = new Pooler(folder, async () => {
      const ended = new Promise((resolve) => child.once("exit", resolve));
      child.stdin.end();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    });
    while (!(await pooler.#answers())) await delay(20);
    return pooler;
  }

  url(parameters = "&pgbouncer=true", database = "postgres"): string {
    return `postgres://svc@localhost:${PORT}/${database}?host=${encodeURIComponent(this.#folder)}${parameters}`;
  }

  /** Connections to the server. */
  async connections(): Promise<number> {
    const client = new Client({ connectionString: this.url("", "pgbouncer") });
    await client.connect();
    const { rows } = await client.query("show servers");
    await client.end();
    return rows.length;
  }

  close(): Promise<void> {
    return this.#end();
  }

  #answers(): Promise<boolean> {
    return this.connections().then(
      () => true,
      () => false,
    );
  }
}

requirement("postgres", "pgbouncer").describe("Postgres behind PgBouncer in transaction mode", () => {
  let cluster: Cluster;
  let pooler: Pooler;
  beforeAll(async () => {
    cluster = await sharedCluster();
    pooler = await Pooler.start(cluster);
  });
  afterAll(() => pooler.close());

  const test: StoreTest = (title, work) =>
    it(title, () =>
      inFolder(async (dataDir) => withStore((context) => openAt(context, () => pooler.url()), dataDir, work)),
    );
  describe("transactions", () => transactionTests(test));
  describe("fences and hints", () => fenceTests(test));
  describe("concurrency and isolation", () => isolationTests(test));
  describe("logs", () => logTests(test));

  it("is refused without the parameter that says so, by a message that names it", async () => {
    const log = { info() {}, warn() {}, error() {} };

    const opened = postgres({ url: pooler.url("") })({ tables: CORE_TABLES, dataDir: "", log });

    await expect(opened).rejects.toMatchObject({ detail: expect.stringContaining("pgbouncer=true") });
  });

  it("works without the parameter where the pooler takes all settings, without prepared statements", async () => {
    const lenient = await Pooler.start(
      cluster,
      "lenient",
      "ignore_startup_parameters = statement_timeout,lock_timeout",
      "server_round_robin = 1",
    );
    onTestFinished(() => lenient.close());
    const schema = await borrowSchema(cluster);
    const warnings: string[] = [];
    const log = { info() {}, warn: (message: string) => void warnings.push(message), error() {} };
    const open = () => postgres({ url: lenient.url(""), schema })({ tables: CORE_TABLES, dataDir: "", log });
    const stores = [await open(), await open()];
    onTestFinished(async () => void (await Promise.all(stores.map((store) => store.close()))));

    /** A transaction that keeps one of the two connections to the server. */
    const keepOne = async (): Promise<Client> => {
      const client = new Client({ connectionString: lenient.url("") });
      await client.connect();
      onTestFinished(() => client.end());
      await client.query("begin");
      return client;
    };
    let round = 0;
    const work = async (): Promise<void> => {
      for (const end = round + 10; round < end; round++) {
        const ids = [0, 1, 2, 3].map((n) => `job-${round}-${n}`);
        await Promise.all(ids.map((id, n) => stores[n % 2]!.table("Job").insert(makeJob(id))));
        const read = await Promise.all(ids.map((id, n) => stores[(n + 1) % 2]!.table("Job").get(id)));
        expect(read.map((job) => job?.id)).toEqual(ids);
      }
    };

    // First all work is on one connection, where its statements are prepared, then on the other, which has none of them.
    const first = await keepOne();
    await work();
    await keepOne();
    await first.query("commit");
    await work();

    const told = () => warnings.filter((message) => message.includes("pgbouncer=true"));
    expect(told().length).toBeGreaterThan(0);
    expect(told().length).toBeLessThanOrEqual(stores.length);
  });

  it("has the jobs of two instances, each run once, on fewer connections than they open", async () => {
    const schema = await borrowSchema(cluster);
    const begun: string[] = [];
    const stepper = agentOf(async ({ job }) => {
      begun.push(job.id);
      for (let n = 0; n < 3; n++) await job.step(`step ${n}`, () => n);
      await job.sleep("10ms");
      return "done";
    });
    const start = async () => {
      const store = postgres({ url: pooler.url(), schema, prepared: true });
      const server = await testServer({ agents: [stepper], store });
      onTestFinished(() => server[Symbol.asyncDispose]());
      return server.service;
    };
    const services = [await start(), await start()];

    const jobs = await Promise.all(Array.from({ length: 10 }, (_, n) => startJob(services[n % 2]!)));

    // Each hears of the other's jobs by asking.
    for (const [n, { id }] of jobs.entries())
      expect(await until(services[(n + 1) % 2]!, id)).toMatchObject({ status: "completed", result: "done" });
    expect(begun.toSorted()).toEqual(jobs.map(({ id }) => id).toSorted());
    expect(await pooler.connections()).toBeLessThanOrEqual(CONNECTIONS);
  });
});
