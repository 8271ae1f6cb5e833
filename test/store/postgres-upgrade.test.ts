import { expect, it, onTestFinished } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { type Cluster, openClient, openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

requirement("postgres").describe("A Postgres database that a newer version opens while instances run", () => {
  it("gets its indexes while others write, and loses those of earlier versions", async () => {
    const { cluster, schema, old } = await openOld();
    const wanted = await indexesOf(cluster, schema);
    await cluster.query(`
      update ${schema}._table set version = '1.0123456789' where name = 'Job';
      drop index ${schema}."Job:name:sorted";
      create index "Job:name:order" on ${schema}."Job" (left(name, 256) nulls first, "name#" nulls first, id);
      create index "Job:status#" on ${schema}."Job" ("status#") where "status#" is not null;
      create index "Job:1.0123456789" on ${schema}."Job" (id) where _v <> '1.0123456789';
      create index "by hand" on ${schema}."Job" (name)`);
    const writer = await openClient(cluster);
    await writer.query(`begin; update ${schema}."Job" set name = name`);

    const [newer] = (await openStores(1, { schema })) as [Store];

    await old.table("Job").insert(makeJob("job-2"));
    await newer.table("Job").insert(makeJob("job-3"));
    await writer.query("commit");
    await expect
      .poll(() => indexesOf(cluster, schema), { timeout: 30_000 })
      .toEqual([...wanted, "by hand"].sort());
    expect(await newer.table("Job").ids({ sort: "name" })).toEqual(["job-1", "job-2", "job-3"]);
  });

  it("gets an index whose making was interrupted", async () => {
    const { cluster, schema } = await openOld();
    const invalid = `select indexrelid::regclass::text as name from pg_index x join pg_class c on c.oid = x.indexrelid
      where c.relnamespace = '${schema}'::regnamespace and not indisvalid`;
    await cluster.query(
      `update pg_index set indisvalid = false where indexrelid = '${schema}."Job:name:sorted"'::regclass`,
    );
    expect(await cluster.query(invalid)).toHaveLength(1);

    await openStores(1, { schema });

    await expect.poll(() => cluster.query(invalid), { timeout: 30_000 }).toEqual([]);
    expect(await indexesOf(cluster, schema)).toContain("Job:name:sorted");
  });

  it("gets to know how many jobs have which values, and estimates lists by that", async () => {
    const { cluster, schema } = await openOld();
    await cluster.query(`
      drop statistics ${schema}."Job:status", ${schema}."Job:finished_at";
      insert into ${schema}."Job" select r.* from ${schema}."Job" j, generate_series(1, 2000) n,
        lateral jsonb_populate_record(j, jsonb_build_object('id', 'made-' || n)) r`);
    const estimate = async () => {
      const [row] = await cluster.query<{ "QUERY PLAN": [{ Plan: { "Plan Rows": number } }] }>(
        `explain (format json) select 1 from ${schema}."Job" where left(status, 256) = 'in_progress'`,
      );
      return row!["QUERY PLAN"][0].Plan["Plan Rows"];
    };
    expect(await estimate()).toBeLessThan(1000);

    await openStores(1, { schema });

    await expect.poll(estimate, { timeout: 30_000 }).toBe(2001);
  });

  it("gets a column without those who read waiting for others who read", async () => {
    const { cluster, schema, old } = await openOld();
    await cluster.query(`
      update ${schema}._table set version = '1.0123456789' where name = 'Job';
      alter table ${schema}."Job" drop column "parent_id#"`);
    const reader = await openClient(cluster);
    await reader.query(`begin; lock table ${schema}."Job" in access share mode`);

    const opening = openStores(1, { schema });
    const isWaiting = `select 1 from pg_locks where relation = '${schema}."Job"'::regclass and not granted`;
    await expect.poll(() => cluster.query(isWaiting), { timeout: 30_000 }).toHaveLength(1);

    expect(await old.table("Job").ids({ where: { name: { contains: "job" } } })).toEqual(["job-1"]);
    await reader.query("commit");
    const [newer] = (await opening) as [Store];
    expect(await newer.table("Job").ids({ where: { parent_id: null } })).toEqual(["job-1"]);
  });

  it("counts nothing again where what is counted is the same", async () => {
    const { cluster, schema, old } = await openOld();
    await cluster.query(`update ${schema}._table set version = '1.0123456789' where name = 'Job'`);
    const writer = await openClient(cluster);
    await writer.query(`begin; update ${schema}."Job" set name = name`);

    const [newer] = (await openStores(1, { schema })) as [Store];
    await old.table("Job").insert(makeJob("job-2", { status: "failed" }));
    await writer.query("commit");

    expect(await newer.table("Job").countBy("status")).toEqual({ in_progress: 1, failed: 1 });
  });
});

/** A schema with one job that a store has open. */
async function openOld(): Promise<{ cluster: Cluster; schema: string; old: Store }> {
  const cluster = await sharedCluster();
  const schema = cluster.newSchema();
  onTestFinished(async () => void (await cluster.query(`drop schema ${schema} cascade`)));
  const [old] = (await openStores(1, { schema })) as [Store];
  await old.table("Job").insert(makeJob("job-1"));
  return { cluster, schema, old };
}

async function indexesOf(cluster: Cluster, schema: string): Promise<string[]> {
  const rows = await cluster.query<{ name: string }>(
    `select indexname as name from pg_indexes where schemaname = '${schema}'`,
  );
  return rows.map(({ name }) => name).sort();
}
