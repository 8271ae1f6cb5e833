import { createStorage } from "unstorage";
import { describe, expect, it } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { storeDriver } from "../../src/core/store/unstorage-driver.ts";

async function open() {
  const store = await createMemoryStore({
    tables: CORE_TABLES,
    dataDir: "",
    log: { info() {}, warn() {}, error() {} },
  });
  const driver = storeDriver({ store });
  return { store, driver, storage: createStorage({ driver }) };
}

describe("a store as an unstorage driver", () => {
  it("reads, writes, lists and removes entities by key", async () => {
    const { store, storage } = await open();
    await store.table("Job").insert(makeJob("a"));
    await storage.setItem("Job:b", makeJob("b", { name: "second" }) as never);
    await storage.setItem("Job:b", makeJob("b", { name: "third" }) as never);

    expect(await storage.getItem("Job:a")).toEqual(makeJob("a"));
    expect((await store.table("Job").get("b"))?.name).toBe("third");
    expect((await storage.getKeys()).sort()).toEqual(["Job:a", "Job:b"]);
    expect(await storage.getKeys("Case")).toEqual([]);
    expect(await storage.hasItem("Job:a")).toBe(true);
    await storage.removeItem("Job:a");
    expect(await store.table("Job").get("a")).toBeUndefined();
    expect(await storage.getItem("Job:a")).toBeNull();
  });

  it("hands values out as they are stored, also keys that unstorage's parser drops", async () => {
    const { store, storage } = await open();
    const payload = JSON.parse('{"__proto__":{"x":1},"number":"123"}') as unknown;
    await store.table("Job").insert(makeJob("a", { payload }));

    const read = await storage.getItem<{ payload: unknown }>("Job:a");

    expect(JSON.stringify(read?.payload)).toBe(JSON.stringify(payload));
  });

  it("keeps ids apart that unstorage would take for one", async () => {
    const { store, storage } = await open();
    const ids = ["a/b", "a:b", "a\\b", "q?1", "x$", "\ud800"];
    for (const id of ids) await store.table("Job").insert(makeJob(id));

    const keys = await storage.getKeys("Job");

    expect(keys).toHaveLength(ids.length);
    const read = await Promise.all(keys.map((key) => storage.getItem<{ id: string }>(key)));
    expect(read.map((job) => job?.id).sort()).toEqual([...ids].sort());
  });

  it("gives the store out for all that keys and values cannot say", async () => {
    const { store, driver } = await open();

    expect(driver.getInstance?.()).toBe(store);
  });

  it("refuses a value under the key of another entity", async () => {
    const { storage } = await open();

    await expect(storage.setItem("Job:a", makeJob("b") as never)).rejects.toThrow('must have the id "a"');
  });
});
