import assert from "node:assert/strict";
import { makeCase, makeJob, type StoreTest } from "./fixtures.ts";

/** Guarantees during concurrent writes. */
export function isolationTests(test: StoreTest): void {
  test("200 concurrent changes of one entity all take effect", async (store) => {
    await store.table("Job").insert(makeJob("a", { payload: [] }));
    const changes = Array.from({ length: 200 }, () =>
      store.table("Job").change("a", (job) => {
        const numbers = job.payload as number[];
        return { ...job, payload: [...numbers, numbers.length + 1] };
      }),
    );
    await Promise.all(changes);
    assert.deepEqual(
      (await store.table("Job").get("a"))?.payload,
      Array.from({ length: 200 }, (_, at) => at + 1),
    );
  });

  test("of many concurrent inserts of one id exactly one succeeds, and the others can read it", async (store) => {
    const outcomes = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        store
          .table("Job")
          .insert(makeJob("a", { name: `job ${at}` }))
          .then(
            () => "inserted",
            async () => ((await store.table("Job").get("a")) === undefined ? "unseen" : "refused"),
          ),
      ),
    );
    assert.equal(outcomes.filter((outcome) => outcome === "inserted").length, 1);
    assert.equal(outcomes.filter((outcome) => outcome === "refused").length, 19);
  });

  test("stored values share nothing with the values that were passed or returned", async (store) => {
    const given = makeJob("a", { payload: { list: [1] } });
    await store.table("Job").insert(given);
    (given.payload as { list: number[] }).list.push(2);
    const read = (await store.table("Job").get("a"))!;
    (read.payload as { list: number[] }).list.push(3);
    let inside: { list: number[] } | undefined;
    const changed = await store.table("Job").change("a", (job) => {
      inside = job.payload as { list: number[] };
      return { ...job, name: "new" };
    });
    for (const { list } of [inside!, changed.payload as { list: number[] }]) {
      try {
        list.push(4);
      } catch (error) {
        assert.ok(error instanceof TypeError && Object.isFrozen(list));
      }
    }
    const listed = (await store.table("Job").list()).items[0]!;
    (listed.payload as { list: number[] }).list.push(5);
    assert.deepEqual((await store.table("Job").get("a"))?.payload, { list: [1] });
  });

  test("read-only values are as stored, at every version, and cannot be altered", async (store) => {
    const jobs = store.table("Job");
    assert.equal(await jobs.peek("a"), undefined);
    await jobs.insert(makeJob("a", { payload: { list: [1] } }));
    const first = (await jobs.peek("a"))!;
    assert.deepEqual(first, await jobs.get("a"));
    assert.throws(() => (first.payload as { list: number[] }).list.push(2), TypeError);
    await jobs.change("a", (job) => ({ ...job, name: "new" }));
    assert.equal((await jobs.peek("a"))?.name, "new");
    await jobs.remove("a");
    assert.equal(await jobs.peek("a"), undefined);
    await jobs.insert(makeJob("a", { name: "again" }));
    assert.equal((await jobs.peek("a"))?.name, "again");
  });

  test("a list agrees with a write as soon as it is acknowledged", async (store) => {
    for (let round = 0; round < 20; round++) {
      await store.table("Job").insert(makeJob(`j${round}`));
      assert.equal((await store.table("Job").list({ limit: 1 })).total, round + 1);
      await store.table("Job").change(`j${round}`, (job) => ({ ...job, status: "completed" }));
      const done = await store.table("Job").list({ where: { status: "completed" }, limit: 1 });
      assert.equal(done.total, round + 1);
    }
  });

  test("readers never see part of a transaction", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    let writing = true;
    const writer = (async () => {
      for (let round = 0; round < 60; round++) {
        await store.transaction(async (tx) => {
          await tx.insert("Case", makeCase(`c${round}`, "a"));
          await tx.change("Job", "a", (job) => ({ ...job, case_count: job.case_count + 1 }));
        });
      }
      writing = false;
    })();
    while (writing) {
      const job = await store.table("Job").get("a");
      const seen = await store.table("Case").list({ where: { job_id: "a" }, limit: 1 });
      assert.ok(seen.total >= (job?.case_count ?? 0), "a counted case does not exist");
      await new Promise((resolve) => setImmediate(resolve));
    }
    await writer;
  });
}
