import { fileDriver } from "../../storage/file.ts";
import type { StoreIo } from "../../storage/file-io.ts";
import { filesOf, openStorage, type StorageLike, type UnstorageStorage } from "../../storage/open-storage.ts";
import { createStoreTables, TransactionalStore } from "../engine/transactional-store.ts";
import type { StoreFactory, StoreLogger, TableSpec } from "../store.ts";
import { HEADROOM, type HeadroomOptions } from "./headroom.ts";
import { type BackendOptions, openBackend } from "./json-backend.ts";
import { nodeTimers, type Timers } from "./timers.ts";

export interface JsonStoreOptions {
  readonly tables: readonly TableSpec[];
  readonly dataDir: string;
  readonly log: StoreLogger;
  /**
   * Where its files are: a storage of unstorage, or a driver, whose driver can append to files.
   * @default that of `fileDriver` for `dataDir`
   */
  readonly storage?: StorageLike;
  /** How files are appended to and synced. @default by the driver */
  readonly io?: StoreIo;
  /** @default the clock of this machine */
  readonly timers?: Timers;
  /** Bytes after which a new journal file is started. @default 16 MiB */
  readonly journalBytes?: number;
  /** Bytes reserved so that entities can be removed when the disk is full. @default 1 MiB */
  readonly reserveBytes?: number;
  /** Zeros kept after the end of the journal during consecutive writes. @default 512 KiB, after 32 writes */
  readonly headroom?: HeadroomOptions;
  /** Bytes of complete files that are not in a checkpoint of the index, after which one is written. @default 32 MiB */
  readonly checkpointBytes?: number;
  /** Where the contents of files are. @default `storage` */
  readonly contents?: UnstorageStorage | undefined;
  /** Keeps other processes out of the folder. @default true */
  readonly lock?: boolean;
}

/** Opens the store in `dataDir`: JSON lines in a storage of unstorage that can append to files, indexes in memory. */
export const openJsonStore: StoreFactory = (context) => openJsonStoreWith(context);

/** Opens a store in a folder with parts of it replaced. */
export async function openJsonStoreWith(options: JsonStoreOptions): Promise<TransactionalStore> {
  const tables = createStoreTables(options.tables);
  const storage = openStorage(options.storage ?? fileDriver({ folder: options.dataDir }));
  const backend = await openBackend(tables, toBackendOptions(options, storage));
  const { contents = storage } = options;
  return new TransactionalStore({ backend, tables, contents });
}

/** Missing options get their defaults. */
export function toBackendOptions(
  options: JsonStoreOptions,
  storage = openStorage(options.storage ?? fileDriver({ folder: options.dataDir })),
): BackendOptions {
  const { folder, io } = filesOf(storage);
  return {
    folder,
    log: options.log,
    io: options.io ?? io,
    timers: options.timers ?? nodeTimers,
    journalBytes: options.journalBytes ?? 16 * 1024 * 1024,
    reserveBytes: options.reserveBytes ?? 1024 * 1024,
    headroom: options.headroom ?? HEADROOM,
    checkpointBytes: options.checkpointBytes,
    lock: options.lock ?? true,
  };
}
