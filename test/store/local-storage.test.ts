import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createStorage, type Driver } from "unstorage";
import fsDriver from "unstorage/drivers/fs";
import memoryDriver from "unstorage/drivers/memory";
import { expect, it, onTestFinished } from "vitest";
import { fileDriver } from "../../src/core/storage/file.ts";
import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

const log = { info() {}, warn() {}, error() {} };

function newFolder(): string {
  const path = mkdtempSync(join(tmpdir(), "local-storage-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const open = (storage: StorageLike, dataDir = newFolder()) =>
  openJsonStoreWith({ tables: CORE_TABLES, dataDir, storage, log });

it("a store on a disk keeps its journal and its manifest in a storage of unstorage, as items of it", async () => {
  const [folder, dataDir] = [newFolder(), newFolder()];
  const storage = createStorage({ driver: fileDriver({ folder }) as Driver });
  const store = await open(storage as StorageLike, dataDir);
  await store.table("Job").insert(makeJob("a"));

  const journal = (await storage.getKeys()).filter((key) => key.endsWith(".jsonl"));
  const lines = String(await storage.getItemRaw(journal[0]!));
  expect(lines).toContain('"id":"a"');
  await store.close();
  expect(JSON.parse(String(await storage.getItemRaw("MANIFEST.json")))).toMatchObject({
    files: [{ name: journal[0], size: expect.any(Number) }],
  });
  expect(readdirSync(dataDir)).toEqual([]);
  const again = await open(storage as StorageLike, dataDir);
  expect(await again.table("Job").ids()).toEqual(["a"]);
  await again.close();
});

it("any driver carries the store that can append to files, and nothing is written past it", async () => {
  const folder = newFolder();
  let isClosed = false;
  const guarded = Object.fromEntries(
    Object.entries(nodeIo).map(([name, call]) => [
      name,
      (...args: unknown[]) => {
        if (isClosed) throw Object.assign(new Error("this driver is closed"), { code: "EIO" });
        return (call as (...args: unknown[]) => unknown)(...args);
      },
    ]),
  ) as unknown as StoreIo;
  const driver = { ...fsDriver({ base: folder }), files: { folder, io: guarded } };
  const store = await open(driver as StorageLike);
  await store.table("Job").insert(makeJob("a"));
  isClosed = true;
  await expect(store.table("Job").insert(makeJob("b"))).rejects.toMatchObject({ type: "storage_error" });
  isClosed = false;
  await expect.poll(() => store.health().writable).toBe(true);
  await store.close();
  const again = await open(fileDriver({ folder }));
  expect(await again.table("Job").ids()).toEqual(["a"]);
  await again.close();
});

it("a storage that cannot append is refused, and the message says what to do", async () => {
  const dataDir = newFolder();
  await expect(open(memoryDriver() as StorageLike, dataDir)).rejects.toThrow("use fileDriver");
  expect(existsSync(join(dataDir, "MANIFEST.json"))).toBe(false);
});
