import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { fileDriver } from "../../src/core/storage/file.ts";
import { openStorage } from "../../src/core/storage/open-storage.ts";
import { readGeneration, writeGeneration } from "../../src/core/store/backup/generation.ts";
import { Keyring } from "../../src/core/store/encryption/keyring.ts";
import { sealedSource } from "../../src/core/store/encryption/renamed-contents.ts";
import { sealedPlace } from "../../src/core/store/encryption/sealed-place.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import {
  exportStore,
  importStore,
  saveBackup,
  sendStored,
  verifyStore,
} from "../../src/core/store/maintenance.ts";
import { moveStore } from "../../src/core/store/move.ts";
import { bytesUnder, runSecretive, secretive } from "./_encrypted.ts";
import { newKey } from "./_key.ts";

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "encryption-backups-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function run(dataDir: string, ...keys: string[]): Promise<void> {
  const encryption = keys.length > 0 ? { encryption: { keys } } : {};
  await using server = await testServer({ agents: [secretive], store: undefined, dataDir, ...encryption });
  await runSecretive(server);
}

/** Backups of data folders in one storage, as each is made from the one before. */
function backups() {
  const storage = openStorage(fileDriver({ folder: folder() }));
  let day = 0;
  return {
    make: (data: string) =>
      sendStored(data, (send) =>
        writeGeneration(storage, send, { now: new Date(Date.UTC(2026, 0, ++day)), version: "1" }),
      ),
    async restore(made: Awaited<ReturnType<typeof writeGeneration>>): Promise<string> {
      const to = join(folder(), "restored");
      await saveBackup(readGeneration(storage, made), to);
      return to;
    },
  };
}

async function moved(from: string, ...texts: string[]): Promise<string> {
  const keys = new Keyring(texts);
  const to = join(folder(), "data");
  const [source, target] = [
    sealedSource(new FolderPlace(from), keys),
    sealedPlace(new FolderPlace(to), keys),
  ];
  await moveStore({ source, target, now: () => new Date(), newId: () => "move" });
  return to;
}

it("a backup of a store that was encrypted again has nothing of former keys or plain text, also where earlier ones are beside it", async () => {
  const [data, one, two] = [folder(), newKey(), newKey()];
  const { make, restore } = backups();
  await run(data);
  const plain = await make(data);
  await run(data, one);
  await make(data);

  const first = await moved(data, one);
  const sealed = await make(first);
  const second = await moved(first, two, one);
  const rotated = await make(second);
  const again = await make(second);

  expect((await verifyStore(await restore(plain))).problems).toEqual([]);
  for (const [made, key] of [
    [sealed, one],
    [rotated, two],
    [again, two],
  ] as const) {
    const restored = await restore(made);
    expect((await verifyStore(restored, new Keyring([key]))).problems).toEqual([]);
    expect(bytesUnder(restored).filter((bytes) => bytes.includes("marker of the file"))).toEqual([]);
  }
  expect(again.contents?.added).toBe(0);
});

it("nor has one of a store that was exported and imported", async () => {
  const [data, key] = [folder(), newKey()];
  const { make, restore } = backups();
  await run(data);
  await make(data);
  const exported = join(folder(), "exported");
  await exportStore(data, exported);
  const imported = join(folder(), "data");
  await importStore(exported, imported, new Keyring([key]));

  const restored = await restore(await make(imported));

  expect((await verifyStore(restored, new Keyring([key]))).problems).toEqual([]);
  expect(bytesUnder(restored).filter((bytes) => bytes.includes("marker of the file"))).toEqual([]);
});
