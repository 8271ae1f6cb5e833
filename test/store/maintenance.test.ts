import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStore, openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { fileHeader, LineBuffer } from "../../src/core/store/json/line.ts";
import { manifestText } from "../../src/core/store/json/manifest.ts";
import { exportStore, verifyStore } from "../../src/core/store/maintenance.ts";
import type { Store, TableSpec } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

const log = { info() {}, warn() {}, error() {} };
let dataDir: string;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), "store-maintenance-"));
  await withStore(async (store) => {
    await store.table("Job").insert(makeJob("b"));
    await store.table("Job").insert(makeJob("a", { name: "First" }));
    await store.table("Case").insert(makeCase("c", "a"));
    await store.table("Job").insert(makeJob("gone"));
    await store.table("Job").remove("gone");
    await store.log("Run").append("a", { type: "mark", mark: "note", message: "hello", at: "" });
  });
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

async function withStore<T>(work: (store: Store) => Promise<T>, tables = CORE_TABLES): Promise<T> {
  const store = await openJsonStore({ tables, dataDir, log });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Changes the text of the file that holds it. */
function edit(from: string, to: string): string {
  for (const name of readdirSync(dataDir).filter((file) => file.endsWith(".jsonl"))) {
    const text = readFileSync(join(dataDir, name), "utf8");
    if (!text.includes(from)) continue;
    writeFileSync(join(dataDir, name), text.replace(from, to));
    return name;
  }
  throw new Error(`no file holds ${from}`);
}

async function svc(...argv: string[]): Promise<{ code: number; output: string }> {
  let output = "";
  const print = (line: string) => {
    output += `${line}\n`;
  };
  const code = await main(argv, {
    argv,
    self: [],
    cwd: dataDir,
    env: { SERVICE_DATA_DIR: dataDir },
    print,
    note: print,
    interactive: false,
    platforms: {},
  });
  return { code, output };
}

describe("the files of a store", () => {
  it("have each entity as it was written, one per line, for any JSON tool", () => {
    const name = readdirSync(dataDir).find((file) => file.startsWith("journal."))!;
    const lines = readFileSync(join(dataDir, name), "utf8").trim().split("\n");
    const jobs = lines
      .map((line) => JSON.parse(line) as { t?: string; d?: unknown })
      .filter(({ t }) => t === "Job");

    expect(jobs[0]?.d).toEqual(makeJob("b"));
  });

  it("are exported as plain JSON", async () => {
    await exportStore(dataDir, join(dataDir, "out"));

    const read = (file: string) => JSON.parse(readFileSync(join(dataDir, "out", file), "utf8")) as unknown;
    expect(read("Job.json")).toEqual([makeJob("a", { name: "First" }), makeJob("b")]);
    expect(read("Case.json")).toEqual([makeCase("c", "a")]);
    expect(read("Run.json")).toEqual({ a: [{ type: "mark", mark: "note", message: "hello", at: "" }] });
  });

  it("are verified line by line", async () => {
    expect(await verifyStore(dataDir)).toMatchObject({ files: 1, problems: [] });

    const file = edit('"name":"First"', '"name":"Worst"');

    const { problems } = await verifyStore(dataDir);
    expect(problems).toEqual([
      { file, line: 3, byte: expect.any(Number), what: "the checksum does not match" },
    ]);
  });

  it("are read if every line has an index, as in older files", async () => {
    const [job] = CORE_TABLES;
    const lines = new LineBuffer();
    lines.addBytes(fileHeader({ kind: "journal", from: 1 }).subarray(0, -1));
    const add = (s: number, id: string, rest: string) =>
      lines.add(`{"s":${s},"k":${s - 1},"n":0,"t":"Job","id":"${id}",${rest}`, []);
    const index = `"v":"${job!.version}","x":"A\\nLast","ix":{"status":"as it says"}`;
    add(1, "a", `"v":"older","x":"","ix":{"d":"x","d":1},"d":${JSON.stringify(makeJob("a"))}`);
    add(2, "b", `"v":"older","x":"","ix":{"d":"x","d":1},"d":${JSON.stringify(makeJob("b"))}`);
    add(3, "a", `${index},"d":${JSON.stringify(makeJob("a", { name: "Last" }))}`);
    add(4, "b", `"v":"older","x":"","ix":{},"d":${JSON.stringify(makeJob("b", { status: "failed" }))}`);
    add(5, "gone", `"v":"older","x":"","ix":{},"d":${JSON.stringify(makeJob("gone"))}`);
    add(6, "gone", '"ix":{},"d":null');
    for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name));
    writeFileSync(join(dataDir, "journal.1.jsonl"), lines.bytes());
    const files = [{ name: "journal.1.jsonl", size: lines.length }];
    writeFileSync(join(dataDir, "MANIFEST.json"), manifestText({ format: 1, files }));

    for (let life = 0; life < 2; life++) {
      await withStore(async (store) => {
        expect(await store.table("Job").countBy("status")).toEqual({ failed: 1, "as it says": 1 });
        expect((await store.table("Job").list({ search: "last" })).items).toEqual([
          makeJob("a", { name: "Last" }),
        ]);
      });
    }
  });

  it("keep a table that the service does not know, even through a compaction", async () => {
    await withStore(
      async (store) => {
        await store.table("Job").insert(makeJob("new"));
      },
      CORE_TABLES.filter((table) => table.name === "Job"),
    );
    await withStore((store) => store.table("Case").change("c", (item) => ({ ...item, name: "Changed" })));
    const only: readonly TableSpec[] = CORE_TABLES.filter((table) => table.name === "Job");
    const store = await openJsonStoreWith({ tables: only, dataDir, log, journalBytes: 300 });
    for (let at = 0; at < 200; at++)
      await store.table("Job").change("new", (job) => ({ ...job, total_cost: at }));
    expect((await store.stats()).details?.compactions).toBeGreaterThan(0);
    await store.close();

    await withStore(async (whole) => {
      expect(await whole.table("Case").get("c")).toEqual(makeCase("c", "a", { name: "Changed" }));
      expect((await whole.table("Case").list({ where: { job_id: "a" }, search: "changed" })).total).toBe(1);
    });
  });
});

describe("svc store", () => {
  it("exports, verifies and repairs the data folder", async () => {
    expect(await svc("store", "export", "out")).toMatchObject({
      code: 0,
      output: expect.stringContaining("Job.json: 2"),
    });
    expect(await svc("store", "verify")).toMatchObject({
      code: 0,
      output: expect.stringContaining("no damage"),
    });
    edit('"name":"First"', '"name":"Worst"');
    expect(await svc("store", "verify")).toMatchObject({
      code: 1,
      output: expect.stringContaining("line 3, byte"),
    });
    expect(await svc("store", "repair")).toMatchObject({
      code: 0,
      output: expect.stringMatching(/line 3, byte \d+.*\nJob "a" is gone\n(.*\n)*.*in the folder "damaged"/),
    });
    expect(await svc("store", "verify")).toMatchObject({ code: 0 });
  });

  it("does not touch a folder in use", async () => {
    await withStore(async () => {
      expect(await svc("store", "verify")).toMatchObject({
        code: 1,
        output: expect.stringMatching(
          /is in use by process \d+.*\n.*Stop that service first, or work on a copy/,
        ),
      });
    });
  });
});
