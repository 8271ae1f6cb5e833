import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

/** What the first version made of three jobs and a case, as `pg_dump` gives it. */
const FIRST = join(import.meta.dirname, "postgres-0001.sql");

requirement("postgres").describe("A Postgres database of an earlier version", () => {
  it("moves on with its data", async () => {
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();
    // Makes the extension where the dump has it.
    await openStores(1, { schema: cluster.newSchema() });
    const dump = readFileSync(FIRST, "utf8").replace(/\bsvc\b/g, schema);
    await cluster.query(`create schema ${schema};\n${dump}`);
    onTestFinished(async () => void (await cluster.query(`drop schema ${schema} cascade`)));

    const [store, other] = (await openStores(2, { schema })) as [Store, Store];

    const jobs = store.table("Job");
    expect((await jobs.list({ sort: "id" })).items.map(({ id }) => id)).toEqual(["job-1", "job-2", "job-3"]);
    expect((await jobs.list({ where: { status: "in_progress" }, limit: 1 })).total).toBe(2);
    expect(await jobs.countBy("agent_name")).toEqual({ clerk: 1, hello: 2 });
    expect(await jobs.ids({ search: "audit of ä" })).toEqual(["job-1"]);
    expect(await jobs.ids({ where: { wake_at: { gte: 0 } }, sort: "wake_at" })).toEqual(["job-3"]);
    expect((await store.table("Case").list({ search: "the first" })).total).toBe(1);
    expect((await jobs.get("job-1"))?.total_cost).toBe(2);
    expect((await store.log("Run").read("job-1")).map(({ seq }) => seq)).toEqual([1, 2]);

    await other.transaction(
      async (tx) => {
        await tx.change("Job", "job-1", (job) => ({ ...job, status: "completed", name: "Audit of Ö" }));
        expect(await tx.append("Run", "job-1", makeEntry("two"))).toBe(3);
      },
      { fence: { job: "job-1", epoch: 1 } },
    );
    await other.table("Job").insert(makeJob("job-4"));
    expect(await jobs.countBy("status")).toEqual({ in_progress: 2, completed: 2 });
    expect(await jobs.ids({ search: "audit of ä" })).toEqual([]);
    expect(await jobs.ids({ search: "audit of ö" })).toEqual(["job-1"]);
  });

  it("is written to no longer by an instance whose functions a newer version has removed, which says so", async () => {
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();
    const [store] = (await openStores(1, { schema })) as [Store];
    await store.table("Job").insert(makeJob("job-1"));
    const functions = await cluster.query<{ name: string }>(
      `select p.oid::regprocedure::text as name from pg_proc p where pronamespace = '${schema}'::regnamespace and proname like '\\_commit%'`,
    );
    expect(functions).not.toEqual([]);
    for (const { name } of functions) await cluster.query(`drop function ${name}`);

    await expect(store.table("Job").insert(makeJob("job-2"))).rejects.toThrow(
      /^The database was changed by a newer version of agent-control-service/,
    );
    expect(await store.table("Job").ids()).toEqual(["job-1"]);
  });

  it("is written to no longer by the code of that version", async () => {
    const cluster = await sharedCluster();
    const schema = cluster.newSchema();
    await openStores(1, { schema });

    const commit = `select ${schema}._commit(1, 1, 1, '1s', 1, '{}', '{}', '{}', '[]', '[]')`;
    await expect(cluster.query(commit)).rejects.toThrow(/function .*_commit.* does not exist/);
  });
});
