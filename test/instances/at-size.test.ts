// @long
// @area core
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, expect, it } from "vitest";
import { type FileFilter, listFiles } from "../../src/core/entities/all-files.ts";
import { Files } from "../../src/core/entities/files.ts";
import { Jobs } from "../../src/core/entities/jobs.ts";
import { findClaimable, findOwners, Searched } from "../../src/core/runs/cluster/find-claimable.ts";
import type { RequestParts } from "../../src/core/runs/runner-parts.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Position, Store, Table } from "../../src/core/store/store.ts";
import { CORE_TABLES, NO_WAKE_TIME } from "../../src/core/store/tables.ts";
import { postgres } from "../../src/postgres.ts";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { API_KEY, startOnDatabase } from "./_database.ts";

const JOBS = Number(process.env.SVC_JOBS ?? 100_000);
/** The time over which they were started, milliseconds. */
const DAYS = 30;
const STEP = (DAYS * 86_400_000) / JOBS;
/** One of so many is open. */
const OPEN = 500;
/** One of so many sleeps, for many years. */
const ASLEEP = 100;
const WAKE = Date.UTC(2100, 0, 1);
/** One of so many has failed. */
const FAILED = 20;
/** Parts into which names are out of the order of time. */
const NAMES = 7919;
/** Pages of the database, of 8 kB, that a statement may touch. */
const MOST = 100;
/** Jobs that an instance has left which ended. */
const LEFT = 40;
/** Statements of the dashboard, and those of the instance meanwhile. */
const STATEMENTS = 60;
/** Pages that a statement of the dashboard may touch: those of the entities of some hours, and of the numbers of the others. */
const FIGURES = JOBS / 100 + 800;
/** Longer than what an instance does now and then. */
const IDLE = 16_000;

interface Statement {
  readonly query: string;
  readonly calls: number;
  readonly buffers: number;
  readonly compiled: number;
}

requirement("postgres").describe(`a service on Postgres with ${JOBS} jobs`, () => {
  const cluster = new Cluster({ settings: ["shared_buffers=512MB", "maintenance_work_mem=256MB"] });
  const started = Date.now() - DAYS * 86_400_000;
  let store: Store;

  beforeAll(async () => {
    await cluster.start();
    await cluster.query("create extension pg_stat_statements");
    store = await fill(cluster, started);
    return async () => {
      await store.close();
      await cluster.close();
    };
  }, 300_000);

  const start = () =>
    startOnDatabase(
      { url: cluster.url, schema: "s" },
      { agents: ["agent-0", "agent-1"].map((name) => agentOf(() => "done", { name })), admin: true },
    );
  /** Statements since the last reset, but those that count the jobs of an hour that is over: each hour is counted once. */
  const statements = () =>
    cluster.query<Statement>(
      `select query, calls::int, ((shared_blks_hit + shared_blks_read) / calls)::int as buffers,
         jit_functions::int as compiled
       from pg_stat_statements where toplevel and query not like '%pg_stat_statements%'
         and query not like 'insert into "s"."_tally"%' order by buffers desc`,
    );
  const reset = () => cluster.query("select pg_stat_statements_reset()");

  it.each(["-created_at", "created_at", "-updated_at", "-finished_at", "name", "-name", "id", "-id"])(
    "reads few pages of the database for a page of jobs behind half of them, and the first one, sorted by %s",
    async (sort) => {
      const jobs = store.table("Job");
      for (const where of [{}, { status: "completed" }]) {
        const after = await middleOf(jobs, sort);
        for (const position of [undefined, after]) {
          await reset();
          const page = await jobs.list({ where, sort, limit: 50, after: position });
          const read = (await statements()).filter(({ query }) => query.includes("row_number"));
          expect(page.items).toHaveLength(50);
          expect(read.length).toBeGreaterThan(0);
          for (const { buffers } of read)
            expect(buffers, JSON.stringify([where, position])).toBeLessThanOrEqual(MOST);
        }
      }
    },
  );

  it.each<FileFilter>([
    {},
    { agent_name: "agent-1" },
    { kind: "pdf" },
    { origin: "artifact" },
    { job_id: idOf(5) },
    { agent_name: "agent-1", kind: "picture", origin: "step" },
    { since: started, until: started + (DAYS * 86_400_000) / 2 },
  ])(
    "reads few pages of the database for the first files and those behind half of them, with %j",
    async (filter) => {
      const { files, jobs } = filesOn(store);
      for (const sight of [undefined, { agents: ["agent-1"] }, { workspace: "local", startedBy: "key-1" }]) {
        for (const after of [
          undefined,
          { value: Math.round(started + (JOBS / 2) * STEP), id: fileIdOf(JOBS / 2) },
        ]) {
          await reset();
          const { items } = await listFiles({ files, jobs: sight ? jobs.seenBy(sight) : jobs }, sight, {
            ...{ ...filter, limit: 50, after },
          });
          const about = JSON.stringify([sight, after]);
          if (!("job_id" in filter) && sight?.startedBy === undefined) expect(items, about).toHaveLength(50);
          const read = await statements();
          expect(read.length).toBeGreaterThan(0);
          // Another filter may read all files of a caller who has few; and the jobs of a page are read by their ids.
          const most = sight?.startedBy ? (2 * JOBS) / OPEN : MOST;
          for (const { buffers, query } of read)
            expect(buffers, `${about} ${query}`).toBeLessThanOrEqual(
              query.includes('"JobFile"') ? most : 300,
            );
        }
      }
    },
  );

  it("reads few pages of the database for the first of the jobs that sleep, without counting the others", async () => {
    await reset();
    const where = { agent_name: "agent-0", wake_at: { gte: 0, lt: NO_WAKE_TIME } };
    const { items } = await store.table("Job").list({ where, sort: "wake_at", limit: 20, uncounted: true });

    const read = (await statements()).filter(({ query }) => query.includes("row_number"));

    expect(items).toHaveLength(20);
    expect(read).toHaveLength(1);
    expect(read[0]!.buffers).toBeLessThanOrEqual(MOST);
  });

  it("reads few pages of the database to find the jobs of an instance that has ended", async () => {
    const left = Array.from({ length: LEFT }, (_, n) => `'${idOf(n * 100 + 3)}'`).join(", ");
    await cluster.query(
      `update s."Job" set status = 'in_progress', owner = 'gone', "wake_at#" = null, "finished_at#" = null where id in (${left})`,
    );
    const parts = partsOn(store);
    await reset();
    const owners = await findOwners(parts);

    await findClaimable(parts, { living: [], owners, searched: new Searched() });

    const read = await statements();
    expect(owners).toContain("gone");
    expect(read.some(({ query }) => query.includes("row_number"))).toBe(true);
    expect(read.filter(({ buffers }) => buffers > MOST)).toEqual([]);
  });

  it("touches few pages a statement while it has nothing to do", async () => {
    await start();
    await countedByHour();
    await delay(3000);
    await reset();
    await delay(IDLE);

    const polls = await statements();

    expect(polls.length).toBeGreaterThan(3);
    expect(polls.filter(({ buffers }) => buffers > MOST)).toEqual([]);
  }, 180_000);

  it("reads for its dashboard the jobs of some hours, in few statements that the database does not compile", async () => {
    await start();
    await countedByHour();
    await cluster.query("analyze s._tally");
    const { url } = await start();
    for (const [range, label] of [
      ["24h", "24 hours"],
      ["7d", "7 days"],
      ["30d", "30 days"],
    ]) {
      await reset();

      const response = await fetch(`${url}/admin/?range=${range}`, {
        headers: { authorization: `Bearer ${API_KEY}`, accept: "text/html" },
      });
      expect(response.status).toBe(200);
      expect(await response.text()).toContain(`Completed, last ${label}`);

      // How much there is on the disk depends on the number of tables.
      const read = (await statements()).filter(({ query }) => !query.includes("pg_total_relation_size"));
      expect(
        read.filter(({ buffers, compiled }) => buffers > FIGURES || compiled > 0),
        range,
      ).toEqual([]);
      expect(read.reduce((sum, { calls }) => sum + calls, 0)).toBeLessThanOrEqual(STATEMENTS);
    }
  }, 180_000);

  /** Waits until a service has counted the hours that are over: it does so once, a statement an hour. */
  async function countedByHour(): Promise<void> {
    const due = Math.floor((Date.now() - 600_000) / 3_600_000) * 3_600_000;
    const counted = async () =>
      (await cluster.query<{ until: number }>("select until from s._tallied"))[0]?.until;
    await expect.poll(counted, { timeout: 120_000, interval: 500 }).toBeGreaterThanOrEqual(due);
  }

  /** A position that has half of the jobs before it. */
  async function middleOf(jobs: Table<{ id: string }>, sort: string): Promise<Position> {
    const n = Math.floor(JOBS / 2) + 1;
    const found = await jobs.list({ where: { id: idOf(n) } });
    expect(found.items).toHaveLength(1);
    const time = Math.round(started + n * STEP);
    const values: Record<string, string | number> = { id: idOf(n), created_at: time, name: nameOf(n) };
    return { id: idOf(n), value: values[sort.replace("-", "")] ?? time + 5000 };
  }
});

const fileIdOf = (n: number) => `${String(n).padStart(64, "0")}.${idOf(n)}`;
const idOf = (n: number) => `made-${String(n).padStart(8, "0")}`;
const nameOf = (n: number) => `Job ${String((n * NAMES) % JOBS).padStart(8, "0")}`;

/** Fills the table of jobs of an empty database, as years of work do. */
async function fill(cluster: Cluster, started: number): Promise<Store> {
  const log = { info() {}, warn() {}, error() {} };
  const store = await postgres({ url: cluster.url, schema: "s" })({ tables: CORE_TABLES, dataDir: "", log });
  const made = { agent_name: "agent-0", status: "completed", agent_version: "1.0.0" } as const;
  await store.table("Job").insert(makeJob("job", { ...made, payload: "x".repeat(500) }));
  const created = `round(${started} + n * ${STEP}::float8)`;
  const isAsleep = `n % ${ASLEEP} = 2`;
  const isOpen = `(n % ${OPEN} = 0 or ${isAsleep})`;
  const values: Record<string, string> = {
    id: "'made-' || lpad(n::text, 8, '0')",
    name: `'Job ' || lpad((n::bigint * ${NAMES} % ${JOBS})::text, 8, '0')`,
    agent_name: "'agent-' || n % 2",
    status: `case when ${isOpen} then 'awaiting' when n % ${FAILED} = 1 then 'failed' else 'completed' end`,
    failure: `case when n % ${FAILED} = 1 then 'f' || n % 3 end`,
    waits_for: `case when ${isAsleep} then 'time' when ${isOpen} then 'answer' end`,
    "wake_at#": `case when ${isAsleep} then ${WAKE} + n when ${isOpen} then ${NO_WAKE_TIME} end`,
    "created_at#": created,
    "updated_at#": `${created} + 5000`,
    "finished_at#": `case when ${isOpen} then null else ${created} + 5000 end`,
    _body: `replace(j._body, '"job"', '"made-' || lpad(n::text, 8, '0') || '"')`,
    _rest: "j._rest || jsonb_build_object('duration', 1000 + n % 977)",
  };
  const columns = await cluster.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = 's."Job"'::regclass and attnum > 0 and not attisdropped order by attnum`,
  );
  const indexes = await cluster.query<{ name: string; made: string }>(
    `select i.indexrelid::regclass::text as name, pg_get_indexdef(i.indexrelid) as made from pg_index i
     where i.indrelid = 's."Job"'::regclass and not i.indisprimary`,
  );
  // Indexes that are made of what is there cost a fraction, and so do counts.
  await cluster.query(`
    set session_replication_role = replica;
    ${indexes.map(({ name }) => `drop index ${name};`).join("\n")}
    insert into s."Job" select ${columns.map(({ name }) => values[name] ?? `j."${name}"`).join(", ")}
      from s."Job" j, generate_series(1, ${JOBS}) n;
    delete from s."Job" where id = 'job';
    delete from s._tally;
    delete from s._tallied;
    delete from s._count where name = 'Job';
    insert into s._count (name, slot, key, n)
      select 'Job', 0, array[agent_name, null, status, null], count(*) from s."Job" group by agent_name, status;
    ${indexes.map(({ made }) => `${made};`).join("\n")}`);
  await fillFiles(cluster, store, created);
  await cluster.query("vacuum analyze");
  return store;
}

/** One file for each job. */
async function fillFiles(cluster: Cluster, store: Store, created: string): Promise<void> {
  const named = { name: "a.pdf", type: "application/pdf", origin: "step", case_id: null } as const;
  const created_at = "2026-01-31T09:30:00.000Z";
  await store.table("JobFile").insert({
    ...{ id: "file", job_id: "job", workspace: "local", agent_name: "agent-0", access: null },
    ...{ sha256: "0f", size: 1, names: [{ ...named, created_at }], created_at },
  });
  const id = "'made-' || lpad(n::text, 8, '0')";
  const values: Record<string, string> = {
    id: `lpad(n::text, 64, '0') || '.' || ${id}`,
    job_id: id,
    sha256: "lpad(n::text, 64, '0')",
    agent_name: "'agent-' || n % 2",
    access: `case when n % ${OPEN} = 0 then 'key-1' end`,
    kind: "case when n % 3 = 0 then 'pdf' else 'picture' end",
    origin: "case when n % 5 = 0 then 'artifact' else 'step' end",
    "created_at#": created,
    _body: `replace(f._body, '"job_id":"job"', '"job_id":"made-' || lpad(n::text, 8, '0') || '"')`,
  };
  const columns = await cluster.query<{ name: string }>(
    `select attname as name from pg_attribute
     where attrelid = 's."JobFile"'::regclass and attnum > 0 and not attisdropped order by attnum`,
  );
  await cluster.query(`
    set session_replication_role = replica;
    insert into s."JobFile" select ${columns.map(({ name }) => values[name] ?? `f."${name}"`).join(", ")}
      from s."JobFile" f, generate_series(1, ${JOBS}) n;
    delete from s."JobFile" where id = 'file';`);
}

/** What lists files, on a store. */
function filesOn(store: Store) {
  const limits = { file: 1, job: 1, workspace: 1 };
  const files = new Files({ store, ledger: undefined as never, storage: store.contents!, limits });
  return { files, jobs: new Jobs(store) };
}

/** What finds jobs without a living owner, on a store, at an instance that has room for some. */
function partsOn(store: Store): RequestParts {
  const parts = {
    ...{ jobs: new Jobs(store), store, suspects: { isLeft: () => false } },
    ...{ cluster: { mayRun: () => true }, runs: { isRunning: () => false }, agents: { find: () => ({}) } },
    scheduler: {
      ...{ free: 16, position: () => undefined, runningOf: () => 0 },
      ...{ hasRoom: () => true, hasFreeSlot: () => true },
    },
  };
  return parts as unknown as RequestParts;
}
