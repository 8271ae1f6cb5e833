// @long
import { appendFileSync, existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { sumsOf } from "../../src/core/store/content.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { type Cluster, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { jobContext } from "../http/_jobs.ts";
import { access, beginSvc, project, REPOSITORY, svc } from "./_svc.ts";

const { describe } = requirement("postgres");

const PASSWORD = "hunter2-hunter2";
const log = { info() {}, warn() {}, error() {} };

let root: string;
let cluster: Cluster;
let name: string;
let url: string;
let databases = 0;
beforeEach(async () => {
  root = mkdtempSync(join(tmpdir(), "svc-move-"));
  cluster = await sharedCluster();
  name = `moved${process.pid}_${++databases}`;
  await cluster.query(`create database ${name}`);
  url = cluster.url.replace("svc@", `svc:${PASSWORD}@`).replace("/postgres?", `/${name}?`);
});
afterEach(async () => {
  await cluster.query(`drop database ${name} with (force)`);
  rmSync(root, { recursive: true, force: true });
});

/** Runs a command in this process. */
async function run(argv: string[], env: Record<string, string> = {}) {
  const printed: string[] = [];
  const noted: string[] = [];
  const code = await main(argv, {
    ...{ argv, self: [], cwd: root, env, interactive: false, platforms: {} },
    print: (line) => void printed.push(line),
    note: (line) => void noted.push(line),
  });
  const both = [...printed, ...noted].join("\n");
  expect(both).not.toContain(PASSWORD);
  return { code, stdout: printed.join("\n"), both };
}

async function withFolder<T>(work: (store: Store) => Promise<T>, dataDir = join(root, "data")): Promise<T> {
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

const withJobs = (...ids: string[]) =>
  withFolder(async (store) => {
    for (const id of ids) await store.table("Job").insert(makeJob(id));
  });

describe("svc store move", () => {
  it("prints what both places have, and how to pass the keys; the URL comes from a variable", async () => {
    await withJobs("a", "b");
    appendFileSync(join(root, "data", "api-key"), "a-key");
    const env = { SERVICE_DATABASE_URL: url };

    const moved = await run(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], env);
    const again = await run(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], env);
    const back = await run(["store", "move", "--to", "back", "--json"], env);

    expect(moved.both).toMatch(/^Job +2 +2 +([0-9a-f]{32}) +\1$/m);
    expect(moved.both).toContain(`SERVICE_API_KEY="$(cat ${join(root, "data", "api-key")})"`);
    expect(moved).toMatchObject({ code: 0, both: expect.stringContaining("can no longer be opened") });
    expect(again).toMatchObject({ code: 0, both: expect.stringContaining("nothing was changed") });
    const { source, target, ...rest } = JSON.parse(back.stdout) as Record<string, unknown>;
    expect(rest).toEqual({
      moved: "new",
      from: `postgres://svc@${cluster.folder}/${name}, schema agent_control_service`,
      to: `folder ${join(root, "back")}`,
    });
    expect(target).toEqual(source);
    expect(await withFolder((store) => store.table("Job").ids({ sort: "id" }), join(root, "back"))).toEqual([
      "a",
      "b",
    ]);
  });

  it("moves into the schema that the service of this environment has", async () => {
    await withJobs("a");
    const env = { SERVICE_DATABASE_URL: url, SERVICE_DATABASE_SCHEMA: "agents" };

    const moved = await run(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], env);
    const verified = await run(["store", "verify"], env);
    const other = await run(
      ["store", "move", "--to", "env:SERVICE_DATABASE_URL", "--schema", "other", "--json"],
      { ...env, SERVICE_DATA_DIR: "none" },
    );

    expect(moved.both).toContain("schema agents");
    expect(verified).toMatchObject({ code: 0, both: expect.stringMatching(/^Job +1 /m) });
    expect(other).toMatchObject({ code: 1, both: expect.stringContaining("has no data") });
  });

  it("refuses a password in an argument, and puts none into errors", async () => {
    await withJobs("a");
    const far = `postgres://svc:${PASSWORD}@127.0.0.1:1/agents`;

    const given = await run(["store", "move", "--to", url]);
    const parameter = await run(["store", "move", "--to", `postgres://h/d?password=${PASSWORD}`]);
    const invalid = await run(["store", "move", "--to", "env:URL"], { URL: `mysql://x:${PASSWORD}@h` });
    const absent = await run(["store", "move", "--to", "env:URL"], { URL: far });
    const plain = await run(["store", "move", "--to", url.replace(`:${PASSWORD}`, "")]);

    expect(given).toMatchObject({ code: 2, both: expect.stringContaining("The URL has a password") });
    expect(parameter).toMatchObject({ code: 2, both: expect.stringContaining("The URL has a password") });
    expect(invalid).toMatchObject({
      code: 2,
      both: expect.stringContaining("The variable URL is neither the URL of a database"),
    });
    expect(absent).toMatchObject({ code: 1, both: expect.stringContaining("The database does not answer") });
    expect(plain.code).toBe(0);
  });

  it("is undone by the same command with --undo", async () => {
    await withJobs("a");
    const env = { SERVICE_DATABASE_URL: url };
    const move = ["store", "move", "--to", "env:SERVICE_DATABASE_URL"];
    await run(move, env);

    expect(await run([...move, "--undo"], env)).toMatchObject({
      code: 0,
      both: expect.stringContaining(`Undone: the data is in folder ${join(root, "data")}`),
    });

    await withJobs("b");
    expect(await run([...move, "--undo"], env)).toMatchObject({
      code: 1,
      both: expect.stringContaining("was not moved"),
    });
  });
});

describe("with SERVICE_DATABASE_URL, svc store", () => {
  it("backs up, restores, exports, imports and verifies the database", async () => {
    await withJobs("a", "b");
    const env = { SERVICE_DATABASE_URL: url };
    await run(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], env);
    const sum = /^Job +2 +([0-9a-f]{32})$/m;

    const verified = await run(["store", "verify"], env);
    expect(await run(["store", "backup", "backup"], env)).toMatchObject({
      code: 0,
      both: expect.stringContaining("2 lines in 1 file,"),
    });
    expect(await run(["store", "export", "exported"], env)).toMatchObject({
      code: 0,
      both: expect.stringMatching(/Job.json: 2$/m),
    });
    const restored = await run(["store", "restore", "backup", "--schema", "restored"], env);
    const refused = await run(["store", "restore", "backup", "--schema", "restored"], env);
    const imported = await run(["store", "import", "exported", "--schema", "imported"], env);
    const same = await run(["store", "verify", "--schema", "imported"], env);

    expect(sum.exec(restored.both)?.[1]).toBe(sum.exec(verified.both)?.[1]);
    expect(refused).toMatchObject({ code: 1, both: expect.stringContaining("is not empty: it has Job") });
    expect(imported.both).toContain("Job: 2");
    expect(sum.exec(same.both)?.[1]).toBe(sum.exec(verified.both)?.[1]);
    expect(verified.code).toBe(0);
  });

  it("finds a row of the database that is damaged", async () => {
    await withJobs("a");
    const env = { SERVICE_DATABASE_URL: url };
    await run(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], env);
    const store = await postgres({ url })({ tables: CORE_TABLES, dataDir: "", log });
    for (let at = 0; at < 3; at++) await store.log("Run").append("a", { type: "mark" } as never);
    await store.close();
    const query = (text: string) =>
      cluster.query(
        `create extension if not exists dblink; select dblink_exec('dbname=${name} host=${cluster.folder} user=svc', $$${text}$$)`,
      );

    await query("delete from agent_control_service._log where seq = 2");
    const gap = await run(["store", "verify"], env);
    await query(`update agent_control_service."Job" set _body = '{"id":"b"}'`);
    const other = await run(["store", "verify"], env);

    expect(gap).toMatchObject({
      code: 1,
      both: expect.stringContaining('Entry 2 of log Run "a" is missing'),
    });
    expect(other).toMatchObject({ code: 1, both: expect.stringContaining('Job "a" is damaged') });
  });

  it("refuses to open the local folder, with each command that would, unless it is named", async () => {
    const env = { SERVICE_DATABASE_URL: url };
    const refused = "SERVICE_DATABASE_URL is set";
    for (const argv of [
      ["store", "repair"],
      ["store", "prune", "--completed", "1d"],
      ["job", "replay", "a"],
    ]) {
      const { code, both } = await run(argv, env);
      expect([argv, code, both]).toEqual([argv, 1, expect.stringContaining(refused)]);
    }
    expect(existsSync(join(root, "data"))).toBe(false);
    await withJobs("a");

    expect(await run(["store", "repair", "--data-dir", "data"], env)).toMatchObject({
      code: 0,
      both: expect.stringContaining("No damage found"),
    });
  });
});

describe("a service on a database", () => {
  it("sends its backup over HTTP", async () => {
    await using server = await testServer({ agents: [greeter], store: postgres({ url }) });
    const job = { job_context: jobContext("j1"), job_fields: { name: "Ada" } };
    expect((await server.request("/agents/greeter/jobs", { method: "POST", json: job })).status).toBe(202);

    const done = await run(["store", "backup", "backup", "--url", server.url, "--key", server.key]);

    expect(done).toMatchObject({ code: 0, both: expect.stringMatching(/backup: \d+ lines in 1 file,/) });
    expect(await withFolder((store) => store.table("Job").ids(), join(root, "backup"))).toEqual(["j1"]);
  });
});

/** Its job waits for an answer. */
const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
const agent = defineAgent({
  name: "Payer", version: "1.0.0",
  methods: { job_start: { async run({ job }) {
    const item = await job.openCase({ id: job.id, name: "a" });
    await item.step("fetch", () => "fetched");
    await item.ask("pay", { question: "Pay it?", fields: [{ name: "ok", required: true }] });
    return await item.step("pay", () => "paid");
  } } },
});
export default createServer({ agents: [agent], host: "127.0.0.1", port: 0 });
`;

describe("a service that moves house", () => {
  it("continues its jobs in the database; on the old folder it does not start", async () => {
    const cwd = await project({ "controller.js": CONTROLLER });
    symlinkSync(join(REPOSITORY, "node_modules/pg"), join(cwd, "node_modules/pg"));
    const env = { SERVICE_DATABASE_URL: url };
    const first = beginSvc(["start"], { cwd });
    await first.prints(/Press Ctrl-C to stop/);
    await svc(["job", "start", "payer", "--id", "one"], { cwd });
    const { key } = await access(cwd);
    const running = await svc(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], { cwd, env });
    first.process.kill("SIGTERM");
    await first.finished;

    const early = await svc(["start"], { cwd, env });
    const moved = await svc(["store", "move", "--to", "env:SERVICE_DATABASE_URL"], { cwd, env });
    const old = await svc(["start"], { cwd });
    const keyless = await svc(["start"], { cwd, env });
    const checked = await svc(["check"], { cwd, env });
    const keys = { SERVICE_API_KEY: key };
    const second = beginSvc(["start"], { cwd, env: { ...env, ...keys } });
    await second.prints(/Press Ctrl-C to stop/);
    const again = await svc(["store", "move", "--to", "back"], { cwd, env });
    const answered = await svc(["job", "answer", "one", "--field", "ok=yes", "--key", key], { cwd });
    const watched = await svc(["job", "watch", "one", "--key", key], { cwd });

    expect(running).toMatchObject({ code: 1, stderr: expect.stringContaining("is in use by process") });
    expect(early.stderr).toContain("has a store that was not moved to the database");
    expect(keyless.stderr).not.toContain("was not moved");
    expect(moved, moved.stderr).toMatchObject({ code: 0 });
    expect(old).toMatchObject({ code: 1, stderr: expect.stringContaining("was moved to postgres://svc@") });
    expect(keyless.stderr).toContain("need the same keys");
    expect(checked, checked.stderr).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("1 fit this code"),
    });
    expect(again).toMatchObject({ code: 1, stderr: expect.stringContaining("is in use by an instance on") });
    expect(answered, answered.stderr).toMatchObject({ code: 0 });
    expect(watched.stdout + watched.stderr).toContain("paid");
    for (const { stdout, stderr } of [moved, old, keyless, checked, again])
      expect(stdout + stderr).not.toContain(PASSWORD);
  });

  const ROUNDS = Number(process.env.SVC_MOVE_ROUNDS ?? 1);
  it(
    `finishes moves there and back that kill -9 ends at any moment, ${ROUNDS} ${ROUNDS === 1 ? "time" : "times"}`,
    async () => {
      const cwd = await project();
      symlinkSync(join(REPOSITORY, "node_modules/pg"), join(cwd, "node_modules/pg"));
      const folder = (round: number) => join(cwd, `data-${round}`);
      await withFolder(async (store) => {
        const insert = (at: number) =>
          store.table("Job").insert(makeJob(`${at}`, { payload: "p".repeat(5000) }));
        await Promise.all(Array.from({ length: 300 }, (_, at) => insert(at)));
      }, folder(0));
      const before = await new FolderPlace(folder(0)).read(sumsOf);
      const env = { SERVICE_DATABASE_URL: url };
      const move = async (...args: string[]) => {
        const killed = beginSvc(["store", "move", ...args], { cwd, env });
        // The source is closed: from here on it must be finished.
        await killed.prints(/is read-only/);
        await delay(Math.random() * 150);
        killed.process.kill("SIGKILL");
        await killed.finished;

        const finished = await svc(["store", "move", ...args], { cwd, env });

        expect(finished, finished.stderr).toMatchObject({ code: 0 });
      };
      const there = "env:SERVICE_DATABASE_URL";

      for (let round = 0; round < ROUNDS; round++) {
        const schema = ["--schema", `round${round}`];
        await move("--from", folder(round), "--to", there, ...schema);
        await move("--from", there, "--to", folder(round + 1), ...schema);
      }

      expect(await new FolderPlace(folder(ROUNDS)).read(sumsOf)).toEqual(before);
      await withFolder((store) => store.table("Job").insert(makeJob("more")), folder(ROUNDS));
      await expect(withFolder(async () => {}, folder(0))).rejects.toThrow("was moved to");
    },
    120_000 + 20_000 * ROUNDS,
  );
});
