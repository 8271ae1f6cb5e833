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

/** A storage of unstorage, or what is used of one, over a driver. */
export function openStorage(given: StorageLike): UnstorageStorage {
  return "getMount" in given ? given : new DriverStorage(given);
}

/** Marks bytes that unstorage stores as text, for drivers that keep texts only. */
const AS_TEXT = "base64:";

/** Reads and writes as a `Storage` of unstorage that has this one driver: each finds what the other has written. */
class DriverStorage implements UnstorageStorage {
  readonly #driver: StorageDriver;

  constructor(driver: StorageDriver) {
    this.#driver = driver;
  }

  async getItemRaw(key: string): Promise<unknown> {
    const driver = this.#driver;
    if (driver.getItemRaw) return driver.getItemRaw(key, {});
    const text = await driver.getItem(key, {});
    const isBytes = typeof text === "string" && text.startsWith(AS_TEXT);
    return isBytes ? Buffer.from(text.slice(AS_TEXT.length), "base64") : text;
  }

  async setItemRaw(key: string, value: Uint8Array): Promise<void> {
    const driver = this.#driver;
    if (driver.setItemRaw) await driver.setItemRaw(key, value, {});
    else if (driver.setItem)
      await driver.setItem(key, `${AS_TEXT}${Buffer.from(value).toString("base64")}`, {});
    else throw new TypeError(`The storage driver ${driver.name ?? ""} cannot write: it has no setItemRaw`);
  }

  async removeItem(key: string): Promise<void> {
    await this.#driver.removeItem?.(key, {});
  }

  async getKeys(base = ""): Promise<string[]> {
    const start = base === "" ? "" : `${base}:`;
    const paths = await this.#driver.getKeys(start, {});
    const keys = paths.map((path) =>
      path
        .split(/[/\\:]+/)
        .filter(Boolean)
        .join(":"),
    );
    // Drivers may list more than what begins with `base`. unstorage keeps notes on items in those that end with $.
    return keys.filter((key) => key.startsWith(start) && !key.endsWith("$"));
  }

  getMount(): { readonly driver: StorageDriver } {
    return { driver: this.#driver };
  }
}

/** The files of a storage whose driver can append to them. @throws {TypeError} if it cannot */
export function filesOf(storage: UnstorageStorage): AppendableFiles {
  const { driver } = storage.getMount("") as { driver: StorageDriver };
  if (driver.files !== undefined) return driver.files;
  throw new TypeError(
    `The storage driver ${driver.name ?? ""} cannot append to files, which a journal on a disk needs: use fileDriver`,
  );
}
