import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { BucketPlace } from "../../src/core/store/bucket/bucket-place.ts";
import { openBucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { openObjects } from "../../src/core/store/bucket/objects.ts";
import { sumsOf } from "../../src/core/store/content.ts";
import { makeCase, makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { nodeTimers } from "../../src/core/store/json/timers.ts";
import { readBackup, saveBackup, sendStored } from "../../src/core/store/maintenance.ts";
import { fillPlace, type MoveOptions, moveStore, type Place, undoMove } from "../../src/core/store/move.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { slotDriver } from "./slot-driver.ts";

const log = { info() {}, warn() {}, error() {} };

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "bucket-place-"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const KINDS = [
  ["with atomic creation", (data: Map<string, Uint8Array>): StorageLike => slotDriver(data)],
  [
    "with a marker",
    (data: Map<string, Uint8Array>): StorageLike => {
      const { createItemRaw: _, ...driver } = slotDriver(data);
      return driver;
    },
  ],
] as const;

const bucket = (storage: StorageLike) => new BucketPlace({ name: "s3://test/place", storage, dead: 0 });
const folder = (name = "data") => new FolderPlace(join(root, name));

let blanks = 0;
async function openBucket(storage: StorageLike, hasty = false): Promise<Store> {
  const timers = {
    ...nodeTimers,
    after: (milliseconds: number, work: () => void) => nodeTimers.after(hasty ? 20 : milliseconds, work),
  };
  const store = await openBucketStore({
    ...{ tables: CORE_TABLES, dataDir: join(root, `blank-${++blanks}`), log, timers },
    objects: openObjects(storage),
  });
  onTestFinished(() => store.close());
  return store;
}

/** Makes the data folder a store with jobs, cases and logs. */
async function fillFolder(): Promise<void> {
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir: join(root, "data"), log });
  for (const id of ["a", "é", "z"]) {
    await store.table("Job").insert(makeJob(id));
    await store.table("Case").insert(makeCase(`c${id}`, id));
    for (let entry = 0; entry < 3; entry++) await store.log("Run").append(id, makeEntry(`${id}${entry}`));
  }
  await store.table("Job").remove("z");
  await store.close();
}

let moves = 0;
const ends = (source: Place, target: Place): MoveOptions => ({
  ...{ source, target },
  newId: () => `move-${++moves}`,
  now: () => new Date("2026-03-01T09:30:00Z"),
});

async function using<T>(place: Place, work: () => Promise<T>): Promise<T> {
  await place.lock();
  try {
    return await work();
  } finally {
    await place.release();
  }
}

const sums = (place: Place) =>
  using(place, async () =>
    [...(await place.read(sumsOf))].filter(({ rows }) => rows > 0).sort((a, b) => (a.name < b.name ? -1 : 1)),
  );

/** The storage of a process that dies at a request, before it takes effect or, as if its response was lost, after that. */
function mortal(storage: StorageLike, left: number, when: "before" | "after" = "after"): StorageLike {
  const driver = storage as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  const calls = ["getItemRaw", "setItemRaw", "createItemRaw", "getKeys", "removeItem"];
  let requests = left;
  const wrapped = calls
    .filter((name) => driver[name] !== undefined)
    .map((name) => [
      name,
      async (...args: unknown[]) => {
        requests--;
        if (requests === 0 && when === "after") await driver[name]!(...args);
        if (requests <= 0) throw new Error("the process has died");
        return driver[name]!(...args);
      },
    ]);
  return { ...driver, ...Object.fromEntries(wrapped) } as unknown as StorageLike;
}

describe.each(KINDS)("a store in a bucket %s, as a place", (name, driverOf) => {
  it("gets everything that a folder had, and gives it back to a folder", async () => {
    await fillFolder();
    const before = await sums(folder());
    const data = new Map<string, Uint8Array>();

    const moved = await moveStore(ends(folder(), bucket(driverOf(data))));
    expect([moved.was, await sums(bucket(driverOf(data)))]).toEqual(["new", before]);
    const store = await openBucket(driverOf(data));
    expect(await store.table("Job").ids({ sort: "id" })).toEqual(["a", "é"]);
    await store.close();

    await moveStore(ends(bucket(driverOf(data)), folder("back")));
    expect(await sums(folder("back"))).toEqual(before);
    await expect(openBucket(driverOf(data))).rejects.toThrow("was moved to folder");
  });

  it("takes a move back, with what it had", async () => {
    const data = new Map<string, Uint8Array>();
    const store = await openBucket(driverOf(data));
    await store.table("Job").insert(makeJob("a"));
    await store.close();
    const options = ends(bucket(driverOf(data)), folder("there"));
    await moveStore(options);

    await undoMove({ ...options, force: false });

    const again = await openBucket(driverOf(data));
    expect(await again.table("Job").ids()).toEqual(["a"]);
  });

  it("is not taken from a service that gives a sign of life", async () => {
    const data = new Map<string, Uint8Array>();
    const store = await openBucket(driverOf(data), true);
    const place = new BucketPlace({ name: "s3://test/place", storage: driverOf(data), dead: 5000 });

    await expect(place.lock()).rejects.toMatchObject({
      message: expect.stringContaining(
        `storage s3://test/place is used by a service (process ${process.pid}`,
      ),
    });

    await store.table("Job").insert(makeJob("a"));
    expect(store.health()).toEqual({ writable: true });
  });

  it("gets a backup, unless it has a store already", async () => {
    await fillFolder();
    const backup = join(root, "backup");
    await sendStored(join(root, "data"), (send) => saveBackup(send(), backup));
    let data = new Map<string, Uint8Array>();
    const restore = (storage: StorageLike) => {
      const place = bucket(storage);
      return using(place, () => readBackup(backup, (content) => fillPlace(place, content, place.contents)));
    };
    const died = async (request: number) => {
      data = new Map();
      return restore(mortal(driverOf(data), request)).then(
        () => false,
        () => true,
      );
    };
    // A process that dies leaves nothing that opens, or everything.
    for (let request = 1; await died(request); request++) {
      const left = await openBucket(driverOf(new Map(data))).then(
        async (store) => (await store.table("Job").ids()).length,
        (error: Error) => error.message,
      );
      expect([0, 2, expect.stringContaining("incomplete store")]).toContainEqual(left);
    }

    await expect(restore(driverOf(data))).rejects.toThrow("storage s3://test/place is not empty");

    const store = await openBucket(driverOf(data));
    expect(await store.table("Job").ids({ sort: "id" })).toEqual(["a", "é"]);
  });

  it("loses and doubles nothing in a move to it or from it that dies at any request, and is made again", async () => {
    await fillFolder();
    const before = await sums(folder());
    let data = new Map<string, Uint8Array>();
    const kindOf = (place: Place) => using(place, async () => (await place.state()).kind);
    let deaths = 0;
    const all = [
      [true, "after"],
      [false, "after"],
      [false, "before"],
    ] as const;
    const rounds = name === "with a marker" ? all.slice(0, 2) : all;
    for (const [there, when] of rounds) {
      // The first round ends with the store in the bucket.
      for (let request = 1; ; request++) {
        const data0 = new Map(data);
        const from = (storage: StorageLike) =>
          there ? ends(folder(), bucket(storage)) : ends(bucket(storage), folder(`back-${when}-${request}`));
        const died = await moveStore(from(mortal(driverOf(data), request, when))).then(
          () => false,
          () => true,
        );
        if (died) {
          deaths++;
          const [here, away] = [from(driverOf(data)).source, from(driverOf(data)).target];
          const kinds = [await kindOf(here), await kindOf(away)];
          expect(kinds.filter((kind) => kind === "open").length).toBeLessThan(2);
          // Nothing is written to a store that is being copied.
          if (kinds[1] !== "empty") expect(kinds[0]).toBe("closed");
        }
        await moveStore(from(driverOf(data)));
        expect(await sums(from(driverOf(data)).target)).toEqual(before);
        if (!there) data = data0;
        if (!died) break;
        // As before the move.
        if (there) {
          rmSync(join(root, "data"), { recursive: true });
          await fillFolder();
          data = new Map();
        }
      }
    }
    expect(deaths).toBeGreaterThan(20);
  });
});
