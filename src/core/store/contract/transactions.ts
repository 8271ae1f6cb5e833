import assert from "node:assert/strict";
import { at, makeCase, makeEntry, makeJob, type StoreTest } from "./fixtures.ts";

/** Guarantees for transactions. */
export function transactionTests(test: StoreTest): void {
  test("writes to several tables and logs appear together", async (store) => {
    const value = await store.transaction(async (tx) => {
      await tx.insert("Job", makeJob("a", { case_count: 1 }));
      await tx.insert("Case", makeCase("c", "a"));
      await tx.append("Run", "a", makeEntry("opened"));
      return 42;
    });
    assert.equal(value, 42);
    assert.equal((await store.table("Case").get("c"))?.job_id, "a");
    assert.equal(await store.log("Run").last("a"), 1);
  });

  test("a transaction that throws writes nothing", async (store) => {
    await store.table("Job").insert(makeJob("kept"));
    const work = store.transaction(async (tx) => {
      await tx.insert("Job", makeJob("a"));
      await tx.remove("Job", "kept");
      await tx.append("Run", "a", makeEntry("lost"));
      throw new Error("no");
    });
    await assert.rejects(work, /no/);
    assert.equal(await store.table("Job").get("a"), undefined);
    assert.notEqual(await store.table("Job").get("kept"), undefined);
    assert.equal(await store.log("Run").append("a", makeEntry("first")), 1);
  });

  test("reads inside see the transaction's own writes, readers outside do not", async (store) => {
    await store.table("Job").insert(makeJob("a", { name: "old" }));
    let outside: string | undefined;
    await store.transaction(async (tx) => {
      await tx.change("Job", "a", (job) => ({ ...job, name: "new" }));
      await tx.insert("Job", makeJob("b"));
      outside = (await store.table("Job").get("a"))?.name;
      assert.equal((await tx.get("Job", "a"))?.name, "new");
      assert.equal(await tx.remove("Job", "b"), true);
      assert.equal(await tx.get("Job", "b"), undefined);
      await tx.insert("Job", makeJob("b", { name: "again" }));
    });
    assert.equal(outside, "old");
    assert.equal((await store.table("Job").get("b"))?.name, "again");
  });

  test("ids inside see the transaction's own writes, oldest first, ties by id", async (store) => {
    for (const [id, second] of Object.entries({ late: 2, b: 1, a: 1, gone: 1 })) {
      await store.table("Case").insert(makeCase(id, "job", { created_at: at(second) }));
    }
    await store.table("Case").insert(makeCase("other", "other-job"));
    const pending = store.table("Case").insert(makeCase("pending", "job", { created_at: at(3) }));
    const inside = await store.transaction(async (tx) => {
      await tx.insert("Case", makeCase("new", "job", { created_at: at(0) }));
      await tx.remove("Case", "gone");
      await tx.change("Case", "other", (item) => ({ ...item, job_id: "job", created_at: at(4) }));
      await assert.rejects(tx.ids("Case", "name", "x"));
      return tx.ids("Case", "job_id", "job");
    });
    await pending;
    assert.deepEqual(inside, ["new", "a", "b", "late", "pending", "other"]);
    const outside = await store.table("Case").ids({ where: { job_id: "job" }, sort: "created_at" });
    assert.deepEqual(outside, inside);
    assert.deepEqual(await store.transaction((tx) => tx.ids("Case", "job_id", "none")), []);
  });

  test("a conflict inside can be handled and the rest still commits", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    await store.transaction(async (tx) => {
      await assert.rejects(tx.insert("Job", makeJob("a")), { name: "StoreConflictError" });
      await assert.rejects(
        tx.change("Job", "none", (job) => job),
        { name: "StoreMissingError" },
      );
      await tx.insert("Job", makeJob("b"));
    });
    assert.notEqual(await store.table("Job").get("b"), undefined);
  });

  test("transactions do not interleave", async (store) => {
    await store.table("Job").insert(makeJob("a", { total_cost: 0 }));
    const add = () =>
      store.transaction(async (tx) => {
        const job = await tx.get("Job", "a");
        await Promise.resolve();
        await tx.change("Job", "a", (current) => ({ ...current, total_cost: (job?.total_cost ?? 0) + 1 }));
      });
    const single = () =>
      store.table("Job").change("a", (job) => ({ ...job, total_cost: job.total_cost + 1 }));
    await Promise.all(Array.from({ length: 100 }, (_, at) => (at % 2 === 0 ? add() : single())));
    assert.equal((await store.table("Job").get("a"))?.total_cost, 100);
  });

  test("a transaction cannot be used after it has ended", async (store) => {
    let leaked: { get: (table: "Job", id: string) => Promise<unknown> } | undefined;
    await store.transaction(async (tx) => {
      leaked = tx;
    });
    await assert.rejects(leaked!.get("Job", "a"));
  });

  test("a transaction without writes resolves with its value", async (store) => {
    assert.equal(await store.transaction(async (tx) => (await tx.get("Job", "none")) === undefined), true);
  });
}
