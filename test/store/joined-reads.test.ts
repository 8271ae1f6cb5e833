import { expect, it } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { JoinedReads } from "../../src/core/store/postgres/joined-reads.ts";
import type { Joins, ListQuery, Store } from "../../src/core/store/store.ts";
import { borrowSchema, openClient, openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const QUERIES: readonly ListQuery[] = [
  { sort: "-created_at", limit: 2 },
  { where: { parked: false }, sort: "id" },
  { where: { parked: true }, sort: "parked" },
  { where: { name: ['"quoted" $1', "näme"] }, sort: "name" },
  { where: { status: "completed" } },
];

requirement("postgres").describe("reads that share a statement", () => {
  it("give what each of them gives alone", async () => {
    const [store] = (await openStores(1)) as [Store];
    for (const [at, name] of ['"quoted" $1', "näme", "\u0000\ud800"].entries())
      await store.table("Job").insert(makeJob(`j${at}`, { name, parked: at === 1, total_cost: 1e-9 / 3 }));
    const jobs = store.table("Job");
    const readAll = (joins?: Joins) =>
      Promise.all([
        ...QUERIES.map((query) => jobs.list({ ...query, ...(joins && { joins }) })),
        ...QUERIES.map(({ sort: _, limit: __, ...query }) =>
          jobs.countBy("status", { ...query, ...(joins && { joins }) }),
        ),
        jobs.list({ sort: "parked", limit: 1, ...(joins && { joins }) }),
        jobs.ids({ where: { parked: false }, ...(joins && { joins }) }),
      ]);

    const alone = await readAll();

    expect(alone[1]).toMatchObject({ total: 2 });
    // Whose position is a number that JSON does not have.
    expect(alone.at(-2)).toMatchObject({ next: { value: false } });
    expect(await readAll("now")).toEqual(alone);
  });

  it("wait for company when they are not urgent, and leave with the next urgent one", async () => {
    const client = await openClient(await sharedCluster());
    const texts: string[] = [];
    const reads = new JoinedReads(async (text, values) => {
      texts.push(text);
      return (await client.query(text, [...values])).rows;
    });

    const soon = reads.query("select $1::int as a, $2::text as b", [1, "$1"], "soon");
    const now = [
      reads.query("select n as b from generate_series($1::int, 1, -1) n", [3], "now"),
      reads.query("select 1 where $1", [false], "now"),
    ];

    expect(await Promise.all([soon, ...now])).toEqual([
      [{ a: 1, b: "$1" }],
      [{ b: 3 }, { b: 2 }, { b: 1 }],
      [],
    ]);
    expect(texts).toHaveLength(1);
    expect(await reads.query("select 7 as a", [], "soon")).toEqual([{ a: 7 }]);
  });

  it("do not share the failure of one of them", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    const [store] = (await openStores(1, { schema, lockTimeout: 300 })) as [Store];
    await store.table("Job").insert(makeJob("j"));
    const client = await openClient(cluster);
    await client.query(`begin; lock table ${schema}."Case"`);

    const [cases, jobs] = await Promise.allSettled([
      store.table("Case").list({ joins: "now" }),
      store.table("Job").list({ joins: "now" }),
    ]);
    await client.query("rollback");

    expect(cases).toMatchObject({ status: "rejected", reason: { type: "storage_error" } });
    expect(jobs).toMatchObject({ status: "fulfilled", value: { total: 1 } });
  });
});
