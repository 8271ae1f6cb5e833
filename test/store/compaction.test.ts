import { closeSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { createStoreTables, TransactionalStore } from "../../src/core/store/engine/transactional-store.ts";
import { openBackend } from "../../src/core/store/json/json-backend.ts";
import { nodeTimers } from "../../src/core/store/json/timers.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

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
    headroom: { bytes: 1000, after: 3 },
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

interface Line {
  readonly s: number;
  readonly t?: string;
  readonly id: string;
  readonly x?: string;
  readonly ix?: Readonly<Record<string, unknown>>;
  readonly d: Readonly<Record<string, unknown>>;
}

/** The lines of a table in the files whose names begin in a way. */
const linesOf = (table: string, prefix: string) =>
  files()
    .filter((name) => name.startsWith(prefix))
    .flatMap((name) => read(name).replace(/\0*$/, "").trim().split("\n"))
    .map((line) => JSON.parse(line) as Line)
    .filter(({ t }) => t === table);

/** Changes a job that nobody needs so often that its lines are compacted, `times` times at least. */
async function churn(store: Store, times: number): Promise<void> {
  const goal = (await compactions(store)) + times;
  for (let cost = 0; (await compactions(store)) < goal; cost++) {
    await store.table("Job").change("hot", (job) => ({ ...job, total_cost: cost, payload: "h".repeat(500) }));
  }
}

describe("a compaction", () => {
  it("ignores damage in outdated lines, and loses nothing", async () => {
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
    it(`is aborted at a damaged line of ${what}, with file and byte, and nothing else is lost`, async () => {
      const { store, compact } = await open();
      await store.table("Job").insert(makeJob("other"));
      await store.table("Job").insert(makeJob("a", { payload: "kept version" }));
      await store.log("Run").append("a", entry("kept entry"));
      const before = files();
      const { file, byte } = damage(text);

      await compact();

      expect(await compactions(store)).toBe(0);
      expect(warnings).toMatchObject([
        {
          message: expect.stringContaining("was aborted"),
          error: expect.stringMatching(`${file} .*${byte}:`),
        },
      ]);
      expect(files()).toEqual(expect.arrayContaining(before));
      expect(await store.table("Job").get("other")).toEqual(makeJob("other"));
      await store.table("Job").insert(makeJob("later"));
      await store.close();
    });
  }

  it("is aborted at a damaged removal that still matters", async () => {
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

  it("keeps removals, however often it copies them, as long as an older file has what they removed", async () => {
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

  it("adds the index to lines of changed entities, which the journal's lines lack", async () => {
    const { store, compact } = await open();
    const jobs = store.table("Job");
    for (const id of ["a", "b", 'strange "},"d":', "gone"]) await jobs.insert(makeJob(id));
    await store.table("Case").insert(makeCase("c", "a"));
    await jobs.change("a", (job) => ({ ...job, status: "completed" }));
    await jobs.change("a", (job) => ({
      ...job,
      status: "failed",
      name: "ÄRGER",
      payload: { d: { d: [{}] } },
    }));
    await jobs.change('strange "},"d":', (job) => ({ ...job, total_cost: 7 }));
    await jobs.change("gone", (job) => ({ ...job, total_cost: 1 }));
    await jobs.remove("gone");
    const written = linesOf("Job", "journal.");
    const bodies = await jobs.list({ sort: "id" });

    await compact();

    expect(written.filter(({ ix, d }) => ix === undefined && d !== null)).toHaveLength(4);
    expect(written.filter(({ x, ix }) => x === undefined && ix !== undefined).map(({ id }) => id)).toEqual([
      "gone",
    ]);
    const lines = linesOf("Job", "Job.");
    expect(lines.map(({ id, ix }) => [id, ix?.status, ix?.total_cost])).toEqual([
      ["b", "in_progress", 0],
      ["a", "failed", 0],
      ['strange "},"d":', "in_progress", 7],
    ]);
    expect(lines[1]).toMatchObject({ s: 7, k: 0, n: 0, x: "a\närger" });
    await store.close();
    for (let life = 0; life < 2; life++) {
      const again = await open();
      expect(await again.store.table("Job").list({ sort: "id" })).toEqual(bodies);
      expect((await again.store.table("Job").list({ search: "Ärger" })).items.map(({ id }) => id)).toEqual([
        "a",
      ]);
      expect(await again.store.table("Job").countBy("status")).toEqual({ in_progress: 2, failed: 1 });
      expect((await again.store.table("Case").list({ where: { job_id: "a" } })).total).toBe(1);
      await again.compact();
      await again.store.close();
    }
  });

  it("does not add the index of a newer line", async () => {
    const { store, compact } = await open({
      io: {
        ...nodeIo,
        read: async (...call) => {
          const count = await nodeIo.read(...call);
          await store.table("Job").change("a", (job) => ({ ...job, status: "failed" }));
          return count;
        },
      },
    });
    for (const id of ["a", "b"]) {
      await store.table("Job").insert(makeJob(id));
      await store.table("Job").change(id, (job) => ({ ...job, status: "completed" }));
    }

    await compact();

    expect(warnings).toEqual([]);
    expect(linesOf("Job", "Job.").map(({ id, ix }) => [id, ix?.status])).toEqual([["b", "completed"]]);
    await store.close();
    const again = await open();
    expect(await again.store.table("Job").countBy("status")).toEqual({ completed: 1, failed: 1 });
    await again.store.close();
  });

  it("starts once a start would have to parse much, even if little is outdated", async () => {
    const { store, compact } = await open({ journalBytes: 8_000 });
    const jobs = store.table("Job");
    for (let at = 0; at < 600; at++) await jobs.insert(makeJob(`j${at}`));
    await compact();
    const before = await compactions(store);

    for (let at = 0; at < 600 && (await compactions(store)) === before; at += 3)
      await jobs.change(`j${at}`, (job) => ({ ...job, payload: "p".repeat(2_500) }));

    expect(await compactions(store)).toBe(before + 1);
    expect(warnings).toEqual([]);
    await store.close();
    expect(linesOf("Job", "Job.").filter(({ ix, d }) => ix !== undefined && d.payload !== null)).not.toEqual(
      [],
    );
    const again = await open();
    expect(await idsOf(again.store)).toHaveLength(600);
    await again.store.close();
  });

  it("reads nothing if no line is needed, nor removals of what no file has", async () => {
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

  it("of many lines lets commits continue, whose changes are kept", async () => {
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
