import assert from "node:assert/strict";
import { isServiceError } from "../../base/errors.ts";
import { makeEntry, makeJob, type StoreTest } from "./fixtures.ts";

/** Ids and values of every kind that must be preserved. */
export function difficultTests(test: StoreTest): void {
  const ids = [
    "__proto__",
    "constructor",
    "toString",
    "a/b",
    "a:b",
    "a\\b",
    "q?1",
    "x$",
    " ",
    "..",
    "UP",
    "up",
  ];
  const strange = ["é", "e\u0301", "\ud800", "\udfff", "\u0000", '"', "\n", '},"d":', "𝒳", "x".repeat(300)];

  test("ids are compared by their exact characters", async (store) => {
    const all = [...ids, ...strange];
    await Promise.all(all.map((id, at) => store.table("Job").insert(makeJob(id, { name: `job ${at}` }))));
    for (const [at, id] of all.entries()) assert.equal((await store.table("Job").get(id))?.name, `job ${at}`);
    assert.equal((await store.table("Job").list({ limit: 1 })).total, all.length);
    for (const id of all) assert.equal(await store.table("Job").remove(id), true);
  });

  test("strange keys of logs are kept apart", async (store) => {
    const all = [...ids, ...strange];
    for (const key of all) await store.log("Run").append(key, makeEntry(key));
    for (const key of all)
      assert.deepEqual(await store.log("Run").read(key), [{ seq: 1, entry: makeEntry(key) }]);
  });

  test("values are read back unchanged, whatever they look like", async (store) => {
    const payload = JSON.parse(
      '{"__proto__":{"polluted":true},"constructor":1,"number":"123","date":"2026-01-01","text":"\\ud800 }{ \\"d\\":"}',
    ) as unknown;
    await store.table("Job").insert(makeJob("a", { payload }));
    const read = await store.table("Job").get("a");
    assert.equal(JSON.stringify(read?.payload), JSON.stringify(payload));
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });

  test("a payload of 5 MB is stored and read", async (store) => {
    const payload = { text: "0123456789".repeat(500_000), more: "€".repeat(1000) };
    await store.table("Job").insert(makeJob("big", { payload }));
    await store.table("Job").insert(makeJob("small"));
    assert.deepEqual((await store.table("Job").get("big"))?.payload, payload);
    assert.notEqual(await store.table("Job").get("small"), undefined);
  });

  test("what JSON cannot represent is refused and leaves no trace", async (store) => {
    const cycle: { self?: unknown } = {};
    cycle.self = cycle;
    let deep: unknown = 1;
    for (let level = 0; level < 100_000; level++) deep = [deep];
    const throwing = {
      toJSON() {
        throw new Error("not me");
      },
    };
    for (const payload of [cycle, deep, 10n, throwing]) {
      await assert.rejects(store.table("Job").insert(makeJob("a", { payload })), isServiceError);
    }
    assert.equal(await store.table("Job").get("a"), undefined);
    await store.table("Job").insert(makeJob("a"));
  });
}
