import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Cases } from "../../core/entities/cases.ts";
import { Jobs } from "../../core/entities/jobs.ts";
import { readResultOf } from "../../core/entities/large-results.ts";
import type { FileValue } from "../../core/models/file.ts";
import { fileDriver } from "../../core/storage/file.ts";
import { openStorage, type UnstorageStorage } from "../../core/storage/open-storage.ts";
import type { Keyring } from "../../core/store/encryption/keyring.ts";
import { sealedPlace } from "../../core/store/encryption/sealed-place.ts";
import { sealStore } from "../../core/store/encryption/sealed-store.ts";
import { FileChunks } from "../../core/store/files/file-chunks.ts";
import { FolderPlace } from "../../core/store/json/folder-place.ts";
import { openJsonStoreWith } from "../../core/store/json/json-store.ts";
import { fillPlace, type Place } from "../../core/store/move.ts";
import type { Store, StoreFactory } from "../../core/store/store.ts";
import { CORE_TABLES } from "../../core/store/tables.ts";

/** What is stored in a data folder, to be read. */
export interface FolderContents {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly cases: Cases;
  /** Reads a result that is stored apart from its record. */
  readonly readResult: (file: FileValue) => Promise<unknown>;
}

/** Reads from a copy of a data folder: opening a store writes into its folder. */
export function readCopy<T>(
  folder: string,
  keys: Keyring,
  read: (contents: FolderContents) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  const filter = (path: string) => path === folder || isOfStore(basename(path));
  // Contents are only read: they stay where they are.
  const contents = openStorage(fileDriver({ folder }));
  return inCopy((copy) => cp(folder, copy, { recursive: true, filter }), keys, read, contents);
}

/** Reads a copy of a store elsewhere: opening a database with newer code changes its tables. */
export function readCopyOf<T>(
  place: Place,
  keys: Keyring,
  read: (contents: FolderContents) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  const fill = async (copy: string) => {
    await place.lock();
    try {
      const [from, to] = [sealedPlace(place, keys), sealedPlace(new FolderPlace(copy), keys)];
      await from.read((content) => fillPlace(to, content, from.contents));
    } finally {
      await place.release();
    }
  };
  return inCopy(fill, keys, read);
}

async function* inCopy<T>(
  fill: (copy: string) => Promise<unknown>,
  keys: Keyring,
  read: (contents: FolderContents) => AsyncGenerator<T, void>,
  contents?: UnstorageStorage,
): AsyncGenerator<T, void> {
  const copy = await mkdtemp(join(tmpdir(), "svc-check-"));
  const log = { info() {}, warn() {}, error() {} };
  try {
    await fill(copy);
    const open: StoreFactory = (parts) => openJsonStoreWith({ ...parts, lock: false });
    const store = await sealStore(open, keys)({ tables: CORE_TABLES, dataDir: copy, log });
    try {
      const chunks = new FileChunks(contents ?? store.contents!, keys);
      const readResult = (file: FileValue) => readResultOf({ store, chunks }, file);
      yield* read({ store, jobs: new Jobs(store), cases: new Cases(store), readResult });
    } finally {
      await store.close();
    }
  } finally {
    await rm(copy, { recursive: true, force: true });
  }
}

/** Neither keys nor locks. */
function isOfStore(name: string): boolean {
  return name === "MANIFEST.json" || name.endsWith(".jsonl");
}
