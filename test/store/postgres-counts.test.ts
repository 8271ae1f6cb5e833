import { expect, it, onTestFinished } from "vitest";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Condition, Store } from "../../src/core/store/store.ts";
import { borrowSchema, giveBackSchema, openStores, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";

const STATUSES = ["stopped", "in_progress", "awaiting", "completed", "failed"] as const;
const AGENTS = ["clerk", "auditor", "Ä"];
const at = <T>(values: readonly T[], number: number) => values[number % values.length]!;

requirement("postgres").describe("Counts of a Postgres store", () => {
  it("are exact after changes by several processes and by hand", async () => {
    const cluster = await sharedCluster();
    const schema = await borrowSchema(cluster);
    onTestFinished(() => giveBackSchema(schema));
    const stores = await openStores(3, { schema });

    const live = async (one: number, number: number) => {
      const id = `job-${one}-${number}`;
      const job = makeJob(id, { status: at(STATUSES, number), agent_name: at(AGENTS, number + one) });
      await at(stores, one).transaction(async (tx) => {
        await tx.insert("Job", job);
        await tx.insert("Case", makeCase(`${id}-1`, id));
      });
      await expect(
        at(stores, one + 1)
          .table("Job")
          .insert(job),
      ).rejects.toThrow("already exists");
      const status = at(STATUSES, number + 1);
      if (number % 3 > 0)
        await at(stores, one + 1)
          .table("Job")
          .change(id, (old) => ({ ...old, status }));
      if (number % 5 === 0)
        await at(stores, one + 2)
          .table("Job")
          .remove(id);
    };
    await Promise.all(
      [0, 1, 2].flatMap((one) => Array.from({ length: 20 }, (_, number) => live(one, number))),
    );

    await expectExact(stores[0]!);
    await cluster.query(`delete from ${schema}."Job" where status = 'failed'`);
    await expectExact(stores[1]!);
    await cluster.query(`truncate ${schema}."Case"`);
    await expectExact(stores[2]!);
  });

  it("are those of a search, whether it finds few or many", async () => {
    const [store] = (await openStores(1)) as [Store];
    const jobs = store.table("Job");
    const made = Array.from({ length: 1010 }, (_, number) =>
      makeJob(`j${String(number).padStart(4, "0")}`, {
        name: number % 100 === 0 ? "A rare Invoice" : "An invoice",
        status: at(STATUSES, number),
      }),
    );
    await Promise.all(made.map((job) => jobs.insert(job)));
    const page = async (search: string, where: Record<string, Condition> = {}) => {
      const { items, total } = await jobs.list({ search, where, sort: "id", skip: 3, limit: 2 });
      return [...items.map(({ id }) => id), total];
    };

    expect(await page("RARE")).toEqual(["j0300", "j0400", 11]);
    expect(await page("rare", { status: "failed" })).toEqual([0]);
    expect(await page("rare", { id: ["j0100", "j0200", "j0300", "j0400"] })).toEqual(["j0400", 4]);
    expect(await page("invoice")).toEqual(["j0003", "j0004", 1010]);
    expect(await page("invoice", { status: "failed" })).toEqual(["j0019", "j0024", 202]);
    expect(await page("nothing")).toEqual([0]);
  });
});

/** Compares the kept counts with the entities. */
async function expectExact(store: Store): Promise<void> {
  const jobs = store.table("Job");
  const all = (await jobs.list({ limit: Number.POSITIVE_INFINITY })).items;
  const statusOf = (status: string) => all.filter((job) => job.status === status).length;
  const wheres: [Record<string, Condition>, number][] = [
    [{}, all.length],
    ...STATUSES.map((status): [Record<string, Condition>, number] => [{ status }, statusOf(status)]),
    [{ status: ["failed", "completed"] }, statusOf("failed") + statusOf("completed")],
    [{ agent_name: { contains: "ä" } }, all.filter((job) => job.agent_name === "Ä").length],
    [
      { agent_name: "clerk", status: "awaiting" },
      await countOf(store, { id: { gte: "" }, agent_name: "clerk", status: "awaiting" }),
    ],
  ];
  for (const [where, total] of wheres) {
    for (const page of [{ limit: 0 }, { limit: 2, skip: 1 }, { limit: 2, skip: 1000 }])
      expect((await jobs.list({ where, ...page })).total, JSON.stringify([where, page])).toBe(total);
  }
  const counts = new Map<string, number>();
  for (const { agent_name } of all) counts.set(agent_name, (counts.get(agent_name) ?? 0) + 1);
  expect(await jobs.countBy("agent_name")).toEqual(Object.fromEntries(counts));
  const cases = store.table("Case");
  const { tables } = await store.stats();
  expect(tables).toEqual({ Job: all.length, Case: (await cases.ids()).length });
  expect((await cases.list({ limit: 1 })).total).toBe(tables.Case);
}

/** Counts what the database does not keep count of. */
async function countOf(store: Store, where: Record<string, Condition>): Promise<number> {
  return (await store.table("Job").ids({ where })).length;
}
