import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { TransactionalStore } from "../../src/core/store/engine/transactional-store.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { repairStore, verifyStore } from "../../src/core/store/maintenance.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

let root: string;
let dataDir: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "store-repair-"));
  dataDir = join(root, "data");
  mkdirSync(dataDir);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const open = () =>
  openJsonStore({
    tables: CORE_TABLES,
    dataDir,
    log: { info() {}, warn() {}, error() {} },
  }) as Promise<TransactionalStore>;

async function fill(work: (store: Store) => Promise<void>): Promise<void> {
  const store = await open();
  await work(store);
  await store.close();
}

const note = (message: string) => ({ type: "mark" as const, mark: "note" as const, message, at: "" });
const linesOf = (file: string) => readFileSync(join(dataDir, file)).toString("latin1").split("\n");
const journal = () => readdirSync(dataDir).find((name) => name.startsWith("journal."))!;

/** Turns a bit of the line that has all of these texts, where the last of them begins. */
function flip(file: string, ...texts: string[]): void {
  const bytes = readFileSync(join(dataDir, file));
  const line = linesOf(file).find((one) => texts.every((text) => one.includes(text)))!;
  const at = bytes.indexOf(Buffer.from(line, "latin1")) + line.lastIndexOf(texts.at(-1)!);
  bytes[at] = bytes[at]! ^ 1;
  writeFileSync(join(dataDir, file), bytes);
}

const jobs = async (store: Store) =>
  Object.fromEntries((await store.table("Job").list()).items.map(({ id, name }) => [id, name]));

describe("a store with a damaged line", () => {
  it("keeps the rest; the entity is an older version, reported with its time, and its job is held", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a", { name: "A" }));
      await store.table("Job").insert(makeJob("b", { name: "B", updated_at: "2026-01-02T00:00:00Z" }));
      await store.table("Job").change("b", (job) => ({ ...job, name: "B2", payload: { amount: 100 } }));
      await store.table("Job").insert(makeJob("c", { name: "C" }));
    });
    flip(journal(), '"id":"b"', "100");
    const before = readFileSync(join(dataDir, journal()));
    const name = journal();
    await expect(open()).rejects.toThrow("is damaged at line 4");

    const repaired = await repairStore(dataDir);

    expect(repaired).toMatchObject({
      problems: [{ file: name, line: 4, what: "the checksum does not match" }],
      affected: [{ table: "Job", id: "b", became: "older", since: "2026-01-02T00:00:00Z", job: "b" }],
      held: ["b"],
      isUncertain: false,
    });
    expect(readFileSync(join(dataDir, "damaged", name))).toEqual(before);
    expect((await verifyStore(dataDir)).problems).toEqual([]);
    const store = await open();
    expect(await jobs(store)).toEqual({ a: "A", b: "B", c: "C" });
    expect(await store.table("DamagedJob").get("b")).toMatchObject({
      what: ['Job "b" is an older version, last changed at 2026-01-02T00:00:00Z'],
    });
    await store.table("Job").insert(makeJob("d"));
    await store.close();
  });

  it.each([
    ["its id", ['"id":"b"', 'b"']],
    ["its table", ['"id":"b"', 'Job"']],
    ["its checksum", ['"id":"b"', '"c":"']],
    ["the number of its write", ['"id":"b"', '"s":']],
  ])("is reported by name even if the bit was in %s", async (_, texts) => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a"));
      await store.table("Job").insert(makeJob("b"));
      await store.table("Job").insert(makeJob("c"));
    });
    flip(journal(), ...texts);

    const { affected, isUncertain } = await repairStore(dataDir);

    expect(affected).toMatchObject([{ table: "Job", id: "b", became: "gone" }]);
    expect(isUncertain).toBe(false);
  });

  it("loses nothing if only a line break was overwritten", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a"));
      await store.table("Job").insert(makeJob("b"));
    });
    const file = join(dataDir, journal());
    const bytes = readFileSync(file);
    bytes[bytes.indexOf(10, 200)] = 11;
    writeFileSync(file, bytes);

    expect(await repairStore(dataDir)).toMatchObject({ affected: [], held: [] });

    expect(Object.keys(await jobs(await open()))).toEqual(["a", "b"]);
  });

  it("keeps no half of a transaction, on neither side of the damage", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a"));
      for (const [first, second] of [
        ["b", "c"],
        ["d", "e"],
      ] as const)
        await store.transaction(async (tx) => {
          await tx.insert("Job", makeJob(first));
          await tx.insert("Job", makeJob(second));
        });
      await store.table("Job").insert(makeJob("f"));
    });
    flip(journal(), '"id":"b"', '"payload"');
    flip(journal(), '"id":"e"', '"payload"');

    const { affected, held } = await repairStore(dataDir);

    expect(affected.map(({ id, became }) => `${id} ${became}`).sort()).toEqual([
      "b gone",
      "c gone",
      "d gone",
      "e gone",
    ]);
    expect(held).toEqual([]);
    const store = await open();
    expect(Object.keys(await jobs(store)).sort()).toEqual(["a", "f"]);
    await store.close();
  });

  it("keeps the beginning of a log up to a missing entry, and holds the job", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a"));
      for (const message of ["one", "two", "three", "four"])
        await store.log("Run").append("a", note(message));
    });
    flip(journal(), '"i":3', "three");

    const { affected, held } = await repairStore(dataDir);

    expect(affected).toMatchObject([
      { table: "Run", id: "a", became: "shorter", job: "a", entries: { kept: 2, lost: 2 } },
    ]);
    expect(held).toEqual(["a"]);
    const store = await open();
    expect(
      (await store.log("Run").read("a")).map(({ entry }) => (entry as { message: string }).message),
    ).toEqual(["one", "two"]);
    expect(await store.log("Run").append("a", note("five"))).toBe(3);
    await store.close();
  });

  it("reports a lost removal, and the job of its case", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a"));
      await store.table("Case").insert(makeCase("x", "a"));
      await store.table("Case").insert(makeCase("y", "a"));
      await store.table("Case").remove("x");
      await store.table("Job").insert(makeJob("b"));
    });
    flip(journal(), '"id":"x","ix":{}', "null");
    flip(journal(), '"id":"y"', '"description"');

    const { affected, held } = await repairStore(dataDir);

    expect(affected).toMatchObject([
      { table: "Case", id: "y", became: "gone", job: "a" },
      { table: "Case", id: "x", became: "back", job: "a" },
    ]);
    expect(held).toEqual(["a"]);
  });

  it("is unaffected if a newer version of the entity exists", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a", { name: "first" }));
      await store.table("Job").insert(makeJob("b"));
      await store.table("Job").change("a", (job) => ({ ...job, name: "second" }));
    });
    flip(journal(), '"id":"a"', "first");

    expect(await repairStore(dataDir)).toMatchObject({ affected: [], held: [], problems: [{ line: 2 }] });
  });

  it("holds every unfinished job if it is unknown what was lost", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a"));
      await store.table("Job").insert(makeJob("b"));
      await store.table("Job").insert(makeJob("done", { status: "completed" }));
    });
    const file = join(dataDir, journal());
    const bytes = readFileSync(file);
    const at = bytes.indexOf('{"s":2');
    bytes.fill(120, at, at + 100);
    writeFileSync(file, bytes);

    expect(await repairStore(dataDir)).toMatchObject({ isUncertain: true, held: ["a"] });
  });

  it("is unchanged if nothing is damaged", async () => {
    await fill(async (store) => store.table("Job").insert(makeJob("a")));
    const before = readdirSync(dataDir);

    expect(await repairStore(dataDir)).toMatchObject({ problems: [], affected: [], held: [] });

    expect(readdirSync(dataDir).filter((name) => !name.startsWith("lock."))).toEqual(
      before.filter((name) => !name.startsWith("lock.")),
    );
  });

  it("is read without its manifest, or without a file that the manifest names", async () => {
    await fill(async (store) => store.table("Job").insert(makeJob("a")));
    cpSync(dataDir, join(root, "copy"), { recursive: true });
    rmSync(join(dataDir, "MANIFEST.json"));
    expect(await repairStore(dataDir)).toMatchObject({ isUncertain: true, held: ["a"] });
    const store = await open();
    expect(Object.keys(await jobs(store))).toEqual(["a"]);
    await store.close();

    dataDir = join(root, "copy");
    rmSync(join(dataDir, journal()));
    expect(await repairStore(dataDir)).toMatchObject({ problems: [{ what: "the file is missing" }] });
    await (await open()).close();
  });
});

describe("every single flipped bit", () => {
  it("is repaired to whole transactions, and what changed is reported", async () => {
    await fill(async (store) => {
      await store.table("Job").insert(makeJob("a", { name: "A" }));
      await store.transaction(async (tx) => {
        await tx.change("Job", "a", (job) => ({ ...job, name: "A2" }));
        await tx.insert("Case", makeCase("x", "a"));
        await tx.append("Run", "a", note("one"));
      });
      await store.log("Run").append("a", note("two"));
    });
    const file = join(dataDir, journal());
    const sound = readFileSync(file);
    const manifest = readFileSync(join(dataDir, "MANIFEST.json"));
    const name = journal();
    for (let at = 0; at < sound.length; at += 7) {
      rmSync(dataDir, { recursive: true });
      mkdirSync(dataDir);
      const bytes = Buffer.from(sound);
      bytes[at] = bytes[at]! ^ (1 << (at % 8));
      writeFileSync(join(dataDir, name), bytes);
      writeFileSync(join(dataDir, "MANIFEST.json"), manifest);

      const { affected, held, isUncertain } = await repairStore(dataDir);

      const store = await open();
      const job = (await store.table("Job").get("a"))?.name;
      const item = await store.table("Case").get("x");
      const entries = await store.log("Run").last("a");
      await store.close();
      const state = [job, item?.id, entries];
      const whole = [
        ["A2", "x", 2],
        ["A2", "x", 1],
        ["A", undefined, 0],
        [undefined, undefined, 0],
      ];
      expect(whole, `bit at ${at}: ${JSON.stringify({ state, affected })}`).toContainEqual(state);
      const isChanged = JSON.stringify(state) !== JSON.stringify(whole[0]);
      expect(affected.length > 0 || isUncertain, `bit at ${at}`).toBe(isChanged);
      if (isChanged && job !== undefined) expect(held, `bit at ${at}`).toEqual(["a"]);
    }
  });
});
