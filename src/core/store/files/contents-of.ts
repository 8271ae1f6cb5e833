import { fileDriver } from "../../storage/file.ts";
import { openStorage, type UnstorageStorage } from "../../storage/open-storage.ts";
import { storageError } from "../storage-error.ts";
import type { Store } from "../store.ts";

/** Where the contents of files are kept: where the store keeps them, else in the data folder. */
export function contentsOf(store: Store, dataDir: string): UnstorageStorage {
  if (store.contents) return store.contents;
  // Another instance would not find what is in the folder of this one.
  return store.isShared ? NOWHERE : openStorage(fileDriver({ folder: dataDir }));
}

const NOWHERE: UnstorageStorage = {
  getItemRaw: async () => null,
  setItemRaw: async () => {
    throw storageError(
      "The store of this service keeps no files",
      "Several instances share it: give it the property contents, a storage that all of them reach.",
    );
  },
  removeItem: async () => {},
  getKeys: async () => [],
  getMount: () => ({}),
};
