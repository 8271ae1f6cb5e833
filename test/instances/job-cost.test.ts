// @long
// @area core
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Service } from "agent-control-service";
import { expect, it, onTestFinished } from "vitest";
import { Cluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob } from "../runs/_jobs.ts";
import { startOnDatabase } from "./_database.ts";

const WARM = 20;
const JOBS = 40;
/** What the log of the database gets for a job, with its indexes, texts, counts and commits; 8,300 are usual. */
const BYTES = 9_000;
/** The largest part of a job's first row that its last one adds to that log: only what is between the first and the last change is logged. */
const CHANGED = 0.55;

requirement("postgres").describe("a job of three steps on Postgres", () => {
  it("is five statements where it runs alone, logs of its last version what has changed, and changes other rows in place", async () => {
    const cluster = new Cluster();
    onTestFinished(() => cluster.close());
    await cluster.start();
    await cluster.query("create extension pg_stat_statements; create extension pg_walinspect");
    const agent = agentOf(async ({ job }) => {
      for (const name of ["one", "two", "three"]) await job.step(name, () => name);
      return "done";
    });
    const { service } = await startOnDatabase({ url: cluster.url, schema: "s" }, { agents: [agent] });
    const workspace_id = randomUUID();
    const run = () => runAlone(cluster, service, workspace_id);
    for (let n = 0; n < WARM; n++) await run();
    // The server counts a moment later.
    const counted = (jobs: number) =>
      expect
        .poll(async () => (await updatesOf(cluster))._writer?.all ?? 0, { timeout: 30_000 })
        .toBeGreaterThanOrEqual(5 * jobs);
    await counted(WARM);
    await delay(2000);
    await cluster.query("select pg_stat_statements_reset()");
    const before = await placeOf(cluster);
    const updates = await updatesOf(cluster);

    for (let n = 0; n < JOBS; n++) await run();

    const after = await placeOf(cluster);
    const statements = await cluster.query<{ query: string; calls: number }>(
      `select query, (calls / ${JOBS})::int as calls from pg_stat_statements
       where toplevel and query ~ '_commit:|_ver' and calls > ${JOBS / 10}`,
    );
    const logged = await cluster.query<{ type: string; bytes: number }>(
      `select w.record_type as type, (avg(w.record_length))::int as bytes
       from (select *, (regexp_match(block_ref, 'rel [0-9]+/[0-9]+/([0-9]+)'))[1]::oid as node
         from pg_get_wal_records_info('${before}', '${after}')) w
       join pg_class c on c.relfilenode = w.node where c.oid = 's."Job"'::regclass group by 1`,
    );
    const bytesOf = Object.fromEntries(logged.map(({ type, bytes }) => [type, bytes]));
    const [{ bytes }] = (await cluster.query<{ bytes: number }>(
      `select (pg_wal_lsn_diff('${after}', '${before}') / ${JOBS})::int as bytes`,
    )) as [{ bytes: number }];
    await counted(WARM + JOBS);
    const { Job, ...others } = await updatesOf(cluster);
    expect(statements).toEqual([{ query: expect.stringContaining("_commit:"), calls: 5 }]);
    expect(bytesOf.UPDATE).toBeLessThan(CHANGED * bytesOf.INSERT!);
    expect(bytes).toBeLessThan(BYTES);
    // The row that people search is changed once, as it ends. What changes with each step is changed in place.
    expect(Job!.all - updates.Job!.all).toBeLessThanOrEqual(JOBS);
    expect(others).toHaveProperty("_count");
    for (const [name, { all, inPlace }] of Object.entries(others))
      expect(inPlace, name).toBeGreaterThanOrEqual(0.95 * all);
  });
});

/** Runs a job to its end without reading it through the store. */
async function runAlone(cluster: Cluster, service: Service, workspace_id: string): Promise<void> {
  const { id } = await startJob(service, { id: randomUUID(), context: { workspace_id } });
  const find = `select 1 from s."Job" where id = '${id}' and status = 'completed'`;
  while ((await cluster.query(find)).length === 0) await delay(5);
}

async function placeOf(cluster: Cluster): Promise<string> {
  // What is read must be on the disk.
  await cluster.query("checkpoint");
  const [row] = await cluster.query<{ place: string }>("select pg_current_wal_flush_lsn()::text as place");
  return row!.place;
}

/** Updates of rows so far, by table. */
async function updatesOf(cluster: Cluster): Promise<Record<string, { all: number; inPlace: number }>> {
  const rows = await cluster.query<{ name: string; all: number; inPlace: number }>(
    `select relname as name, n_tup_upd::int as all, n_tup_hot_upd::int as "inPlace" from pg_stat_user_tables
     where schemaname = 's' and n_tup_upd > 0`,
  );
  return Object.fromEntries(rows.map(({ name, ...updates }) => [name, updates]));
}
