import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { createStorage } from "unstorage";
import fsDriver from "unstorage/drivers/fs";
import memoryDriver from "unstorage/drivers/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { bucketStore, openBucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { openObjects } from "../../src/core/store/bucket/objects.ts";
import { seal } from "../../src/core/store/bucket/sealed.ts";
import { Standby } from "../../src/core/store/bucket/standby.ts";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { nodeTimers, type Timers } from "../../src/core/store/json/timers.ts";
import type { Store, StoreFactory } from "../../src/core/store/store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { slotDriver } from "./slot-driver.ts";

/** A storage for each data folder, which outlives what is in that folder. */
function perFolder(make: (dataDir: string) => StorageLike): StoreFactory {
  const storages = new Map<string, StorageLike>();
  return (context) => {
    const storage = storages.get(context.dataDir) ?? make(context.dataDir);
    storages.set(context.dataDir, storage);
    return bucketStore(storage)(context);
  };
}

const opened = { describe, it, persistent: true };
storeContract({ ...opened, name: "a bucket in memory", open: perFolder(() => memoryDriver()) });
storeContract({
  ...opened,
  name: "a bucket with atomic creation",
  open: perFolder(() => slotDriver(new Map())),
});
storeContract({
  ...opened,
  name: "a bucket of files",
  open: perFolder((dataDir) => fsDriver({ base: join(dataDir, "bucket") }) as StorageLike),
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "bucket-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const silent = { info() {}, warn() {}, error() {} };

/** What happens every ten seconds happens twenty times a second. */
const hasty: Timers = {
  ...nodeTimers,
  after: (milliseconds, work) => nodeTimers.after(milliseconds === 10_000 ? 50 : milliseconds, work),
};

async function open(
  storage: StorageLike,
  options: { journalBytes?: number; timers?: Timers } = {},
): Promise<Store> {
  const context = { tables: CORE_TABLES, dataDir: folder(), log: silent, objects: openObjects(storage) };
  const store = await openBucketStore({ ...context, ...options });
  onTestFinished(() => store.close());
  return store;
}

const KINDS = [
  ["with atomic creation", (data: Map<string, Uint8Array>) => slotDriver(data)],
  [
    "with a marker",
    (data: Map<string, Uint8Array>) => {
      const { createItemRaw: _, ...driver } = slotDriver(data);
      return driver;
    },
  ],
] as const;

describe.each(KINDS)("a store in a bucket %s", (_, driverOf) => {
  it("opens on a blank disk where another one stopped, after many groups, bases and compactions", async () => {
    const data = new Map<string, Uint8Array>();
    let jobs = 0;
    for (let life = 0; life < 3; life++) {
      const store = await open(driverOf(data), { journalBytes: 20_000 });
      expect(await store.table("Job").countBy("status")).toEqual(jobs === 0 ? {} : { in_progress: jobs });
      for (let group = 0; group < 150; group++) {
        await store.table("Job").insert(makeJob(`j${jobs++}`));
        await store.log("Run").append("a", makeEntry(`${jobs}`));
      }
      expect(await store.log("Run").last("a")).toBe(jobs);
      await store.close();
    }
    // Groups were merged and removed: a start reads few objects.
    expect(data.size).toBeLessThan(jobs);
  });

  it("waits with a group while a base is written too slowly, so that a start makes less than 100 requests", async () => {
    const data = new Map<string, Uint8Array>();
    const driver = driverOf(data) as ReturnType<typeof slotDriver>;
    let allow: () => void = () => {};
    const allowed = new Promise<void>((resolve) => {
      allow = resolve;
    });
    onTestFinished(() => allow());
    const groups = () => [...data.keys()].filter((key) => /\blog:/.test(key)).length;
    const store = await open({
      ...driver,
      setItemRaw: async (key: string, value: Uint8Array) => {
        if (/\b(base|part):/.test(key)) await allowed;
        return driver.setItemRaw(key, value);
      },
    });
    const jobs = 200;
    const writing = (async () => {
      for (let n = 0; n < jobs; n++) await store.table("Job").insert(makeJob(`j${n}`));
    })();
    await expect.poll(groups).toBeGreaterThan(60);
    await delay(200);
    expect(groups()).toBeLessThan(70);
    allow();
    await writing;
    await store.close();

    let reads = 0;
    const next = await open({
      ...driver,
      getItemRaw: async (key: string) => {
        reads++;
        return driver.getItemRaw(key);
      },
    });
    expect(await next.table("Job").ids()).toHaveLength(jobs);
    expect(reads).toBeLessThan(100);
  });

  it("closes although the bucket never stores the merged groups, and loses nothing that it acknowledged", async () => {
    const data = new Map<string, Uint8Array>();
    const driver = driverOf(data) as ReturnType<typeof slotDriver>;
    const store = await open({
      ...driver,
      setItemRaw: (key: string, value: Uint8Array) =>
        /\b(base|part):/.test(key) ? new Promise<void>(() => {}) : driver.setItemRaw(key, value),
    });
    const acknowledged: string[] = [];
    const writing = (async () => {
      for (let n = 0; n < 200; n++) {
        await store.table("Job").insert(makeJob(`j${n}`));
        acknowledged.push(`j${n}`);
      }
    })().catch(() => {});
    await expect.poll(() => acknowledged.length).toBeGreaterThan(60);

    await store.close();
    await writing;

    const next = await open(driverOf(data));
    expect(await next.table("Job").ids()).toEqual(expect.arrayContaining(acknowledged));
  });

  it("an owner that another one has deposed acknowledges nothing more, and says who has the store", async () => {
    const data = new Map<string, Uint8Array>();
    const old = await open(driverOf(data));
    await old.table("Job").insert(makeJob("a"));
    const next = await open(driverOf(data));
    await expect(old.table("Job").insert(makeJob("b"))).rejects.toMatchObject({
      type: "storage_error",
      status: 503,
      message: expect.stringContaining(`process ${process.pid}`),
    });
    expect(old.health()).toMatchObject({ writable: false });
    await expect(old.table("Job").insert(makeJob("c"))).rejects.toMatchObject({ type: "storage_error" });
    await next.table("Job").insert(makeJob("d"));
    await next.close();
    const third = await open(driverOf(data));
    expect((await third.table("Job").list({ sort: "id" })).items.map(({ id }) => id)).toEqual(["a", "d"]);
  });

  it("an idle owner notices that another one has taken over, and is no longer healthy", async () => {
    const data = new Map<string, Uint8Array>();
    const old = await open(driverOf(data), { timers: hasty });
    await old.table("Job").insert(makeJob("a"));
    expect(old.health()).toEqual({ writable: true });
    await open(driverOf(data));
    await expect.poll(() => old.health()).toMatchObject({ writable: false });
  });

  it("an owner gives a sign of life only when one that waits asks for it", async () => {
    const data = new Map<string, Uint8Array>();
    const has = (word: string) => [...data.keys()].some((key) => key.endsWith(word));
    let looks = 0;
    const driver = driverOf(data) as ReturnType<typeof slotDriver>;
    const getItemRaw = async (key: string) => {
      if (key.endsWith("waiting")) looks++;
      return driver.getItemRaw(key);
    };
    await open({ ...driver, getItemRaw }, { timers: hasty });
    await expect.poll(() => looks).toBeGreaterThan(2);
    expect(has("alive")).toBe(false);

    const standby = new Standby();
    const waiting = standby.wait(openObjects(driverOf(data)), undefined, silent);
    await expect.poll(() => has("alive")).toBe(true);
    standby.close();
    await expect(waiting).rejects.toThrow("closed");
  });

  it("while the storage fails, a write that was sent waits, new ones are refused, and both are right then", async () => {
    const data = new Map<string, Uint8Array>();
    const driver = driverOf(data) as ReturnType<typeof slotDriver>;
    let isDown = false;
    const fail =
      <A extends unknown[], R>(work: (...args: A) => Promise<R>) =>
      async (...args: A): Promise<R> => {
        const result = isDown ? undefined : await work(...args);
        if (isDown) throw new Error("503 Slow Down");
        return result as R;
      };
    const store = await open({
      ...driver,
      setItemRaw: fail(driver.setItemRaw),
      ...(driver.createItemRaw && { createItemRaw: fail(driver.createItemRaw) }),
    });
    await store.table("Job").insert(makeJob("a"));
    isDown = true;
    const waiting = store.table("Job").insert(makeJob("b"));
    await expect.poll(() => store.health().writable).toBe(false);
    await expect(store.table("Job").insert(makeJob("c"))).rejects.toMatchObject({ type: "storage_error" });
    isDown = false;
    await waiting;
    expect(store.health()).toEqual({ writable: true });
    await store.table("Job").insert(makeJob("d"));
    expect(await store.table("Job").ids({ sort: "id" })).toEqual(["a", "b", "d"]);
  });
});

it("a standby waits while the bucket fails, and counts the signs of life of the present owner alone", async () => {
  const data = new Map<string, Uint8Array>();
  const first = await open(slotDriver(data));
  const second = await open(slotDriver(data));
  const driver = slotDriver(data);
  let isDown = true;
  const warnings: string[] = [];
  const log = { info() {}, warn: (text: string) => void warnings.push(text), error() {} };
  const standby = new Standby({ dead: 1200 });
  onTestFinished(() => standby.close());
  const objects = openObjects({
    ...driver,
    getItemRaw: async (key: string) => {
      if (isDown) throw new Error("503 Slow Down");
      return driver.getItemRaw(key);
    },
  });
  const waited = standby.wait(objects, undefined, log);
  await expect.poll(() => warnings.length).toBe(1);
  isDown = false;
  // The owner before, which has noticed nothing yet.
  const alive = [...data.keys()].find((key) => key.includes("owner"))!.replace(/owner.*/, "alive");
  let beats = 0;
  const beat = setInterval(() => data.set(alive, seal({ epoch: "earlier", beat: ++beats })), 100);
  onTestFinished(() => clearInterval(beat));

  await waited;

  expect(warnings[0]).toContain("does not respond");
  expect(warnings[1]).toContain("no sign of life");
  expect(beats).toBeGreaterThan(5);
  await first.close();
  await second.close();
});

describe("a bucket", () => {
  it("with entries that were created atomically is refused to a driver that cannot do that", async () => {
    const data = new Map<string, Uint8Array>();
    const store = await open(slotDriver(data));
    await store.close();
    await expect(open(createStorage({ driver: slotDriver(data) as never }))).rejects.toMatchObject({
      type: "storage_error",
      detail: expect.stringContaining("pass the driver itself"),
    });
  });

  it("continues with the marker that it was started with, also with a driver that creates atomically", async () => {
    const data = new Map<string, Uint8Array>();
    const old = await open(createStorage({ driver: slotDriver(data) as never }));
    await old.table("Job").insert(makeJob("a"));
    const next = await open(slotDriver(data));
    await expect(old.table("Job").insert(makeJob("b"))).rejects.toMatchObject({ type: "storage_error" });
    expect(await next.table("Job").ids()).toEqual(["a"]);
  });
});
