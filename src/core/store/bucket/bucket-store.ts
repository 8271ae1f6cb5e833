import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { StoreIo } from "../../storage/file-io.ts";
import { nodeIo } from "../../storage/node-io.ts";
import { openStorage, type StorageLike } from "../../storage/open-storage.ts";
import type { Durability } from "../durability.ts";
import { createStoreTables, type TransactionalStore } from "../engine/transactional-store.ts";
import { lockFolder } from "../json/folder-lock.ts";
import { openBackend } from "../json/json-backend.ts";
import type { Owner } from "../json/manifest.ts";
import { nodeTimers } from "../json/timers.ts";
import type { StoreFactory } from "../store.ts";
import { BaseWriter } from "./base-writer.ts";
import { BucketJournal } from "./bucket-journal.ts";
import type { BucketStoreOptions } from "./bucket-store-options.ts";
import { describeRestore, openDiskStore } from "./disk-store.ts";
import { EndedStore } from "./ended-store.ts";
import { refuseClosed } from "./mark.ts";
import { openObjects } from "./objects.ts";
import { restoreFolder } from "./restore.ts";
import { refuseUnshipped } from "./shipped-folder.ts";
import { readMarks, showMarks } from "./shown-marks.ts";
import type { Standby } from "./standby.ts";
import { liveAsOwner, readOwner, takeOver } from "./take-over.ts";

/** The cache in the data folder. */
const CACHE = "bucket-cache";
/** Whose cache it is: if that one still is the owner in the bucket, it has died. */
const CACHE_OWNER = "bucket-cache-owner";

/** Makes a factory of stores whose journal is in a storage; they are opened when `standby` says so. */
export function bucketStore(
  storage: StorageLike,
  { standby, durability }: { standby?: Standby | undefined; durability?: Durability | undefined } = {},
): StoreFactory {
  const objects = openObjects(storage);
  const contents = openStorage(storage);
  return (context) =>
    openBucketStore({
      ...{ ...context, objects, contents, durability },
      mayTake: standby && ((last) => standby.wait(objects, last, context.log)),
    });
}

/**
 * Takes over the store in a bucket from any owner, and opens it: everything that was acknowledged is
 * there. The previous owner acknowledges nothing from then on.
 */
export async function openBucketStore(options: BucketStoreOptions): Promise<TransactionalStore> {
  const { dataDir, log } = options;
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const lock = await lockFolder(dataDir, log);
  const last = readCacheOwner(dataDir);
  const mayTake = async () => {
    await options.admit?.(await readMarks(options.objects));
    await options.mayTake?.(last);
  };
  const note = (token: string) => writeFileSync(join(dataDir, CACHE_OWNER), token, { mode: 0o600 });
  if (options.durability === "disk") {
    try {
      return await openDiskStore({ ...options, mayTake, note }, lock.release);
    } catch (error) {
      await lock.release();
      throw error;
    }
  }
  const folder = join(dataDir, CACHE);
  const release = async () => {
    rmSync(folder, { recursive: true, force: true });
    await lock.release();
  };
  try {
    await refuseUnshipped(nodeIo, dataDir);
    await mayTake();
    return await openInFolder(options, { folder, release, note });
  } catch (error) {
    await release();
    throw error;
  }
}

async function openInFolder(
  options: BucketStoreOptions,
  { folder, release, note }: { folder: string; release: () => Promise<void>; note: (token: string) => void },
): Promise<TransactionalStore> {
  const { log, objects, timers = nodeTimers } = options;
  const by: Owner = { token: randomBytes(12).toString("hex"), host: hostname(), pid: process.pid };
  rmSync(folder, { recursive: true, force: true });
  await refuseClosed(objects);
  const previous = await readOwner(objects);
  const { chain, taken } = await takeOver(objects, { by, durability: "bucket" });
  // A process that closed it in between has lost it by now, and its move is repeated.
  await refuseClosed(objects);
  note(by.token);
  await restoreFolder(objects, folder, taken);
  describeRestore({ ...previous, taken, log });
  let bases: BaseWriter | undefined;
  const journal = new BucketJournal({
    ...{ chain, timers, log },
    room: () => bases?.room(),
    onGroup: (bytes) => bases?.note(bytes),
  });
  const tables = createStoreTables(options.tables);
  const backend = await openBackend(tables, {
    ...{ folder, log, timers, remote: journal, lock: false },
    io: cacheIo,
    journalBytes: options.journalBytes ?? 16 * 1024 * 1024,
    reserveBytes: 64 * 1024,
    headroom: { bytes: 0, after: Number.POSITIVE_INFINITY },
  });
  const pin = async () => {
    const { files, noted } = await backend.pin(() => chain.slot);
    return { slot: noted, files };
  };
  const writer = new BaseWriter({
    ...{ objects, chain, log, pin, taken, groups: options.groupsPerBase },
    isRestored: true,
  });
  bases = writer;
  const life = liveAsOwner({ objects, chain, timers, journal });
  const closed = async () => {
    await writer.close();
    await life.end(true);
    await release();
  };
  const { contents } = options;
  return new EndedStore({
    ...{ backend, tables, contents, closed },
    showMarks: (marks) => showMarks(objects, marks),
    closing: () => journal.closing(),
  });
}

function readCacheOwner(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, CACHE_OWNER), "utf8");
  } catch {
    return undefined;
  }
}

/** What is on this disk is lost with it anyway: nothing waits for it. */
const cacheIo: StoreIo = {
  ...nodeIo,
  sync: async () => {},
  syncFolder: async () => {},
  openSynced: () => undefined,
};
