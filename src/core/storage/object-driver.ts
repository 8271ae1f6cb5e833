import {
  type CreatingStorageDriver,
  type OwnStorageDriver,
  toKey,
  toPath,
  toPathPrefix,
  toPrefix,
} from "./storage-driver.ts";

/** What a cloud does with objects, each named by its path. */
export interface ObjectCalls {
  has(path: string): Promise<boolean>;
  /** The content of an object; undefined if there is none. */
  read(path: string): Promise<Buffer | undefined>;
  put(path: string, value: Uint8Array): Promise<unknown>;
  /** Also of an object that there is not. */
  remove(path: string): Promise<unknown>;
  /** Paths that begin with a prefix, of all pages. */
  list(prefix: string): Promise<string[]>;
}

/** Calls of a cloud that can store an object only if there is none: `create` resolves with false where there was one. */
export interface CreatingCalls extends ObjectCalls {
  create(path: string, value: Uint8Array): Promise<boolean>;
}

interface Place {
  /** Name of the driver. */
  readonly name: string;
  /** Folder of all items. */
  readonly prefix: string | undefined;
}

/** A driver whose items are the objects of a bucket. */
export function objectDriver(place: Place, calls: CreatingCalls): CreatingStorageDriver;
export function objectDriver(place: Place, calls: ObjectCalls): OwnStorageDriver;
export function objectDriver(place: Place, calls: ObjectCalls & Partial<CreatingCalls>): OwnStorageDriver {
  const prefix = toPrefix(place.prefix);
  const pathOf = (key: string) => toPath(prefix, key);
  const { create } = calls;
  const driver = {
    name: place.name,
    hasItem: async (key: string) => calls.has(pathOf(key)),
    getItem: async (key: string) => (await calls.read(pathOf(key)))?.toString() ?? null,
    getItemRaw: async (key: string) => (await calls.read(pathOf(key))) ?? null,
    setItem: (key: string, value: string) => driver.setItemRaw(key, Buffer.from(value)),
    async setItemRaw(key: string, value: Uint8Array) {
      await calls.put(pathOf(key), value);
    },
    async removeItem(key: string) {
      await calls.remove(pathOf(key));
    },
    async getKeys(base = "") {
      const paths = await calls.list(toPathPrefix(prefix, base));
      return paths.map((path) => toKey(prefix, path));
    },
  };
  if (!create) return driver;
  return {
    ...driver,
    async createItemRaw(key: string, value: Uint8Array) {
      const path = pathOf(key);
      // An earlier attempt may have stored it, and its response was lost.
      return (await create(path, value)) || (await calls.read(path))?.equals(value) === true;
    },
  } as CreatingStorageDriver;
}
