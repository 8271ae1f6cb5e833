import { openStorage, type StorageLike } from "../../storage/open-storage.ts";
import { toBytes } from "../../storage/storage-driver.ts";
import type { Objects } from "./sealed.ts";

/** All keys begin with it, so that a bucket may have other objects beside them. */
const ROOT = "svc-store";

/**
 * The objects in a storage of unstorage, or of one of its drivers. Only a driver that is passed itself can create objects
 * atomically: a `Storage` has no call for that.
 */
export function openObjects(storage: StorageLike): Objects {
  const isStorage = "getMount" in storage;
  const items = openStorage(storage);
  const create = isStorage ? undefined : storage.createItemRaw?.bind(storage);
  const get = async (key: string) => toBytes(await items.getItemRaw(`${ROOT}:${key}`));
  return {
    get,
    put: (key, bytes) => items.setItemRaw(`${ROOT}:${key}`, bytes),
    create:
      create &&
      (async (key, bytes) => {
        if (await create(`${ROOT}:${key}`, bytes)) return true;
        // The first attempt of a repeated call may have stored it.
        return (await get(key))?.equals(bytes) === true;
      }),
    list: async (word) => {
      const keys = await items.getKeys(word === undefined ? ROOT : `${ROOT}:${word}`);
      return keys.map((key) => key.slice(ROOT.length + 1));
    },
    remove: (key) => items.removeItem(`${ROOT}:${key}`),
  };
}
