import { createStorage, type Driver } from "unstorage";
import memoryDriver from "unstorage/drivers/memory";
import { expect, it } from "vitest";
import { openStorage, type StorageLike } from "../../src/core/storage/open-storage.ts";
import type { StorageDriver } from "../../src/core/storage/storage-driver.ts";
import { toBytes } from "../../src/core/storage/storage-driver.ts";

const BYTES = Uint8Array.from([0, 255, 10, 195, 40]);

/** A driver that keeps texts, and lists more than it is asked for. */
function textDriver(): StorageDriver {
  const items = new Map<string, string>();
  return {
    hasItem: (key) => items.has(key),
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => void items.set(key, value),
    removeItem: (key) => void items.delete(key),
    getKeys: () => [...items.keys()].map((key) => key.replaceAll(":", "/")),
  };
}

it.each([
  { name: "of bytes", make: () => memoryDriver() as StorageDriver },
  { name: "of texts", make: textDriver },
])(
  "a driver $name has the same items, read as the service does or through a storage of unstorage",
  async ({ make }) => {
    const driver = make();
    const own = openStorage(driver);
    const theirs = openStorage(createStorage({ driver: driver as Driver }) as StorageLike);

    for (const [writer, key] of [
      [own, "folder:own"],
      [theirs, "folder:theirs"],
      [own, "other:own"],
    ] as const)
      await writer.setItemRaw(key, BYTES);

    for (const reader of [own, theirs]) {
      for (const key of ["folder:own", "folder:theirs"])
        expect(toBytes(await reader.getItemRaw(key))).toEqual(Buffer.from(BYTES));
      expect(toBytes(await reader.getItemRaw("folder:none"))).toBeUndefined();
      expect((await reader.getKeys("folder")).sort()).toEqual(["folder:own", "folder:theirs"]);
      expect((await reader.getKeys()).sort()).toEqual(["folder:own", "folder:theirs", "other:own"]);
    }
    await own.removeItem("folder:own");
    expect(await theirs.getKeys("folder")).toEqual(["folder:theirs"]);
  },
);

it("a driver that cannot write is refused, not passed over in silence", async () => {
  const { setItem: _, ...readOnly } = textDriver();

  await expect(openStorage(readOnly).setItemRaw("a", BYTES)).rejects.toThrow("cannot write");
});
