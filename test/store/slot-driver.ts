import type { CreatingStorageDriver } from "../../src/core/storage/storage-driver.ts";

/** A driver in memory that creates atomically. Each call is done after a turn of the event loop. */
export function slotDriver(data: Map<string, Uint8Array>): CreatingStorageDriver {
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  const read = (key: string) => {
    const bytes = data.get(key);
    return bytes === undefined ? null : Buffer.from(bytes);
  };
  return {
    name: "slots",
    hasItem: async (key) => data.has(key),
    getItem: async (key) => read(key)?.toString() ?? null,
    getItemRaw: async (key) => {
      await turn();
      return read(key);
    },
    setItem: async () => {
      throw new Error("bytes only");
    },
    setItemRaw: async (key, value) => {
      await turn();
      data.set(key, Uint8Array.from(value));
    },
    createItemRaw: async (key, value) => {
      await turn();
      if (data.has(key)) return false;
      data.set(key, Uint8Array.from(value));
      return true;
    },
    removeItem: async (key) => {
      await turn();
      data.delete(key);
    },
    getKeys: async (base) => {
      await turn();
      return [...data.keys()].filter((key) => key.startsWith(base));
    },
  };
}
