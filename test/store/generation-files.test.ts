import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import memoryDriver from "unstorage/drivers/memory";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { linkFile, unlinkFiles } from "../../src/core/entities/job-files.ts";
import { openStorage, type StorageLike, type UnstorageStorage } from "../../src/core/storage/open-storage.ts";
import {
  type Generation,
  ROOT,
  readGeneration,
  writeGeneration,
} from "../../src/core/store/backup/generation.ts";
import { listGenerations, pruneGenerations } from "../../src/core/store/backup/generations.ts";
import { CONTENTS_ROOT } from "../../src/core/store/backup/shipped-contents.ts";
import { sendSnapshot } from "../../src/core/store/engine/snapshot.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { saveBackup } from "../../src/core/store/maintenance.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { bytesOf, FileParts, LIMITS, sha256, textOf, toFile } from "../entities/_files.ts";

const DAY = 24 * 3_600_000;
const log = { info() {}, warn() {}, error() {} };
/** Two chunks. */
const LARGE = "0123456789".repeat(500_000);

let parts: FileParts;
let storage: UnstorageStorage;
/** Keys that were written to the storage of backups. */
let written: string[];
/** Chunks that were read in the storage of the service. */
let reads: number;

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "generation-files-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

beforeEach(async () => {
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir: folder(), log });
  const contents = store.contents!;
  reads = 0;
  parts = new FileParts(store, {
    ...contents,
    getItemRaw: (key) => {
      reads += 1;
      return contents.getItemRaw(key);
    },
  });
  written = [];
  const kept = openStorage(memoryDriver() as StorageLike);
  storage = {
    ...kept,
    setItemRaw: (key, value) => {
      written.push(key);
      return kept.setItemRaw(key, value);
    },
  };
  return () => store.close();
});

async function add(jobId: string, text: string): Promise<void> {
  const upload = await parts.files.add({ name: "a.txt", type: "text/plain" }, bytesOf(text));
  await parts.ledger.write((unit) =>
    linkFile(unit, toFile(upload), {
      job: { id: jobId, workspace: "local", agent: "agent", access: null },
      origin: "field",
      limits: LIMITS,
    }),
  );
  await parts.files.discard(upload.id);
}

let made = 0;
/** A backup of a day, from a sender that knows what is there, or from one that sends all of it. */
function backUp(day: number, knows = true): Promise<Generation> {
  const now = new Date(Date.parse("2026-03-01T00:00:00Z") + day * DAY + made++);
  return writeGeneration(
    storage,
    async function* (has) {
      yield* sendSnapshot(await parts.store.snapshot!(), parts.storage, knows ? has : undefined);
    },
    { now, version: "1" },
  );
}

const shipped = () => written.filter((key) => key.startsWith(CONTENTS_ROOT));
const stored = async () => (await storage.getKeys(CONTENTS_ROOT)).length;

/** The texts of the files of a job in what is restored from a backup; "" for one that is not there. */
async function restored(generation: Generation, texts: readonly string[]): Promise<boolean[]> {
  const to = join(folder(), "data");
  await saveBackup(readGeneration(storage, generation), to);
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir: to, log });
  try {
    const copy = new FileParts(store);
    expect((await copy.problems()).filter((one) => !one.endsWith("is not named"))).toEqual([]);
    return await Promise.all(
      texts.map(async (text) => {
        const content = await copy.files.content(sha256(text));
        return content !== undefined && (await textOf(copy.files.read(content))) === text;
      }),
    );
  } finally {
    await store.close();
  }
}

it.each([
  ["knows what is there", true],
  ["sends all of it", false],
])(
  "each content is shipped once, whatever number of backups names it, by a sender that %s",
  async (_, knows) => {
    await add("job-1", LARGE);
    const first = await backUp(0, knows);
    expect([shipped().length, first.contents?.chunks, first.contents?.added]).toEqual([2, 2, LARGE.length]);
    const before = reads;
    const second = await backUp(1, knows);
    expect([shipped().length, second.contents?.chunks, second.contents?.added]).toEqual([2, 2, 0]);
    expect(reads - before).toBe(knows ? 0 : 2);
    await add("job-2", "small");
    const third = await backUp(2, knows);
    expect([shipped().length, third.contents?.chunks, third.contents?.added]).toEqual([3, 3, 5]);

    expect(await restored(first, [LARGE, "small"])).toEqual([true, false]);
    expect(await restored(second, [LARGE, "small"])).toEqual([true, false]);
    expect(await restored(third, [LARGE, "small"])).toEqual([true, true]);
  },
);

it("a backup without files is as before, and one with files is refused by versions that would restore none", async () => {
  expect(await backUp(0)).not.toHaveProperty("contents");
  expect((await backUp(1)).format).toBe(1);
  await add("job-1", "small");
  expect((await backUp(2)).format).toBe(2);
});

it("a backup whose storage fails at any request is none, and the next one has all files", async () => {
  await add("job-1", LARGE);
  await backUp(0);
  await add("job-2", "small");
  const working = storage;
  for (let failing = 1; ; failing++) {
    let requests = 0;
    const failed = async (): Promise<never> => {
      throw new Error("the bucket is gone");
    };
    storage = {
      ...working,
      setItemRaw: (key, value) => (++requests === failing ? failed() : working.setItemRaw(key, value)),
      getItemRaw: (key) => (++requests === failing ? failed() : working.getItemRaw(key)),
      getKeys: (base) => (++requests === failing ? failed() : working.getKeys(base)),
    };
    const before = (await listGenerations(working)).length;
    const outcome = await backUp(failing).catch((error: Error) => error);
    const after = (await listGenerations(working)).length;
    storage = working;
    if (requests < failing) {
      expect([after, await restored(outcome as Generation, [LARGE, "small"])]).toEqual([
        before + 1,
        [true, true],
      ]);
      break;
    }
    expect([(outcome as Error).message, after]).toEqual(["the bucket is gone", before]);
  }
  expect(await restored(await backUp(100), [LARGE, "small"])).toEqual([true, true]);
});

it("a chunk that is gone or damaged is named when the backup is read, and one that is gone is shipped again", async () => {
  await add("job-1", "small");
  await add("job-2", "another");
  const first = await backUp(0);
  const keys = await storage.getKeys(CONTENTS_ROOT);
  const texts = await Promise.all(keys.map(async (key) => String(await storage.getItemRaw(key))));
  const at = keys[texts.indexOf("small")];
  const intact = (await storage.getItemRaw(at!)) as Uint8Array;
  await storage.setItemRaw(at!, Buffer.from("SMALL"));
  await expect(restored(first, ["small"])).rejects.toThrow(`the checksum of the part ${at} of a file`);
  await storage.removeItem(at!);
  await expect(restored(first, ["small"])).rejects.toThrow(`the part ${at} of a file is missing`);
  const second = await backUp(1);
  expect([second.contents?.added, await restored(second, ["small"])]).toEqual([5, [true]]);
  await storage.setItemRaw(at!, intact);
  const list = `${ROOT}:${second.id}:contents`;
  await storage.setItemRaw(list, Buffer.from("nothing"));
  await expect(restored(second, ["small"])).rejects.toThrow("the checksum of the list of its files");
  await storage.removeItem(list);
  await expect(restored(second, ["small"])).rejects.toThrow("the list of its files is missing");
  expect(await restored(await backUp(2), ["small"])).toEqual([true]);
});

it("contents are removed with the last backup that names them, and not while one is being made", async () => {
  await add("job-1", LARGE);
  const first = await backUp(0);
  await parts.ledger.write((unit) => unlinkFiles(unit, "job-1"));
  await parts.sweepAll();
  await add("job-2", "small");
  for (let day = 1; day <= 6; day++) await backUp(day);
  const young = `${CONTENTS_ROOT}:20260307T120000000Z-aaaaaaaa:${"0".repeat(32)}:${"1".repeat(16)}`;
  await storage.setItemRaw(young, Buffer.from("of one that is being made"));
  expect(await stored()).toBe(4);

  const now = new Date("2026-03-08T00:00:00Z");
  expect(await pruneGenerations(storage, { now, keep: 30 * DAY })).toBe(0);
  expect(await stored()).toBe(4);
  expect(await pruneGenerations(storage, { now, keep: 6.5 * DAY })).toBe(1);
  expect((await listGenerations(storage)).some(({ id }) => id === first.id)).toBe(false);
  expect(await stored()).toBe(2);
  expect(await restored(await backUp(7), ["small"])).toEqual([true]);

  const later = new Date("2026-04-08T00:00:00Z");
  expect(await pruneGenerations(storage, { now: later, keep: DAY })).toBe(2);
  expect(await stored()).toBe(1);
});

it("nothing is removed while the list of a backup that is kept cannot be read", async () => {
  await add("job-1", "small");
  await backUp(0);
  for (let day = 1; day <= 6; day++) await backUp(day);
  const newest = (await listGenerations(storage)).at(-1)!;
  await storage.setItemRaw(`${ROOT}:${newest.id}:contents`, Buffer.from("nothing"));
  const rule = { now: new Date("2026-04-08T00:00:00Z"), keep: DAY };
  await expect(pruneGenerations(storage, rule)).rejects.toThrow("the checksum of the list of its files");
  expect(await stored()).toBe(1);
});
