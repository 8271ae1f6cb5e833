// @long
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import memoryDriver from "unstorage/drivers/memory";
import { beforeAll, expect, it, onTestFinished } from "vitest";
import { linkFile, unlinkFiles } from "../../src/core/entities/job-files.ts";
import { openStorage, type StorageLike } from "../../src/core/storage/open-storage.ts";
import { readGeneration, writeGeneration } from "../../src/core/store/backup/generation.ts";
import { BucketPlace } from "../../src/core/store/bucket/bucket-place.ts";
import { bucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { sendSnapshot } from "../../src/core/store/engine/snapshot.ts";
import { FileChunks } from "../../src/core/store/files/file-chunks.ts";
import { FolderPlace } from "../../src/core/store/json/folder-place.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import {
  backupStore,
  exportStore,
  importStore,
  restoreStore,
  saveBackup,
  verifyStore,
} from "../../src/core/store/maintenance.ts";
import { moveStore, type Place, undoMove } from "../../src/core/store/move.ts";
import { DatabasePlace } from "../../src/core/store/postgres/database-place.ts";
import { openPostgresStore } from "../../src/core/store/postgres/postgres-store.ts";
import type { StoreFactory } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { bytesOf, FileParts, LIMITS, sha256, textOf, toFile } from "../entities/_files.ts";

const log = { info() {}, warn() {}, error() {} };
const TEXT = "0123456789".repeat(500_000);

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "files-copied-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

async function within<T>(open: StoreFactory, dataDir: string, work: (parts: FileParts) => Promise<T>) {
  const store = await open({ tables: CORE_TABLES, dataDir, log });
  try {
    return await work(new FileParts(store));
  } finally {
    await store.close();
  }
}

/** A data folder with a job that has two files, and one that was removed a moment ago. */
async function filled(): Promise<string> {
  const dataDir = folder();
  await within(openJsonStore, dataDir, async (parts) => {
    for (const text of [TEXT, "small", "removed"]) {
      const file = toFile(await parts.files.add({ name: "a.txt", type: "text/plain" }, bytesOf(text)));
      const jobId = text === "removed" ? "gone" : "job-1";
      await parts.ledger.write((unit) =>
        linkFile(unit, file, {
          job: { id: jobId, workspace: "local", agent: "agent", access: null },
          origin: "field",
          limits: LIMITS,
        }),
      );
    }
    const uploads = await parts.store.table("FileUpload").ids();
    for (const id of uploads) await parts.files.discard(id);
    await parts.ledger.write((unit) => unlinkFiles(unit, "gone"));
  });
  return dataDir;
}

/** That a store has the files of the job, and nothing is missing or left over. */
async function expectFiles(open: StoreFactory, dataDir: string): Promise<void> {
  await within(open, dataDir, async (parts) => {
    for (const text of [TEXT, "small"]) {
      const { content } = await parts.files.ofJob("job-1", sha256(text));
      expect((await textOf(parts.files.read(content))) === text).toBe(true);
    }
    await parts.sweepAll();
    expect(await parts.problems()).toEqual([]);
  });
}

it("a backup of a folder has the files, and so has what is restored from it", async () => {
  const dataDir = await filled();
  const [backup, restored] = [join(folder(), "backup"), join(folder(), "data")];
  await backupStore(dataDir, backup);
  await restoreStore(backup, restored);
  expect((await verifyStore(restored)).problems).toEqual([]);
  await expectFiles(openJsonStore, restored);
});

it("a backup of a store in use has what its snapshot names, also where a job is removed meanwhile", async () => {
  const dataDir = await filled();
  const to = join(folder(), "backup");
  await within(openJsonStore, dataDir, async (parts) => {
    const snapshot = await parts.store.snapshot!();
    await parts.ledger.write((unit) => unlinkFiles(unit, "job-1"));
    await parts.sweep.run({ isSearch: true });
    await saveBackup(sendSnapshot(snapshot, parts.storage), to);
  });
  await expectFiles(openJsonStore, to);
});

it("a backup in a storage has the files", async () => {
  const dataDir = await filled();
  const storage = openStorage(memoryDriver() as StorageLike);
  const to = join(folder(), "data");
  await within(openJsonStore, dataDir, async (parts) => {
    const sent = sendSnapshot(await parts.store.snapshot!(), parts.storage);
    const made = await writeGeneration(storage, () => sent, { now: new Date(), version: "1" });
    await saveBackup(readGeneration(storage, made), to);
  });
  await expectFiles(openJsonStore, to);
});

it("a backup that lacks a part of a file is refused", async () => {
  const dataDir = await filled();
  await within(openJsonStore, dataDir, async (parts) => {
    const content = (await parts.files.content(sha256(TEXT)))!;
    await new FileChunks(parts.storage).remove(content.place, [content.chunks[0]![0]]);
  });
  await expect(backupStore(dataDir, join(folder(), "backup"))).rejects.toThrow(/lacks the file/);
  const { problems } = await verifyStore(dataDir);
  expect(problems).toMatchObject([{ what: expect.stringContaining(sha256(TEXT)) }]);
});

it("a sender cannot write outside of the folder", async () => {
  const to = join(folder(), "backup");
  const evil = async function* () {
    yield Buffer.from('{"files":[],"contents":true}\n{"key":"svc-files:..:..:x","size":1}\nx{}\n');
  };
  await expect(saveBackup(evil(), to)).rejects.toThrow("is not a store backup");
});

it("an export has the files as they are, and is imported with them", async () => {
  const dataDir = await filled();
  const [out, imported] = [join(folder(), "out"), join(folder(), "data")];
  await exportStore(dataDir, out);
  expect(readFileSync(join(out, "files", sha256("small")), "utf8")).toBe("small");
  expect(existsSync(join(out, "files", sha256("removed")))).toBe(false);
  await importStore(out, imported);
  await expectFiles(openJsonStore, imported);
  rmSync(join(out, "files", sha256("small")));
  await expect(importStore(out, join(folder(), "again"))).rejects.toThrow(/is missing/);
});

let moves = 0;
const move = (source: Place, target: Place) =>
  moveStore({ source, target, now: () => new Date(), newId: () => `move-${++moves}` });

it("a move takes the files along, into a storage and back, and can be undone", async () => {
  const dataDir = await filled();
  const storage = memoryDriver() as StorageLike;
  const place = () => new BucketPlace({ name: "memory", storage, dead: 0 });
  await move(new FolderPlace(dataDir), place());
  await expectFiles(bucketStore(storage), folder());
  const back = folder();
  await move(place(), new FolderPlace(back));
  await expectFiles(openJsonStore, back);
});

/** What a process did not come to: it ended before or after one of the calls that change something. */
class Ending {
  readonly #at: number;
  readonly #isAfter: boolean;
  calls = 0;

  constructor(at: number, isAfter: boolean) {
    this.#at = at;
    this.#isAfter = isAfter;
  }

  async #call<T>(work: () => Promise<T>): Promise<T> {
    const isLast = ++this.calls === this.#at;
    const done = isLast && !this.#isAfter ? undefined : await work();
    if (isLast) throw new Error("the process ended");
    return done as T;
  }

  of(place: Place): Place {
    const { contents } = place;
    return {
      name: place.name,
      lock: () => place.lock(),
      release: () => place.release(),
      state: () => place.state(),
      read: (work) => place.read(work),
      setMark: (mark) => this.#call(() => place.setMark(mark)),
      fill: (content, mark, check) => this.#call(() => place.fill(content, mark, check)),
      clear: (move) => this.#call(() => place.clear(move)),
      prepare: async () => place.prepare && this.#call(() => place.prepare!()),
      contents: {
        getItemRaw: (key) => contents.getItemRaw(key),
        getKeys: (base) => contents.getKeys(base),
        getMount: (key) => contents.getMount(key),
        setItemRaw: (key, value) => this.#call(() => contents.setItemRaw(key, value)),
        removeItem: (key) => this.#call(() => contents.removeItem(key)),
      },
    };
  }
}

/** Where a move ends: a place, and how a store there is opened. */
interface Target {
  place(): Place;
  readonly open: StoreFactory;
  readonly dataDir: string;
}

/** Ends a move at each of its calls, and finishes it: no file is lost, and none is in both places. */
async function expectFinished(
  to: () => Target | Promise<Target>,
  ends: readonly boolean[] = [false, true],
): Promise<void> {
  for (const isAfter of ends)
    for (let at = 1; ; at++) {
      const [dataDir, target] = [await filled(), await to()];
      const ending = new Ending(at, isAfter);
      const ended = await move(ending.of(new FolderPlace(dataDir)), ending.of(target.place())).catch(
        (error: Error) => error.message,
      );
      if (ending.calls < at) {
        expect(at).toBeGreaterThan(6);
        break;
      }
      expect(ended).toContain("the process ended");
      // The instance of a database that checked it counts as alive for a moment.
      const finish = () => move(new FolderPlace(dataDir), target.place()).then(() => true, String);
      await expect.poll(finish, { message: `${at} ${isAfter}` }).toBe(true);
      await expect(within(openJsonStore, dataDir, async () => {})).rejects.toThrow();
      await expectFiles(target.open, target.dataDir);
    }
}

it("a move to a folder that ends at any of its calls is finished by the next one", async () => {
  await expectFinished(() => {
    const to = join(folder(), "data");
    return { place: () => new FolderPlace(to), open: openJsonStore, dataDir: to };
  });
});

it("a move to a storage that ends at any of its calls is finished by the next one", async () => {
  await expectFinished(() => {
    const storage = memoryDriver() as StorageLike;
    const place = () => new BucketPlace({ name: "memory", storage, dead: 0 });
    return { place, open: bucketStore(storage), dataDir: folder() };
  });
});

const server = requirement("postgres");
server.describe("a database", () => {
  let url = "";
  let schema = "";
  beforeAll(async () => {
    const cluster = await sharedCluster();
    url = cluster.url;
    schema = cluster.newSchema();
  });

  it("a move into it and back takes the files along, and it can be undone", async () => {
    const dataDir = await filled();
    const place = () => new DatabasePlace({ url, schema });
    const options = () => ({
      ...{ source: new FolderPlace(dataDir), target: place() },
      ...{ now: () => new Date(), newId: () => `move-${++moves}` },
    });
    await moveStore(options());
    await undoMove({ ...options(), force: true });
    await expectFiles(openJsonStore, dataDir);
  });

  it("a move into it that ends at any of its calls is finished by the next one", async () => {
    const cluster = await sharedCluster();
    await expectFinished(
      async () => {
        const own = await borrowSchema(cluster);
        const open: StoreFactory = (context) => openPostgresStore(context, { url, schema: own });
        return { place: () => new DatabasePlace({ url, schema: own }), open, dataDir: folder() };
      },
      shareOf([false, true], 2),
    );
  });

  it("its store moves into a folder with the files", async () => {
    const own = await borrowSchema(await sharedCluster());
    const dataDir = await filled();
    const place = () => new DatabasePlace({ url, schema: own });
    await move(new FolderPlace(dataDir), place());
    await expectFiles((context) => openPostgresStore(context, { url, schema: own }), folder());
    const back = folder();
    // The instance that checked it counts as alive for a moment.
    await expect.poll(() => move(place(), new FolderPlace(back)).then(() => true, String)).toBe(true);
    await expectFiles(openJsonStore, back);
  });
});
