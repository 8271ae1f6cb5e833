// @long
import { setTimeout as delay } from "node:timers/promises";
import { expect, it, onTestFinished } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { Cluster, openStores } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const JOBS = 20_000;

requirement("postgres").describe("tables of a store on Postgres", () => {
  it("are rid of dead rows before these are a twentieth, also those of an earlier version", async () => {
    const cluster = new Cluster({ settings: ["autovacuum_naptime=1s"] });
    onTestFinished(() => cluster.close());
    await cluster.start();
    const [old] = (await openStores(1, { cluster, schema: "s" })) as [Store];
    await old.table("Job").insert(makeJob("j"));
    await cluster.query(`alter table s."Job" reset (${NAMES.join(", ")})`);
    await cluster.query(`alter table s."Case" set (autovacuum_vacuum_scale_factor = 0.5)`);

    await openStores(1, { cluster, schema: "s" });

    expect(await settingsOf(cluster, "Job")).toContain("autovacuum_vacuum_scale_factor=0.02");
    expect(await settingsOf(cluster, "Case")).toContain("autovacuum_vacuum_scale_factor=0.5");
    await cluster.query(`
      insert into s."Job" select (jsonb_populate_record(j, jsonb_build_object('id', 'made-' || n))).*
        from s."Job" j, generate_series(1, ${JOBS}) n`);
    await cluster.query('vacuum analyze s."Job"');
    const before = await vacuumsOf(cluster);
    await cluster.query(`update s."Job" set _ver = _ver where id like 'made-1%' and length(id) < 10`);
    while ((await vacuumsOf(cluster)) === before) await delay(100);
    expect(await vacuumsOf(cluster)).toBeGreaterThan(before);
  });
});

const NAMES = [
  "autovacuum_vacuum_scale_factor",
  "autovacuum_vacuum_insert_scale_factor",
  "autovacuum_analyze_scale_factor",
];

async function settingsOf(cluster: Cluster, table: string): Promise<string> {
  const [row] = await cluster.query<{ settings: string | null }>(
    `select array_to_string(reloptions, ' ') as settings from pg_class where oid = 's."${table}"'::regclass`,
  );
  return row!.settings ?? "";
}

async function vacuumsOf(cluster: Cluster): Promise<number> {
  const [row] = await cluster.query<{ count: number }>(
    `select autovacuum_count::int as count from pg_stat_all_tables where relid = 's."Job"'::regclass`,
  );
  return row!.count;
}
