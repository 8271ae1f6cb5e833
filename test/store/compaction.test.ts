import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { StoreIo } from "../../src/core/store/json/io.ts";
import { openBackend } from "../../src/core/store/json/json-backend.ts";
import { nodeIo } from "../../src/core/store/json/node-io.ts";
import { nodeTimers } from "../../src/core/store/json/timers.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { createStoreTables, TransactionalStore } from "../../src/core/store/transactional-store.ts";

let dataDir: string;
let warnings: { message: string; error: unknown }[];

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "store-compaction-"));
  warnings = [];
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

/** A store and what rewrites all of it. */
async function open(
  options: { journalBytes?: number; io?: StoreIo } = {},
): Promise<{ store: Store; compact: () => Promise<void> }> {
  const tables = createStoreTables(CORE_TABLES);
  const backend = await openBackend(tables, {
    folder: dataDir,
    log: {
      info() {},
      warn: (message, fields) => warnings.push({ message, error: fields?.error }),
      error() {},
    },
    io: options.io ?? nodeIo,
    timers: nodeTimers,
    journalBytes: options.journalBytes ?? 16 * 1024 * 1024,
    reserveBytes: 1024,
    lock: true,
  });
  return { store: new TransactionalStore({ backend, tables }), compact: () => backend.compact() };
}

const entry = (message: string) => ({ type: "mark" as const, mark: "note" as const, message, at: "" });
const files = () => readdirSync(dataDir).filter((name) => name.endsWith(".jsonl"));
const read = (name: string) => readFileSync(join(dataDir, name), "utf8");
const idsOf = async (store: Store) =>
  (await store.table("Job").list({ sort: "id", limit: 1000 })).items.map((job) => job.id);
const messagesOf = async (store: Store, key: string) =>
  (await store.log("Run").read(key)).map((each) => (each.entry as { message: string }).message);
const compactions = async (store: Store) => Number((await store.stats()).details?.compactions);

/** Turns a bit over of the file that holds a text; returns its name and where the line begins. */
function damage(text: string): { file: string; byte: number } {
  for (const file of files()) {
    const bytes = readFileSync(join(dataDir, file));
    const at = bytes.indexOf(text);
    if (at < 0) continue;
    const handle = openSync(join(dataDir, file), "r+");
    writeSync(handle, Buffer.from([bytes[at]! ^ 1]), 0, 1, at);
    closeSync(handle);
    return { file, byte: bytes.lastIndexOf("\n", at) + 1 };
  }
  throw new Error(`no file holds ${text}`);
}

/** Changes a job that nobody needs so often that its lines are compacted, `times` times at least. */
async function churn(store: Store, times: number): Promise<void> {
  const goal = (await compactions(store)) + times;
  for (let cost = 0; (await compactions(store)) < goal; cost++) {
    await store.table("Job").change("hot", (job) => ({ ...job, total_cost: cost, payload: "h".repeat(500) }));
  }
}

describe("a compaction", () => {
  it("does not mind damage in lines that are out of date, and loses nothing", async () => {
    const { store, compact } = await open();
    await store.table("Job").insert(makeJob("a", { payload: "first version" }));
    await store.table("Job").insert(makeJob("gone", { payload: "removed version" }));
    await store.log("Run").append("a", entry("cleared entry"));
    await store.table("Job").change("a", (job) => ({ ...job, payload: "second version" }));
    await store.transaction(async (tx) => {
      await tx.remove("Job", "gone");
      await tx.clear("Run", "a");
      await tx.append("Run", "a", entry("kept entry"));
    });
    for (const text of ["first version", "removed version", "cleared entry"]) damage(text);

    await compact();

    expect(await compactions(store)).toBe(1);
    expect(warnings).toEqual([]);
    await store.close();
    const again = await open();
    expect((await again.store.table("Job").get("a"))?.payload).toBe("second version");
    expect(await idsOf(again.store)).toEqual(["a"]);
    expect(await messagesOf(again.store, "a")).toEqual(["kept entry"]);
    await again.store.close();
  });

  for (const [what, text] of [
    ["an entity", "kept version"],
    ["an entry of a log", "kept entry"],
  ] as const) {
    it(`is given up over a damaged line of ${what}, with file and byte, and nothing else is lost`, async () => {
      const { store, compact } = await open();
      await store.table("Job").insert(makeJob("other"));
      await store.table("Job").insert(makeJob("a", { payload: "kept version" }));
      await store.log("Run").append("a", entry("kept entry"));
      const before = files();
      const { file, byte } = damage(text);

      await compact();

      expect(await compactions(store)).toBe(0);
      expect(warnings).toMatchObject([
        { message: expect.stringContaining("given up"), error: expect.stringMatching(`${file} .*${byte}:`) },
      ]);
      expect(files()).toEqual(expect.arrayContaining(before));
      expect(await store.table("Job").get("other")).toEqual(makeJob("other"));
      await store.table("Job").insert(makeJob("later"));
      await store.close();
    });
  }

  it("is given up over a damaged removal that still matters", async () => {
    const { store } = await open({ journalBytes: 8_000 });
    await fillFirstFile(store);
    await churn(store, 1);
    await store.table("Job").remove("gone");
    const { file, byte } = damage('"id":"gone","ix":{},"d":null');

    for (let cost = 0; warnings.length === 0; cost++)
      await store.table("Job").change("hot", (job) => ({ ...job, total_cost: cost }));

    expect(warnings[0]?.error).toMatch(new RegExp(`${file} is damaged at byte ${byte}:`));
    expect(await idsOf(store)).not.toContain("gone");
    await store.close();
  });

  it("keeps removals, however often it copies them, as long as an older file holds what they removed", async () => {
    const { store } = await open({ journalBytes: 8_000 });
    const oldest = await fillFirstFile(store);
    await churn(store, 1);
    await store.transaction(async (tx) => {
      await tx.remove("Job", "gone");
      await tx.remove("Job", "back");
      await tx.clear("Run", "gone");
      await tx.clear("Run", "back");
    });
    const removing = files().filter((name) => read(name).includes('"id":"gone","ix":{},"d":null'));
    await store.table("Job").insert(makeJob("back", { payload: "new" }));
    await store.log("Run").append("back", entry("new"));

    for (let life = 0; life < 3; life++) {
      const { store: again } = life === 0 ? { store } : await open({ journalBytes: 8_000 });
      await churn(again, 20);
      await again.close();
    }

    expect(removing).toHaveLength(1);
    expect(files()).not.toContain(removing[0]);
    for (const old of ['"id":"gone"', "old entry of gone", "old entry of back"])
      expect(read(oldest)).toContain(old);
    const { store: last } = await open();
    const ids = await idsOf(last);
    expect(ids).not.toContain("gone");
    expect((await last.table("Job").get("back"))?.payload).toBe("new");
    expect(await messagesOf(last, "gone")).toEqual([]);
    expect(await messagesOf(last, "back")).toEqual(["new"]);
    expect(ids.filter((id) => id.startsWith("stays"))).toHaveLength(20);
    await last.close();
  });

  it("reads nothing where no line is needed, removals of what no file holds among them", async () => {
    let reads = 0;
    const io: StoreIo = {
      ...nodeIo,
      read: (...call) => nodeIo.read(...call).finally(() => reads++),
      readSync: (...call) => {
        reads++;
        return nodeIo.readSync(...call);
      },
    };
    const { store } = await open({ journalBytes: 20_000, io });
    await store.table("Job").insert(makeJob("gone"));
    await store.log("Run").append("gone", entry("x"));
    await store.transaction(async (tx) => {
      await tx.remove("Job", "gone");
      await tx.clear("Run", "gone");
    });
    await store.table("Job").insert(makeJob("hot"));
    reads = 0;

    await churn(store, 5);

    expect(reads).toBe(0);
    await store.close();
    const again = await open();
    expect(await idsOf(again.store)).toEqual(["hot"]);
    await again.store.close();
  });

  it("of many lines lets commits go on, whose changes hold", async () => {
    const { store, compact } = await open();
    const keys = Array.from({ length: 12 }, (_, at) => `k${at}`);
    for (const key of keys) {
      await store.table("Job").insert(makeJob(key));
      await store.transaction(async (tx) => {
        for (let at = 0; at < 4_000; at++) await tx.append("Run", key, entry(`${at}`));
      });
    }
    let over = false;
    const compacting = compact().finally(() => {
      over = true;
    });

    const expected = new Map(keys.map((key) => [key, { cost: 0, entries: 4_000 }]));
    for (let turn = 0; !over || turn < 24; turn++) {
      const known = expected.get(keys[turn % 12]!)!;
      const key = keys[turn % 12]!;
      const isCleared = turn % 5 === 4;
      await store.transaction(async (tx) => {
        if (isCleared) await tx.clear("Run", key);
        await tx.append("Run", key, entry(`new ${turn}`));
        await tx.change("Job", key, (job) => ({ ...job, total_cost: turn }));
      });
      expected.set(key, { cost: turn, entries: isCleared ? 1 : known.entries + 1 });
    }
    await compacting;

    expect(await compactions(store)).toBe(1);
    await store.close();
    const again = await open();
    for (const [key, { cost, entries }] of expected) {
      expect((await again.store.table("Job").get(key))?.total_cost).toBe(cost);
      expect(await again.store.log("Run").last(key)).toBe(entries);
      expect((await messagesOf(again.store, key)).at(-1)).toMatch(/^new/);
    }
    await again.store.close();
  });
});

/** Fills a file whose lines mostly stay, so that only later ones are compacted; returns its name. */
async function fillFirstFile(store: Store): Promise<string> {
  for (const id of ["gone", "back"]) {
    await store.table("Job").insert(makeJob(id));
    await store.log("Run").append(id, entry(`old entry of ${id}`));
    await store.log("Run").append(id, entry(`older entry of ${id}`));
  }
  for (let at = 0; at < 20; at++) await store.table("Job").insert(makeJob(`stays${at}`));
  await store.table("Job").insert(makeJob("hot"));
  return files().find((name) => read(name).includes("old entry of gone"))!;
}
