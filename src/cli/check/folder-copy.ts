import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { Cases } from "../../core/entities/cases.ts";
import { Jobs } from "../../core/entities/jobs.ts";
import { FolderPlace } from "../../core/store/json/folder-place.ts";
import { openJsonStoreWith } from "../../core/store/json/json-store.ts";
import { fillPlace, type Place } from "../../core/store/move.ts";
import type { Store } from "../../core/store/store.ts";
import { CORE_TABLES } from "../../core/store/tables.ts";

/** What is stored in a data folder, to be read. */
export interface FolderContents {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly cases: Cases;
}

/** Reads from a copy of a data folder: opening a store writes into its folder. */
export function readCopy<T>(
  folder: string,
  read: (contents: FolderContents) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  const filter = (path: string) => path === folder || isOfStore(basename(path));
  return inCopy((copy) => cp(folder, copy, { recursive: true, filter }), read);
}

/** Reads a copy of a store elsewhere: opening a database with newer code changes its tables. */
export function readCopyOf<T>(
  place: Place,
  read: (contents: FolderContents) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  const fill = async (copy: string) => {
    await place.lock();
    try {
      await place.read((content) => fillPlace(new FolderPlace(copy), content, place.contents));
    } finally {
      await place.release();
    }
  };
  return inCopy(fill, read);
}

async function* inCopy<T>(
  fill: (copy: string) => Promise<unknown>,
  read: (contents: FolderContents) => AsyncGenerator<T, void>,
): AsyncGenerator<T, void> {
  const copy = await mkdtemp(join(tmpdir(), "svc-check-"));
  const log = { info() {}, warn() {}, error() {} };
  try {
    await fill(copy);
    const store = await openJsonStoreWith({ tables: CORE_TABLES, dataDir: copy, log, lock: false });
    try {
      yield* read({ store, jobs: new Jobs(store), cases: new Cases(store) });
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
