import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import type { StorageLike } from "../../storage/open-storage.ts";
import { lockFolder } from "../json/folder-lock.ts";
import type { StoreIo } from "../json/io.ts";
import { openBackend } from "../json/json-backend.ts";
import type { Owner } from "../json/manifest.ts";
import { nodeIo } from "../json/node-io.ts";
import { nodeTimers, type Timers } from "../json/timers.ts";
import { storageError } from "../storage-error.ts";
import type { StoreFactory, StoreLogger, TableSpec } from "../store.ts";
import { createStoreTables, TransactionalStore } from "../transactional-store.ts";
import { BaseWriter } from "./base-writer.ts";
import { BucketJournal, ownerLostError } from "./bucket-journal.ts";
import { type Chain, logKeys, OwnerLostError, type Taken } from "./chain.ts";
import { MarkerChain } from "./marker-chain.ts";
import { openObjects } from "./objects.ts";
import { restoreFolder } from "./restore.ts";
import { ALIVE, type Objects, OWNER, RELEASED, seal } from "./sealed.ts";
import { SlotChain } from "./slot-chain.ts";
import type { Standby } from "./standby.ts";

export interface BucketStoreOptions {
  readonly tables: readonly TableSpec[];
  /** Folder in which the store has its cache: it may be empty, and is emptied when the store is closed. */
  readonly dataDir: string;
  readonly log: StoreLogger;
  readonly objects: Objects;
  /** @default the clock of this machine */
  readonly timers?: Timers;
  /** Bytes after which a new journal file is started. @default 16 MiB */
  readonly journalBytes?: number;
  /** Groups after which they are replaced by a base. @default 48 */
  readonly groupsPerBase?: number;
  /**
   * Resolves when the store may be taken over; with the folder's lock held. `last` is the token of the last owner on this
   * disk, which is dead. @default immediately
   */
  readonly mayTake?: ((last: string | undefined) => Promise<void>) | undefined;
}

/** The cache in the data folder. */
const CACHE = "bucket-cache";
/** Whose cache it is: if that one still is the owner in the bucket, it has died. */
const CACHE_OWNER = "bucket-cache-owner";
/** Take-overs at the same moment defeat each other; one of them succeeds after a while. */
const ATTEMPTS = 6;
/** Milliseconds between two signs of life. */
const BEAT = 10_000;

/** Makes a factory of stores whose journal is in a storage; they are opened when `standby` says so. */
export function bucketStore(storage: StorageLike, standby?: Standby): StoreFactory {
  const objects = openObjects(storage);
  return (context) =>
    openBucketStore({
      ...{ ...context, objects },
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
  const folder = join(dataDir, CACHE);
  const release = async () => {
    rmSync(folder, { recursive: true, force: true });
    await lock.release();
  };
  try {
    await options.mayTake?.(readCacheOwner(dataDir));
    return await openInFolder(options, { folder, release });
  } catch (error) {
    await release();
    throw error;
  }
}

async function openInFolder(
  options: BucketStoreOptions,
  { folder, release }: { folder: string; release: () => Promise<void> },
): Promise<TransactionalStore> {
  const { dataDir, log, objects, timers = nodeTimers } = options;
  const by: Owner = { token: randomBytes(12).toString("hex"), host: hostname(), pid: process.pid };
  rmSync(folder, { recursive: true, force: true });
  const { chain, taken } = await takeOver(objects, by);
  writeFileSync(join(dataDir, CACHE_OWNER), by.token, { mode: 0o600 });
  await restoreFolder(objects, folder, taken);
  let bases: BaseWriter | undefined;
  const journal = new BucketJournal({ chain, timers, log, onGroup: (bytes) => bases?.note(bytes) });
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
  const writer = new BaseWriter({ objects, chain, log, pin, taken, groups: options.groupsPerBase });
  bases = writer;
  // Only hints, for one that waits to take over.
  let beats = 0;
  const beat = setInterval(() => {
    if (!journal.isLost) objects.put(ALIVE, seal({ epoch: chain.epoch, beat: ++beats })).catch(() => {});
  }, BEAT).unref();
  const closed = async () => {
    clearInterval(beat);
    await writer.close();
    if (!journal.isLost) await objects.put(RELEASED, seal({ epoch: chain.epoch })).catch(() => {});
    await release();
  };
  return new BucketStore({ backend, tables, closing: () => journal.closing(), closed });
}

function readCacheOwner(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, CACHE_OWNER), "utf8");
  } catch {
    return undefined;
  }
}

class BucketStore extends TransactionalStore {
  readonly #closing: () => void;
  readonly #closed: () => Promise<void>;
  #done: Promise<void> | undefined;

  constructor(
    options: ConstructorParameters<typeof TransactionalStore>[0] & {
      closing: () => void;
      closed: () => Promise<void>;
    },
  ) {
    super(options);
    this.#closing = options.closing;
    this.#closed = options.closed;
  }

  override close(): Promise<void> {
    this.#done ??= this.#close();
    return this.#done;
  }

  async #close(): Promise<void> {
    this.#closing();
    await super.close();
    await this.#closed();
  }
}

/** Becomes the owner of the journal. */
async function takeOver(objects: Objects, by: Owner): Promise<{ chain: Chain; taken: Taken }> {
  for (let attempt = 1; ; attempt++) {
    const chain = await chooseChain(objects, by);
    try {
      const taken = await chain.take();
      // For people and for those that wait to take over; who may write is decided elsewhere.
      await objects.put(OWNER, seal({ epoch: chain.epoch, by }));
      return { chain, taken };
    } catch (error) {
      if (!(error instanceof OwnerLostError)) throw error;
      if (attempt === ATTEMPTS) throw ownerLostError(error.message);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 100 * 2 ** attempt));
  }
}

/** All owners of a journal must use the same way to exclude each other. */
export async function chooseChain(objects: Objects, by?: Owner): Promise<Chain> {
  const keys = await objects.list();
  if (keys.some((key) => key.startsWith("owners:"))) return new MarkerChain(objects, { by });
  if (objects.create !== undefined) return new SlotChain(objects, { by });
  if (logKeys(keys).length === 0) return new MarkerChain(objects, { by });
  throw storageError(
    "The store in the bucket was written by a driver that creates objects atomically, and this one cannot",
    "Use the same driver as before, and pass the driver itself as the option storage, not a Storage made of it.",
  );
}

/** What is on this disk is lost with it anyway: nothing waits for it. */
const cacheIo: StoreIo = {
  ...nodeIo,
  sync: async () => {},
  syncFolder: async () => {},
  openSynced: () => undefined,
};
