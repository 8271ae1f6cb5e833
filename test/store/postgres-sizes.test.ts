// @long
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { Cluster, openStores } from "../_postgres.ts";
import { requirement } from "../_require.ts";

/** Jobs of a round. */
const JOBS = Number(process.env.SVC_JOBS ?? 1200);
const BATCH = 200;
const ENTRIES = 5;
const ROUNDS = 5;
/** After how many rounds tables have the size that they keep. */
const FIRST = 2;

requirement("postgres").describe(
  "tables of a store on Postgres whose jobs are removed when they have expired",
  () => {
    it(
      "keep their size, and few dead rows",
      async () => {
        const cluster = new Cluster({ settings: ["autovacuum_naptime=1s"] });
        onTestFinished(() => cluster.close());
        await cluster.start();
        const [store] = (await openStores(1, { cluster, schema: "s" })) as [Store];
        const sizes: number[] = [];
        let last: string[] = [];

        for (let round = 0; round < ROUNDS; round++) {
          const ids = Array.from({ length: JOBS }, (_, n) => `job-${round}-${n}-${"x".repeat(20)}`);
          await inBatches(ids, (some) => runJobs(store, some));
          await inBatches(last, (some) => removeJobs(store, some));
          last = ids;
          sizes.push(await settledSize(cluster));
        }

        // The server counts what was removed last a moment later, and autovacuum comes after that.
        const few = { Job: true, "Job:texts": true, _log: true };
        await expect.poll(() => haveFewDead(cluster), { timeout: 60_000 }).toEqual(few);
        // How much of what is dead is still there differs from round to round.
        const [first, later] = [sizes.slice(0, FIRST + 1), sizes.slice(FIRST + 1)];
        expect(Math.min(...later) / Math.max(...first), sizes.join(" ")).toBeLessThan(1.1);
      },
      200 * Math.max(JOBS, 1200),
    );
  },
);

async function inBatches(ids: readonly string[], work: (some: readonly string[]) => Promise<void>) {
  for (let at = 0; at < ids.length; at += BATCH) await work(ids.slice(at, at + BATCH));
}

/** Stores jobs as they start, what they record, and their end. */
async function runJobs(store: Store, ids: readonly string[]): Promise<void> {
  await store.transaction(async (tx) => {
    for (const id of ids) await tx.insert("Job", makeJob(id));
  });
  await store.transaction(async (tx) => {
    for (const id of ids) {
      for (let n = 0; n < ENTRIES; n++) await tx.append("Run", id, makeEntry(`entry ${n}`));
      await tx.change("Job", id, (job) => ({
        ...job,
        status: "completed",
        finished_at: job.created_at,
        total_cost: 1,
      }));
    }
  });
}

async function removeJobs(store: Store, ids: readonly string[]): Promise<void> {
  await store.transaction(async (tx) => {
    for (const id of ids) {
      await tx.clear("Run", id);
      await tx.remove("Job", id);
    }
  });
}

/** Whether the large tables have at most so few dead rows, by table. */
async function haveFewDead(cluster: Cluster): Promise<Record<string, boolean>> {
  const shares = await cluster.query<{ name: string; few: boolean }>(
    `select relname as name, n_dead_tup / greatest(n_live_tup, 1000)::float8 < 0.05 as few from pg_stat_user_tables
     where relname in ('Job', 'Job:texts', '_log')`,
  );
  return Object.fromEntries(shares.map(({ name, few }) => [name, few]));
}

/** Bytes of all tables and indexes, once autovacuum has removed the dead rows. */
async function settledSize(cluster: Cluster): Promise<number> {
  for (;;) {
    const [row] = await cluster.query<{ dead: number; bytes: number }>(
      `select max(n_dead_tup / greatest(n_live_tup, 1000)::float8) as dead,
         sum(pg_total_relation_size(relid))::float8 as bytes
       from pg_stat_user_tables where schemaname = 's'`,
    );
    if (row!.dead < 0.05) return row!.bytes;
    await delay(200);
  }
}
