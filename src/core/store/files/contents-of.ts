import { fileDriver } from "../../storage/file.ts";
import { openStorage, type UnstorageStorage } from "../../storage/open-storage.ts";
import type { Store } from "../store.ts";

/** Where the contents of files are kept: where the store keeps them, else in the data folder. */
export function contentsOf(store: Store, dataDir: string): UnstorageStorage {
  return store.contents ?? openStorage(fileDriver({ folder: dataDir }));
}
