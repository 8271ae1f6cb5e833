import assert from "node:assert/strict";
import { makeEntry, type StoreTest } from "./fixtures.ts";

/** Guarantees for logs. */
export function logTests(test: StoreTest): void {
  test("entries are numbered from 1 within their key and read in order", async (store) => {
    const log = store.log("Run");
    assert.equal(await log.append("a", makeEntry("one")), 1);
    assert.equal(await log.append("b", makeEntry("other")), 1);
    assert.equal(await log.append("a", makeEntry("two")), 2);
    assert.equal(await log.last("a"), 2);
    assert.deepEqual(await log.read("a"), [
      { seq: 1, entry: makeEntry("one") },
      { seq: 2, entry: makeEntry("two") },
    ]);
  });

  test("an unknown key is empty", async (store) => {
    assert.deepEqual(await store.log("Run").read("none"), []);
    assert.equal(await store.log("Run").last("none"), 0);
  });

  test("entries appended concurrently have neither gaps nor repeats", async (store) => {
    const numbers = await Promise.all(
      Array.from({ length: 100 }, (_, at) => store.log("Run").append("a", makeEntry(`${at}`))),
    );
    assert.deepEqual(
      numbers.sort((a, b) => a - b),
      Array.from({ length: 100 }, (_, at) => at + 1),
    );
    assert.equal((await store.log("Run").read("a")).length, 100);
  });

  test("a range is read by number and limit", async (store) => {
    for (let at = 1; at <= 10; at++) await store.log("Run").append("a", makeEntry(`${at}`));
    const numbers = async (range: { after?: number; limit?: number }) =>
      (await store.log("Run").read("a", range)).map((entry) => entry.seq);
    assert.deepEqual(await numbers({ after: 7 }), [8, 9, 10]);
    assert.deepEqual(await numbers({ after: 2, limit: 2 }), [3, 4]);
    assert.deepEqual(await numbers({ after: 10 }), []);
    assert.deepEqual(await numbers({ limit: 0 }), []);
  });

  test("a cleared key is empty and numbers from 1 again", async (store) => {
    await store.log("Run").append("a", makeEntry("one"));
    await store.log("Run").append("kept", makeEntry("one"));
    await store.transaction((tx) => tx.clear("Run", "a"));
    assert.deepEqual(await store.log("Run").read("a"), []);
    assert.equal(await store.log("Run").append("a", makeEntry("new")), 1);
    assert.equal(await store.log("Run").last("kept"), 1);
  });

  test("the last number inside a transaction counts its own entries", async (store) => {
    await store.log("Run").append("a", makeEntry("one"));
    const pending = store.log("Run").append("a", makeEntry("two"));
    const numbers = await store.transaction(async (tx) => {
      const before = await tx.last("Run", "a");
      await tx.append("Run", "a", makeEntry("three"));
      const after = await tx.last("Run", "a");
      await tx.clear("Run", "a");
      return [before, after, await tx.last("Run", "a"), await tx.last("Run", "none")];
    });
    await pending;
    assert.deepEqual(numbers, [2, 3, 0, 0]);
  });

  test("clearing and appending in one transaction leaves the new entries", async (store) => {
    await store.log("Run").append("a", makeEntry("old"));
    const number = await store.transaction(async (tx) => {
      await tx.append("Run", "a", makeEntry("lost"));
      await tx.clear("Run", "a");
      return tx.append("Run", "a", makeEntry("new"));
    });
    assert.equal(number, 1);
    assert.deepEqual(await store.log("Run").read("a"), [{ seq: 1, entry: makeEntry("new") }]);
  });
}
