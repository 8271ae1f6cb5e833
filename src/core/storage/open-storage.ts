import { createStorage, type Driver } from "unstorage";
import type { AppendableFiles, StorageDriver } from "./storage-driver.ts";

/** What is used of an unstorage `Storage`. Its own type would bring those of all drivers along. */
export interface UnstorageStorage {
  getItemRaw(key: string): Promise<unknown>;
  setItemRaw(key: string, value: Uint8Array): Promise<void>;
  removeItem(key: string): Promise<void>;
  getKeys(base?: string): Promise<string[]>;
  getMount(key?: string): object;
}

/** A `Storage` of unstorage, or one of its drivers. */
export type StorageLike = UnstorageStorage | StorageDriver;

/** A storage of unstorage, for one of its drivers too. */
export function openStorage(given: StorageLike): UnstorageStorage {
  if ("getMount" in given) return given;
  const storage: UnstorageStorage = createStorage({ driver: given as Driver });
  if (given.setItemRaw || given.setItem) return storage;
  // A storage would drop what it cannot write.
  const setItemRaw = () =>
    Promise.reject(
      new TypeError(`The storage driver ${given.name ?? ""} cannot write: it has no setItemRaw`),
    );
  return Object.assign(storage, { setItemRaw });
}

/** The files of a storage whose driver can append to them. @throws {TypeError} if it cannot */
export function filesOf(storage: UnstorageStorage): AppendableFiles {
  const { driver } = storage.getMount("") as { driver: StorageDriver };
  if (driver.files !== undefined) return driver.files;
  throw new TypeError(
    `The storage driver ${driver.name ?? ""} cannot append to files, which a journal on a disk needs: use fileDriver`,
  );
}
