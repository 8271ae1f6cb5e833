import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fsDriver from "unstorage/drivers/fs";
import memoryDriver from "unstorage/drivers/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { bucketStore, openBucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import type { BucketStoreOptions } from "../../src/core/store/bucket/bucket-store-options.ts";
import { openObjects } from "../../src/core/store/bucket/objects.ts";
import type { Objects } from "../../src/core/store/bucket/sealed.ts";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { repairFiles } from "../../src/core/store/json/repair.ts";
import type { Store, StoreFactory } from "../../src/core/store/store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { shareOf } from "../_share.ts";
import { Mortal } from "./mortal.ts";
import { slotDriver } from "./slot-driver.ts";

function perFolder(make: (dataDir: string) => StorageLike): StoreFactory {
  const storages = new Map<string, StorageLike>();
  return (context) => {
    const storage = storages.get(context.dataDir) ?? make(context.dataDir);
    storages.set(context.dataDir, storage);
    return bucketStore(storage, { durability: "disk" })(context);
  };
}

const CONTRACTS: readonly [string, StoreFactory][] = [
  ["a disk shipped to memory", perFolder(() => memoryDriver())],
  [
    "a disk shipped to files",
    perFolder((dataDir) => fsDriver({ base: join(dataDir, "bucket") }) as StorageLike),
  ],
];
for (const [name, open] of shareOf(CONTRACTS, 2))
  storeContract({ describe, it, name, open, persistent: true });

const KINDS = [
  ["with atomic creation", (data: Data) => slotDriver(data)],
  [
    "with a marker",
    (data: Data) => {
      const { createItemRaw: _, ...driver } = slotDriver(data);
      return driver;
    },
  ],
] as const;
type Data = Map<string, Uint8Array>;

function newFolder(): string {
  const path = mkdtempSync(join(tmpdir(), "durability-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** What a process has left on its disk, for the next one. */
function diskOf(dataDir: string): string {
  const copy = newFolder();
  cpSync(dataDir, copy, { recursive: true, filter: (path) => !/lock\.\d+\./.test(path) });
  return copy;
}

interface Opened {
  readonly store: Store;
  readonly dataDir: string;
  readonly lines: string[];
}

async function open(
  storage: Objects | Mortal,
  { dataDir = newFolder(), ...options }: Partial<BucketStoreOptions> = {},
): Promise<Opened> {
  const lines: string[] = [];
  const note = (message: string, fields?: object) => lines.push(`${message} ${JSON.stringify(fields)}`);
  const isMortal = storage instanceof Mortal;
  const { objects, io, timers } = isMortal ? storage : { objects: storage };
  const store = await openBucketStore({
    ...{ tables: CORE_TABLES, dataDir, objects, durability: "disk", linger: 1, io, timers },
    log: { info: note, warn: note, error: note },
    ...options,
  });
  onTestFinished(async () => {
    if (!isMortal || !storage.isDead) await store.close();
  });
  return { store, dataDir, lines };
}

const insert = (store: Store, ...ids: string[]) =>
  Promise.all(ids.map((id) => store.table("Job").insert(makeJob(id))));
const idsOf = (store: Store) => store.table("Job").ids({ sort: "id" });
const shipped = (store: Store) => expect.poll(() => store.health().shipping?.groups).toBe(0);

describe.each(KINDS)("a store on disk that is shipped to a bucket %s", (_, driverOf) => {
  it("acknowledges a write that is on disk while the bucket does not respond, and ships it later", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const mortal = new Mortal(bucket);
    const { store, dataDir } = await open(mortal);
    await insert(store, "a");
    await shipped(store);
    mortal.isDown = true;
    await insert(store, "b", "c");
    await expect
      .poll(() => store.health())
      .toMatchObject({
        writable: true,
        shipping: { lag: expect.any(Number), error: expect.stringContaining("down") },
      });
    expect(store.health().shipping).toMatchObject({ groups: expect.any(Number) });
    expect(store.health().shipping!.bytes).toBeGreaterThan(100);
    expect(store.health().shipping!.lag).toBeGreaterThan(0);
    mortal.isDown = false;
    await shipped(store);
    expect(store.health().shipping).toMatchObject({ lag: 0, bytes: 0, error: null });
    mortal.die();
    const other = await open(bucket);
    expect(await idsOf(other.store)).toEqual(["a", "b", "c"]);
    expect(dataDir).not.toBe(other.dataDir);
  });

  it("ships what a process that was killed has left, when it starts again on the same disk", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const mortal = new Mortal(bucket);
    const first = await open(mortal);
    await insert(first.store, "a");
    await shipped(first.store);
    mortal.isDown = true;
    await insert(first.store, "b");
    mortal.die();
    const second = await open(bucket, { dataDir: diskOf(first.dataDir) });
    expect(await idsOf(second.store)).toEqual(["a", "b"]);
    await insert(second.store, "c");
    await shipped(second.store);
    const blank = await open(bucket);
    expect(await idsOf(blank.store)).toEqual(["a", "b", "c"]);
  });

  it("sets aside what was not shipped before another instance took over, and says so", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const mortal = new Mortal(bucket);
    const first = await open(mortal);
    await insert(first.store, "a");
    await shipped(first.store);
    mortal.isDown = true;
    await insert(first.store, "lost");
    mortal.die();
    const other = await open(bucket);
    expect(other.lines.join()).toContain("may be missing");
    expect(other.store.health().shipping).toMatchObject({
      restored: { as_of: expect.stringMatching(/^2\d+-/), may_lack: true },
    });
    await insert(other.store, "b");
    await other.store.close();

    const dataDir = diskOf(first.dataDir);
    const again = await open(bucket, { dataDir });
    expect(await idsOf(again.store)).toEqual(["a", "b"]);
    const [aside] = again.store.health().shipping!.set_aside;
    expect(again.lines.join()).toContain(aside);
    await again.store.close();
    const old = await openJsonStoreWith({
      ...{ tables: CORE_TABLES, dataDir: join(dataDir, aside!) },
      log: { info() {}, warn() {}, error() {} },
    });
    expect(await old.table("Job").ids({ sort: "id" })).toEqual(["a", "lost"]);
    await old.close();
    // What was set aside stays, and nothing of it comes back.
    const later = await open(bucket, { dataDir });
    expect(await idsOf(later.store)).toEqual(["a", "b"]);
    expect(later.store.health().shipping!.set_aside).toEqual([aside]);
  });

  it("stops acknowledging when it learns that another instance has taken over", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const old = await open(bucket);
    await insert(old.store, "a");
    await shipped(old.store);
    const next = await open(bucket);
    await insert(next.store, "b");
    await insert(old.store, "lost");
    await expect.poll(() => old.store.health().writable).toBe(false);
    await expect(insert(old.store, "c")).rejects.toMatchObject({
      status: 503,
      message: expect.stringContaining("took over"),
    });
    await old.store.close();
    const again = await open(bucket, { dataDir: old.dataDir });
    expect(await idsOf(again.store)).toEqual(["a", "b"]);
    expect(again.store.health().shipping!.set_aside).toHaveLength(1);
  });

  it("two instances that alternate, each on a disk of its own, set nothing aside after clean stops", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const disks = [newFolder(), newFolder()];
    const expected: string[] = [];
    for (let life = 0; life < 5; life++) {
      const { store, lines } = await open(bucket, { dataDir: disks[life % 2]!, groupsPerBase: 3 });
      expect(await idsOf(store)).toEqual(expected);
      expect(lines.join()).not.toContain("may be missing");
      for (let write = 0; write < 8; write++) {
        expected.push(`${life}-${write}`);
        await insert(store, `${life}-${write}`);
      }
      await store.close();
    }
    expect(disks.flatMap((disk) => readdirSync(disk)).filter((name) => name.startsWith("unshipped"))).toEqual(
      [],
    );
  });

  it("ships the files when too much waits in memory, also when that happens again and again", async () => {
    const data: Data = new Map();
    const bucket = openObjects(driverOf(data));
    const mortal = new Mortal(bucket);
    const { store } = await open(mortal, {
      ...{ memory: 2000, journalBytes: 10_000, groupsPerBase: 4 },
    });
    const expected: string[] = [];
    for (let round = 0; round < 4; round++) {
      mortal.isDown = round % 2 === 0;
      for (let write = 0; write < 20; write++) {
        expected.push(`${round}${String(write).padStart(2, "0")}`);
        await insert(store, expected.at(-1)!);
        await store.log("Run").append("a", makeEntry(`${expected.length}`));
      }
    }
    await shipped(store);
    const other = await open(bucket);
    expect(await idsOf(other.store)).toEqual(expected);
    expect(await other.store.log("Run").last("a")).toBe(expected.length);
    await insert(other.store, "z");
    await other.store.close();
    const last = await open(bucket);
    expect(await idsOf(last.store)).toEqual([...expected, "z"]);
  });

  it("ships the store of a folder that had none before", async () => {
    const dataDir = newFolder();
    const log = { info() {}, warn() {}, error() {} };
    const before = await openJsonStoreWith({ tables: CORE_TABLES, dataDir, log });
    await insert(before, "a", "b");
    await before.close();
    const bucket = openObjects(driverOf(new Map()));
    const { store } = await open(bucket, { dataDir });
    await insert(store, "c");
    await store.close();
    // It can be used without the storage; what is stored then is shipped later.
    const between = await openJsonStoreWith({ tables: CORE_TABLES, dataDir, log });
    await insert(between, "d");
    await between.close();
    const again = await open(bucket, { dataDir });
    await insert(again.store, "e");
    await again.store.close();
    const blank = await open(bucket);
    expect(await idsOf(blank.store)).toEqual(["a", "b", "c", "d", "e"]);
    expect(blank.store.health().shipping).toMatchObject({ restored: { may_lack: false } });
  });

  it("restores a disk that has less than it has shipped", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const first = await open(bucket);
    await insert(first.store, "a");
    await shipped(first.store);
    const old = diskOf(first.dataDir);
    await insert(first.store, "b");
    await first.store.close();
    const rolledBack = await open(bucket, { dataDir: old });
    expect(await idsOf(rolledBack.store)).toEqual(["a", "b"]);
    await insert(rolledBack.store, "c");
    await rolledBack.store.close();
    expect(await idsOf((await open(bucket)).store)).toEqual(["a", "b", "c"]);
  });

  it("refuses a bucket with another store, and leaves that one to its owner", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const theirs = await open(bucket);
    await insert(theirs.store, "a");
    const ours = await open(openObjects(driverOf(new Map())));
    await insert(ours.store, "b");
    await ours.store.close();
    await expect(open(bucket, { dataDir: ours.dataDir })).rejects.toThrow("has another one");
    await insert(theirs.store, "c");
    await shipped(theirs.store);
    expect(theirs.store.health().writable).toBe(true);
  });

  it("does not ship a repaired folder over what the bucket has of it", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const { store, dataDir } = await open(bucket);
    await insert(store, "a", "b");
    await store.close();
    const journal = readdirSync(dataDir).find((name) => name.endsWith(".jsonl"))!;
    const text = readFileSync(join(dataDir, journal), "utf8");
    writeFileSync(join(dataDir, journal), text.replace('"id":"b"', '"id":"x"'));
    await repairFiles(nodeIo, dataDir, () => new Date());
    await expect(open(bucket, { dataDir })).rejects.toThrow("has another one");
    expect(await idsOf((await open(bucket)).store)).toEqual(["a", "b"]);
  });

  it("refuses a bucket that lacks what it has confirmed, and ships everything to an empty one", async () => {
    const data: Data = new Map();
    const first = await open(openObjects(driverOf(data)));
    await insert(first.store, "a");
    await shipped(first.store);
    const before = new Map(data);
    for (const id of ["b", "c", "d", "e"]) {
      await insert(first.store, id);
      await shipped(first.store);
    }
    await first.store.close();
    const { dataDir } = first;
    await expect(open(openObjects(driverOf(before)), { dataDir })).rejects.toThrow(
      "lacks what it has confirmed",
    );
    const empty = openObjects(driverOf(new Map()));
    await (await open(empty, { dataDir })).store.close();
    expect(await idsOf((await open(empty)).store)).toEqual(["a", "b", "c", "d", "e"]);
  });

  it("is refused with the journal in the bucket while the disk has writes that were not shipped", async () => {
    const bucket = openObjects(driverOf(new Map()));
    const mortal = new Mortal(bucket);
    const first = await open(mortal);
    await insert(first.store, "a");
    await shipped(first.store);
    mortal.isDown = true;
    await insert(first.store, "b");
    mortal.die();
    const dataDir = diskOf(first.dataDir);
    await expect(open(bucket, { dataDir, durability: "bucket" })).rejects.toThrow(
      "may not be in the storage",
    );
    await (await open(bucket, { dataDir })).store.close();
    const { store } = await open(bucket, { dataDir, durability: "bucket" });
    expect(await idsOf(store)).toEqual(["a", "b"]);
  });
});

it("nothing is acknowledged or shipped before it is on disk", async () => {
  const data: Data = new Map();
  let isHeld = false;
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const wait = async () => (isHeld ? held : undefined);
  const io = {
    ...nodeIo,
    sync: async (file: number) => {
      await wait();
      await nodeIo.sync(file);
    },
    writeSynced: async (file: number, bytes: Uint8Array, position: number) => {
      await wait();
      return nodeIo.writeSynced(file, bytes, position);
    },
  };
  const { store } = await open(openObjects(slotDriver(data)), { io });
  await insert(store, "a");
  await shipped(store);
  isHeld = true;
  const before = data.size;
  let isDone = false;
  const writing = insert(store, "b").then(() => {
    isDone = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect([isDone, data.size]).toEqual([false, before]);
  isHeld = false;
  release();
  await writing;
  await shipped(store);
});
