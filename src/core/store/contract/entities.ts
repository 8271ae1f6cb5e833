import assert from "node:assert/strict";
import { isServiceError } from "../../base/errors.ts";
import { makeCase, makeJob, type StoreTest } from "./fixtures.ts";

/** Guarantees for single entities. */
export function entityTests(test: StoreTest): void {
  test("an inserted entity is read back as it was", async (store) => {
    const job = makeJob("a", { payload: { deep: [1, { two: null }], text: "ü€😀" } });
    await store.table("Job").insert(job);
    assert.deepEqual(await store.table("Job").get("a"), job);
  });

  test("an unknown id returns undefined", async (store) => {
    assert.equal(await store.table("Job").get("none"), undefined);
  });

  test("an existing id is refused and the first entity stays", async (store) => {
    await store.table("Job").insert(makeJob("a", { name: "first" }));
    await assert.rejects(store.table("Job").insert(makeJob("a", { name: "second" })), {
      name: "StoreConflictError",
    });
    assert.equal((await store.table("Job").get("a"))?.name, "first");
  });

  test("tables do not share ids", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    await store.table("Case").insert(makeCase("a", "a"));
    assert.equal((await store.table("Case").get("a"))?.job_id, "a");
  });

  test("a change replaces the entity and resolves with it", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    const changed = await store.table("Job").change("a", (job) => ({ ...job, status: "failed" }));
    assert.equal(changed.status, "failed");
    assert.equal((await store.table("Job").get("a"))?.status, "failed");
  });

  test("a change that returns undefined leaves the entity unchanged, even if it altered its copy", async (store) => {
    await store.table("Job").insert(makeJob("a", { name: "kept" }));
    const unchanged = await store.table("Job").change("a", (job) => {
      job.name = "lost";
      return undefined;
    });
    assert.equal(unchanged.name, "kept");
    assert.equal((await store.table("Job").get("a"))?.name, "kept");
  });

  test("a change of a missing entity is refused", async (store) => {
    await assert.rejects(
      store.table("Job").change("none", (job) => job),
      { name: "StoreMissingError" },
    );
  });

  test("a change whose function throws changes nothing", async (store) => {
    await store.table("Job").insert(makeJob("a", { name: "kept" }));
    const change = store.table("Job").change("a", (job) => {
      job.name = "lost";
      throw new Error("no");
    });
    await assert.rejects(change, /no/);
    assert.equal((await store.table("Job").get("a"))?.name, "kept");
  });

  test("a change may not give an entity another id", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    await assert.rejects(store.table("Job").change("a", (job) => ({ ...job, id: "b" })));
    assert.equal(await store.table("Job").get("b"), undefined);
  });

  test("a removed entity is gone and can be inserted again", async (store) => {
    await store.table("Job").insert(makeJob("a", { name: "first" }));
    assert.equal(await store.table("Job").remove("a"), true);
    assert.equal(await store.table("Job").get("a"), undefined);
    assert.equal(await store.table("Job").remove("a"), false);
    await store.table("Job").insert(makeJob("a", { name: "second" }));
    assert.equal((await store.table("Job").get("a"))?.name, "second");
  });

  test("statistics count the entities of entity tables", async (store) => {
    await store.table("Job").insert(makeJob("a"));
    await store.table("Case").insert(makeCase("c1", "a"));
    await store.table("Case").insert(makeCase("c2", "a"));
    const { tables } = await store.stats();
    assert.deepEqual(tables, { Job: 1, Case: 2 });
    assert.equal(store.health().writable, true);
  });

  test("a closed store refuses reads and writes", async (store) => {
    await store.close();
    await assert.rejects(store.table("Job").get("a"), isServiceError);
    await assert.rejects(store.table("Job").insert(makeJob("a")), isServiceError);
    await assert.rejects(
      store.transaction(async () => {}),
      isServiceError,
    );
    assert.equal(store.health().writable, false);
    await store.close();
  });
}
