// @long
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32 } from "node:zlib";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { TransactionalStore } from "../../src/core/store/engine/transactional-store.ts";
import type { CheckpointName } from "../../src/core/store/json/checkpoint-file.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { type Manifest, manifestText, readManifest } from "../../src/core/store/json/manifest.ts";
import { nodeTimers } from "../../src/core/store/json/timers.ts";
import { verifyFiles } from "../../src/core/store/json/verify.ts";
import { repairStore } from "../../src/core/store/maintenance.ts";
import type { Store, TableSpec } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { SimRandom } from "./sim-random.ts";

let root: string;
let dataDir: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "store-checkpoint-"));
  dataDir = join(root, "data");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

interface Opened {
  readonly store: TransactionalStore;
  /** Why the checkpoint was not used. */
  readonly reasons: string[];
}

/** With the times of files, exactly: Node copies them less precisely. */
function copy(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  execFileSync("cp", ["-a", `${from}/.`, to]);
}

/** With small files; checkpoints are written as soon as they can be, or never. */
async function open(
  folder = dataDir,
  { bytes = 1, tables = CORE_TABLES as readonly TableSpec[] } = {},
): Promise<Opened> {
  const reasons: string[] = [];
  const store = await openJsonStoreWith({
    ...{ tables, dataDir: folder, journalBytes: 3000, checkpointBytes: bytes, lock: false },
    timers: { ...nodeTimers, after: (_, work) => nodeTimers.after(0, work) },
    log: {
      info: (_, fields) => void (fields?.reason !== undefined && reasons.push(String(fields.reason))),
      warn() {},
      error() {},
    },
  });
  return { store, reasons };
}

const details = async (store: Store) => (await store.stats()).details!;
const note = (message: string) => ({ type: "mark" as const, mark: "note" as const, message, at: "" });

/** Random writes, the same for the same seed. */
async function write(store: Store, seed: number, count = 150): Promise<void> {
  const random = new SimRandom(seed);
  for (let at = 0; at < count; at++) {
    const id = `j${random.below(40)}`;
    const job = makeJob(id, {
      name: `Ä ${seed}.${at}\ud800`,
      status: random.chance(0.5) ? "failed" : "completed",
      error: random.chance(0.3) ? `Error ${random.below(3)}` : null,
      idempotency_key: random.chance(0.3) ? `${id} ${at}` : null,
    });
    await store.transaction(async (tx) => {
      const known = await tx.get("Job", id);
      if (known && random.chance(0.2)) {
        await tx.remove("Job", id);
        await tx.clear("Run", id);
        return;
      }
      if (known) await tx.change("Job", id, () => job);
      else await tx.insert("Job", job);
      await tx.append("Run", id, note(`${seed}.${at}`));
    });
    if (random.chance(0.3))
      await store.table("Case").insert(makeCase(`c${seed}.${at}`, id, { name: `case ${at}` }));
  }
}

/** All that a store says. */
async function contentOf(store: Store) {
  const [jobs, cases] = [store.table("Job"), store.table("Case")];
  const items = (await jobs.list({ limit: 1000, sort: "name" })).items;
  const logs = await Promise.all(Array.from({ length: 40 }, (_, at) => store.log("Run").read(`j${at}`)));
  return {
    items,
    logs,
    cases: (await cases.list({ limit: 1000, sort: "-created_at" })).items,
    counts: await Promise.all(
      ["status", "failure", "idempotency_key"].map((field) => jobs.countBy(field, {})),
    ),
    found: await jobs.list({ search: "error 1", limit: 1000, sort: "updated_at" }),
    byJob: await cases.countBy("job_id"),
  };
}

/** A folder with a checkpoint, whose process was killed; `after` writes what came after the checkpoint. */
async function makeFolder(folder: string, seed = 1, after = async (_: Store) => {}): Promise<void> {
  const { store } = await open(`${folder}.live`);
  await write(store, seed);
  await expect.poll(async () => (await details(store)).checkpoints).toBeGreaterThan(0);
  await after(store);
  copy(`${folder}.live`, folder);
  await store.close();
}

const manifestOf = (folder = dataDir) => readManifest(nodeIo, folder)!;
const checkpointOf = (folder = dataDir): CheckpointName => manifestOf(folder).checkpoint!;
const pathOf = (name: string, folder = dataDir) => join(folder, name);

/** Gives the manifest another checkpoint. */
function setCheckpoint(bytes: Buffer): void {
  const { checkpoint, ...rest } = manifestOf();
  const next = { name: checkpoint!.name, size: bytes.length, sum: crc32(bytes) };
  writeFileSync(pathOf(checkpoint!.name), bytes);
  writeFileSync(pathOf("MANIFEST.json"), manifestText({ ...rest, checkpoint: next } as Manifest));
}

/** What a start finds that reads all files. */
async function readAll(folder = dataDir) {
  const other = mkdtempSync(join(root, "copy-"));
  copy(folder, other);
  for (const name of readdirSync(other)) if (name.startsWith("checkpoint.")) rmSync(join(other, name));
  const { store } = await open(other, { bytes: 1e9 });
  const content = await contentOf(store);
  await store.close();
  return content;
}

describe("a checkpoint of the index", () => {
  it.each([1, 2, 3])(
    "has all that the files have, together with what came after it (seed %i)",
    async (seed) => {
      await makeFolder(dataDir, seed, (store) => write(store, seed + 100, 60));
      const expected = await readAll();
      const { store, reasons } = await open(dataDir, { bytes: 1e9 });

      expect(reasons).toEqual([]);
      expect((await details(store)).covered_files).toBeGreaterThan(0);
      expect(await contentOf(store)).toEqual(expected);

      await write(store, seed + 200, 60);
      const after = await contentOf(store);
      await store.close();
      expect(await readAll()).toEqual(after);
      const again = await open();
      expect(again.reasons).toEqual([]);
      expect(await contentOf(again.store)).toEqual(after);
      await again.store.close();
      expect((await verifyFiles(nodeIo, dataDir)).problems).toEqual([]);
    },
  );

  it("fits after compactions, also where what it has was removed since", async () => {
    await makeFolder(dataDir, 4);
    const { store } = await open(dataDir, { bytes: 1e9 });
    for (const { id } of (await store.table("Job").list({ limit: 30 })).items)
      await store.transaction(async (tx) => {
        await tx.remove("Job", id);
        await tx.clear("Run", id);
      });
    await write(store, 5, 100);
    await expect.poll(async () => (await details(store)).compactions).toBeGreaterThan(0);
    const expected = await contentOf(store);
    await store.close();

    const again = await open(dataDir, { bytes: 1e9 });
    expect(again.reasons).toEqual([]);
    expect(await contentOf(again.store)).toEqual(expected);
    await again.store.close();
  });

  it("is replaced by later ones, of which one file stays", async () => {
    await makeFolder(dataDir);
    const before = checkpointOf();
    const { store } = await open();
    await write(store, 6);
    await expect.poll(async () => (await details(store)).checkpoints).toBeGreaterThan(0);
    await store.close();

    expect(checkpointOf().name).not.toBe(before.name);
    await (await open()).store.close();
    const names = readdirSync(dataDir).filter((name) => name.startsWith("checkpoint."));
    expect(names).toEqual([checkpointOf().name]);
  });
});

describe("a checkpoint is not used, and nothing is lost, if it", () => {
  /** Starts, and finds that all files were read. */
  async function expectUnused(reason: string | RegExp, tables = CORE_TABLES): Promise<void> {
    const expected = await readAll();
    const { store, reasons } = await open(dataDir, { bytes: 1e9, tables });
    expect(reasons).toEqual([expect.stringMatching(reason)]);
    expect((await details(store)).covered_files).toBe(0);
    expect(await contentOf(store)).toEqual(expected);
    await write(store, 7, 40);
    const after = await contentOf(store);
    await store.close();
    expect(await readAll()).toEqual(after);
  }

  it("is missing", async () => {
    await makeFolder(dataDir);
    rmSync(pathOf(checkpointOf().name));
    await expectUnused("it is missing");
  });

  it("is cut short, or empty", async () => {
    await makeFolder(dataDir);
    const bytes = readFileSync(pathOf(checkpointOf().name));
    for (const size of [0, 7, 100, bytes.length - 1]) {
      rmSync(dataDir, { recursive: true });
      copy(`${dataDir}.live`, dataDir);
      const { name } = checkpointOf();
      writeFileSync(pathOf(name), readFileSync(pathOf(name)).subarray(0, size));
      await expectUnused("its size is not that of the manifest");
    }
  });

  it("has a flipped bit, anywhere", async () => {
    await makeFolder(dataDir);
    const { name } = checkpointOf();
    const bytes = readFileSync(pathOf(name));
    const expected = await readAll();
    for (let at = 3; at < bytes.length; at += Math.ceil(bytes.length / 25)) {
      const folder = mkdtempSync(join(root, "flip-"));
      copy(dataDir, folder);
      const flipped = Buffer.from(bytes);
      flipped[at] = flipped[at]! ^ (1 << (at % 8));
      writeFileSync(pathOf(name, folder), flipped);
      const { store, reasons } = await open(folder, { bytes: 1e9 });
      expect(reasons, `byte ${at}`).toEqual([expect.stringContaining("its checksum does not match")]);
      expect(await contentOf(store), `byte ${at}`).toEqual(expected);
      await store.close();
    }
  });

  it("is that of another folder, or an older one", async () => {
    const other = join(root, "other");
    await makeFolder(other, 9);
    await makeFolder(dataDir, 1);
    writeFileSync(pathOf(checkpointOf().name), readFileSync(pathOf(checkpointOf(other).name, other)));
    await expectUnused(/its size is not that of the manifest|its checksum does not match/);
  });

  it("belongs to another folder whose manifest was not noticed: its files are not those that it has", async () => {
    const other = join(root, "other");
    await makeFolder(other, 9);
    await makeFolder(dataDir, 1);
    setCheckpoint(readFileSync(pathOf(checkpointOf(other).name, other)));
    await expectUnused(/was changed since|the journal ends before it/);
  });

  it("is of another format, or of another kind of processor", async () => {
    await makeFolder(dataDir);
    const bytes = readFileSync(pathOf(checkpointOf().name)).toString("latin1");
    setCheckpoint(Buffer.from(bytes.replace('"format":1', '"format":2'), "latin1"));
    await expectUnused("it has format 2");
    rmSync(dataDir, { recursive: true });
    await makeFolder(dataDir, 2);
    const more = readFileSync(pathOf(checkpointOf().name)).toString("latin1");
    setCheckpoint(
      Buffer.from(
        more.replace(/"bytes":"\w+"/, (it) =>
          it.replace(/(big|little)/, (one) => (one === "big" ? "small" : "bigger")),
        ),
        "latin1",
      ),
    );
    await expectUnused("it is of another kind of processor");
  });

  it("has index values of another version of a table", async () => {
    await makeFolder(dataDir);
    const tables = CORE_TABLES.map((spec) => ({ ...spec, version: spec.version + 1 }));
    await expectUnused("it has another version of table", tables);
  });

  it("is as of a write that the journal does not have", async () => {
    await makeFolder(dataDir);
    const bytes = readFileSync(pathOf(checkpointOf().name)).toString("latin1");
    const later = bytes.replace(/"last":\d+/, (it) => it.replaceAll(/\d/g, "9"));
    setCheckpoint(Buffer.from(later, "latin1"));
    await expectUnused("the journal ends before it");
  });
});

describe("a file that a checkpoint covers", () => {
  /** The first job's line in a covered file, with a bit flipped in its body; returns the file and the job's id. */
  function flipCovered(): { file: string; id: string } {
    for (const { name, size } of manifestOf().files) {
      if (size === undefined) continue;
      const bytes = readFileSync(pathOf(name));
      const text = bytes.toString("latin1");
      const found = /"t":"Job","id":"(j\d+)"[^\n]*"payload":/.exec(text);
      if (!found) continue;
      const at = found.index + found[0].length - 4;
      bytes[at] = bytes[at]! ^ 1;
      writeFileSync(pathOf(name), bytes);
      return { file: name, id: found[1]! };
    }
    throw new Error("there is no such line");
  }

  it("is read and refused by a start where it was changed since", async () => {
    await makeFolder(dataDir);
    const { file } = flipCovered();

    await expect(open()).rejects.toThrow(file);
  });

  it("that rots is found by verify, refused when it is read, and repaired", async () => {
    await makeFolder(dataDir);
    const before = join(root, "before");
    copy(dataDir, before);
    const { file } = flipCovered();
    execFileSync("touch", ["-r", join(before, file), pathOf(file)]);

    const { problems } = await verifyFiles(nodeIo, dataDir);
    expect(problems).toEqual([expect.objectContaining({ file, what: "the checksum does not match" })]);
    await repairStore(dataDir);
    expect((await verifyFiles(nodeIo, dataDir)).problems).toEqual([]);
    const { store, reasons } = await open();
    expect(reasons).toEqual([]);
    expect((await details(store)).covered_files).toBe(0);
    await store.close();
  });
});
