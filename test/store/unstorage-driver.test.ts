import { createStorage } from "unstorage";
import { describe, expect, it } from "vitest";
import { toJob } from "../../src/core/models/job.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
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
  it("reads and lists entities by key, without internal fields", async () => {
    const { store, storage } = await open();
    const stored = makeJob("a", { encrypted_agent_parameters: "envelope", fingerprint: "abc" });
    await store.table("Job").insert(stored);
    await store.table("Case").insert(makeCase("c", "a"));

    expect(await storage.getItem("Job:a")).toEqual(toJob(stored, ["c"]));
    expect(JSON.stringify(await storage.getItem("Job:a"))).not.toMatch(/envelope|"fingerprint"/);
    expect(await storage.getItem("Case:c")).toEqual(makeCase("c", "a"));
    expect((await storage.getKeys()).sort()).toEqual(["Case:c", "Job:a"]);
    expect(await storage.getKeys("Case")).toEqual(["Case:c"]);
    expect(await storage.hasItem("Job:a")).toBe(true);
    expect(await storage.getItem("Job:b")).toBeNull();
  });

  it("refuses to write or remove, as rules and hooks would be bypassed, and offers no other way", async () => {
    const { store, storage, driver } = await open();
    await store.table("Job").insert(makeJob("a"));
    const job = makeJob("a", { status: "in_progress", error: "key secret" });

    for (const write of [
      () => storage.setItem("Job:a", job as never),
      () => storage.removeItem("Job:a"),
      () => storage.clear(),
    ])
      await expect(Promise.resolve().then(write)).rejects.toThrow("the driver is read-only");

    await storage.dispose();
    expect(await store.table("Job").get("a")).toEqual(makeJob("a"));
    expect(driver).not.toHaveProperty("getInstance");
  });

  it("returns values as they are stored, including keys that unstorage's parser drops", async () => {
    const { store, storage } = await open();
    const payload = JSON.parse('{"__proto__":{"x":1},"number":"123"}') as unknown;
    await store.table("Job").insert(makeJob("a", { payload }));

    const read = await storage.getItem<{ payload: unknown }>("Job:a");

    expect(JSON.stringify(read?.payload)).toBe(JSON.stringify(payload));
  });

  it("distinguishes ids that unstorage would treat as one", async () => {
    const { store, storage } = await open();
    const ids = ["a/b", "a:b", "a\\b", "q?1", "x$", "\ud800"];
    for (const id of ids) await store.table("Job").insert(makeJob(id));

    const keys = await storage.getKeys("Job");

    expect(keys).toHaveLength(ids.length);
    const read = await Promise.all(keys.map((key) => storage.getItem<{ id: string }>(key)));
    expect(read.map((job) => job?.id).sort()).toEqual([...ids].sort());
  });
});
