import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { readManifest } from "../../src/core/store/json/manifest.ts";
import { verifyFiles } from "../../src/core/store/json/verify.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { FaultyIo, systemError } from "./faulty-io.ts";

const BYTES = 4096;
const AFTER = 4;

let folder: string;
let dataDir: string;
let faulty: FaultyIo;
let warnings: string[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "store-headroom-"));
  dataDir = join(folder, "data");
  faulty = new FaultyIo();
  warnings = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (from = dataDir, journalBytes = 1024 * 1024): Promise<Store> =>
  openJsonStoreWith({
    tables: CORE_TABLES,
    dataDir: from,
    journalBytes,
    io: faulty.io,
    headroom: { bytes: BYTES, after: AFTER },
    log: { info() {}, warn: (message) => warnings.push(message), error() {} },
  });

const fill = async (store: Store, count: number): Promise<string[]> => {
  const ids = Array.from({ length: count }, (_, at) => `job-${String(at).padStart(3, "0")}`);
  for (const id of ids) await store.table("Job").insert(makeJob(id));
  return ids;
};

const idsOf = async (store: Store): Promise<string[]> =>
  (await store.table("Job").list({ sort: "id", limit: 1000 })).items.map((job) => job.id);

const journal = (from = dataDir): string => {
  const name = readManifest(nodeIo, from)!.files.find(({ size }) => size === undefined)!.name;
  return join(from, name);
};

/** The folder as a process leaves it that ends without closing its store. */
const crashed = async (): Promise<{ ids: string[]; left: string }> => {
  const store = await open();
  const ids = await fill(store, 20);
  const left = join(folder, "left");
  cpSync(dataDir, left, { recursive: true, filter: (path) => !path.includes("lock.") });
  await store.close();
  return { ids, left };
};

describe("zeros after the end of the journal", () => {
  it("are present during consecutive writes, and removed a while after the last", async () => {
    const store = await open();
    await fill(store, 2);
    expect(readFileSync(journal()).at(-1)).toBe(10);

    for (let at = 0; at < AFTER + 1; at++) await store.table("Job").insert(makeJob(`more-${at}`));
    const bytes = readFileSync(journal());
    expect(bytes.at(-1)).toBe(0);
    expect(bytes.subarray(bytes.lastIndexOf(10) + 1).length).toBeLessThanOrEqual(BYTES);

    await expect.poll(() => readFileSync(journal()).at(-1)).toBe(10);
    await store.table("Job").insert(makeJob("last"));
    await store.close();
    const again = await open();
    expect(await again.table("Job").get("last")).toBeDefined();
    await again.close();
  });

  it("are not damage if a process ends without closing: everything is there, without a warning", async () => {
    const { ids, left } = await crashed();
    expect(readFileSync(journal(left)).at(-1)).toBe(0);
    expect((await verifyFiles(nodeIo, left)).problems).toEqual([]);

    const store = await open(left);

    expect(await idsOf(store)).toEqual(ids);
    expect(warnings).toEqual([]);
    expect(readdirSync(left).filter((name) => name.endsWith(".torn"))).toEqual([]);
    await store.close();
  });

  it("hide no damage to the last line: each flipped bit is refused or harmless", async () => {
    const { ids, left } = await crashed();
    const path = journal(left);
    const bytes = readFileSync(path);
    const end = bytes.lastIndexOf(10);
    const begin = bytes.lastIndexOf(10, end - 1) + 1;
    for (let at = begin; at <= end; at++) {
      const damaged = Buffer.from(bytes);
      damaged[at] = damaged[at]! ^ (1 << (at % 8));
      const copy = join(folder, "copy");
      cpSync(left, copy, { recursive: true });
      writeFileSync(journal(copy), damaged);
      const store = await open(copy).catch((error: Error) => {
        expect(error.message).toMatch(/is damaged at line \d+, byte \d+/);
      });
      if (store !== undefined) expect(await idsOf(store)).toEqual(ids);
      await store?.close();
      rmSync(copy, { recursive: true });
    }
  });

  it("are not in finished files, nor after closing", async () => {
    const store = await open(dataDir, 8_000);
    await fill(store, 60);
    await store.close();

    const { files } = readManifest(nodeIo, dataDir)!;
    expect(files.length).toBeGreaterThan(1);
    for (const { name, size } of files) {
      const bytes = readFileSync(join(dataDir, name));
      expect(bytes.length).toBe(size);
      expect(bytes.at(-1)).toBe(10);
    }
  });

  it("are omitted if the disk has no space for them", async () => {
    const { write } = faulty.io;
    let refused = 0;
    Object.assign(faulty.io, {
      write: (...call: Parameters<StoreIo["write"]>) => {
        if (call[1][0] !== 0) return write(...call);
        refused++;
        // Half of them fit.
        if (call[1].length === BYTES) return write(call[0], call[1].subarray(BYTES / 2), call[2]);
        throw systemError("ENOSPC");
      },
    });
    const store = await open();
    for (let at = 0; at < 20; at++) await store.table("Job").insert(makeJob(`more-${at}`));

    expect(readFileSync(journal()).at(-1)).toBe(10);
    expect(store.health()).toEqual({ writable: true });
    expect(warnings).toEqual([]);
    expect(refused).toBeGreaterThan(0);
    await store.close();
  });

  it("make the journal a new file if their sync fails, before anything else is acknowledged", async () => {
    faulty.hasSynced = true;
    const store = await open();
    await fill(store, 2);
    const before = journal();
    faulty.failOnce("sync", "EIO");

    const outcomes: string[] = [];
    for (let at = 0; at < 20; at++) {
      await store
        .table("Job")
        .insert(makeJob(`more-${at}`))
        .then(
          () => outcomes.push("stored"),
          (error: { type: string }) => outcomes.push(error.type),
        );
    }

    expect(outcomes.filter((outcome) => outcome !== "stored")).toEqual(["storage_error"]);
    expect(journal()).not.toBe(before);
    await store.close();
  });
});
