// @alone
// @long
// @losses
import { describe, expect, it } from "vitest";
import { type FileUse, linkFile, ownerOf, unlinkFiles } from "../../src/core/entities/job-files.ts";
import { keepResultOf, linkWritten, toFileValue } from "../../src/core/entities/written-files.ts";
import type { FileValue, WrittenFile } from "../../src/core/models/file.ts";
import type { UnstorageStorage } from "../../src/core/storage/open-storage.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { chunkKey } from "../../src/core/store/files/file-chunks.ts";
import { CrashError, NO_FAULTS, SimDisk } from "../store/sim-disk.ts";
import { openOn } from "../store/sim-life.ts";
import { SimRandom } from "../store/sim-random.ts";
import { bytesOf, FileParts, LIMITS, sha256, toFile } from "./_files.ts";

const SEEDS = Number(process.env.SVC_SIM_SEEDS ?? 100);
const FIRST = Number(process.env.SVC_SIM_FIRST ?? 1);
const LIVES = 3;
const JOBS = 3;

/** What the programs or the storage may get wrong. */
type Mutant =
  | "none"
  /** Chunks are acknowledged before they last. */
  | "lazy chunks"
  /** A content is removed without asking whether a job names it. */
  | "blind removal"
  /** What names a content is stored before the content is. */
  | "record before content"
  /** What nothing names yet is swept. */
  | "hasty sweep"
  /** The last job that names a content goes without it. */
  | "forgetful removal";

/** Where chunks are: what was acknowledged lasts, what was not may be there, in part or not at all. */
class SimContents implements UnstorageStorage {
  readonly #random: SimRandom;
  readonly #isLazy: boolean;
  readonly #items = new Map<string, Buffer>();
  /** Acknowledged and not yet lasting. */
  readonly #cached = new Map<string, Buffer>();
  #callsLeft = Number.POSITIVE_INFINITY;
  #end: () => void = () => {};
  #life = 0;

  constructor(random: SimRandom, isLazy: boolean) {
    this.#random = random;
    this.#isLazy = isLazy;
  }

  crashAfter(calls: number, end: () => void): void {
    this.#callsLeft = calls;
    this.#end = end;
  }

  /** Removes the chunks of a content, as if they were not written yet. */
  async takeOut({ place, chunks }: WrittenFile): Promise<[key: string, bytes: Buffer][]> {
    const keys = chunks.map(([id]) => chunkKey(place, id));
    const taken = keys.map((key): [string, Buffer] => [key, this.#items.get(key)!]);
    for (const key of keys) this.#items.delete(key);
    return taken;
  }

  restart(): void {
    this.#life++;
    this.#callsLeft = Number.POSITIVE_INFINITY;
    this.#cached.clear();
  }

  async #call(onCrash: () => void = () => {}): Promise<void> {
    const life = this.#life;
    if (--this.#callsLeft <= 0) {
      onCrash();
      this.#end();
      throw new CrashError("ended");
    }
    for (let turns = this.#random.below(3); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
    if (life !== this.#life || this.#callsLeft <= 0) throw new CrashError("ended");
  }

  async getItemRaw(key: string): Promise<unknown> {
    await this.#call();
    return this.#cached.get(key) ?? this.#items.get(key) ?? null;
  }

  async setItemRaw(key: string, value: Uint8Array): Promise<void> {
    await this.#call(() => {
      if (this.#random.chance(0.5))
        this.#items.set(key, Buffer.from(value.subarray(0, this.#random.below(value.length + 1))));
    });
    (this.#isLazy ? this.#cached : this.#items).set(key, Buffer.from(value));
  }

  async removeItem(key: string): Promise<void> {
    await this.#call(() => this.#random.chance(0.5) && this.#items.delete(key));
    this.#cached.delete(key);
    this.#items.delete(key);
  }

  async getKeys(base = ""): Promise<string[]> {
    await this.#call();
    return [...new Set([...this.#items.keys(), ...this.#cached.keys()])].filter((key) =>
      key.startsWith(base),
    );
  }

  getMount(): object {
    return {};
  }
}

interface Totals {
  crashes: number;
  linked: number;
  removed: number;
}

/** Uploads, links, removes and sweeps, several at the same time, through processes that end at any call. */
async function simulate(seed: number, mutant: Mutant = "none"): Promise<Totals> {
  const random = new SimRandom(seed);
  const disk = new SimDisk(random);
  const contents = new SimContents(random, mutant === "lazy chunks");
  const totals: Totals = { crashes: 0, linked: 0, removed: 0 };
  /** What each job names for certain, and what it may. */
  const certain = Array.from({ length: JOBS }, () => new Map<string, FileValue>());
  let now = Date.parse("2026-01-31T09:00:00Z");

  /** A step makes a file, or has a large result, and names it with its record. */
  const make = async (
    parts: FileParts,
    own: Map<string, FileValue>,
    { use, isResult }: { readonly use: Omit<FileUse, "limits">; readonly isResult: boolean },
  ): Promise<void> => {
    const { files, ledger } = parts;
    const text = `"content ${random.below(5)}"`;
    const named = { name: isResult ? "result.json" : "c.json", type: "application/json" };
    const written = await (isResult ? files.writeJson(named, text) : files.write(named, bytesOf(text)));
    // The step continues.
    for (let turns = random.below(12); turns > 0; turns--)
      await new Promise((resolve) => setImmediate(resolve));
    const late = mutant === "record before content" ? await contents.takeOut(written) : [];
    try {
      await ledger.write((unit) =>
        isResult ? keepResultOf(unit, files, written, use.job.id) : linkWritten(unit, files, written, use),
      );
      for (const [key, bytes] of late) await contents.setItemRaw(key, bytes);
      if (!isResult) own.set(written.sha256, toFileValue(written));
      totals.linked++;
    } catch (error) {
      // A day has passed meanwhile.
      if ((error as { type?: string }).type !== "not_found") throw error;
    } finally {
      files.release([written]);
    }
  };

  const client = async (parts: FileParts, job: number): Promise<void> => {
    const own = certain[job]!;
    const use = { job: ownerOf(makeJob(`job-${job}`)), origin: "step" as const, limits: LIMITS };
    for (let turn = 0; turn < 4; turn++) {
      const kind = random.below(14);
      if (kind >= 10) await make(parts, own, { use, isResult: kind >= 12 });
      else if (kind < 6) {
        // Of few contents, so that several jobs have the same.
        const text = `content ${random.below(5)}`;
        // While it is sent, a day may pass.
        const upload = await (random.chance(0.5)
          ? parts.files.add({ name: "a.txt", type: "text/plain" }, bytesOf(text))
          : addInParts(parts, text)
        ).catch((error: { type?: string }) => {
          if (error.type !== "not_found") throw error;
        });
        if (!upload) continue;
        const file = toFile(upload);
        if (file.sha256 !== sha256(text)) throw new Error("an upload has another hash");
        const linked = await parts.ledger
          .write((unit) => linkFile(unit, file, use))
          .then(
            () => true,
            (error: { type?: string }) => {
              // A sweep that finds it unused removes it.
              if (error.type !== "not_found") throw error;
              return false;
            },
          );
        if (linked) own.set(file.sha256, file);
        if (linked) totals.linked++;
      } else if (kind < 8) {
        const before = [...own];
        own.clear();
        await parts.ledger.write(async (unit) => {
          if (mutant === "blind removal")
            for (const [id] of before) {
              const content = await unit.tx.get("FileContent", id);
              if (!content) continue;
              await unit.tx.remove("FileContent", id);
              await unit.tx.insert("FileRemoval", { id: content.place, due_at: unit.now });
            }
          if (mutant === "forgetful removal")
            for (const id of await unit.tx.ids("JobResult", "job_id", use.job.id))
              await unit.tx.remove("JobResult", id);
          await unlinkFiles(unit, use.job.id);
        });
        totals.removed += before.length;
      } else {
        now += random.chance(0.3) ? 90_000_000 : 1000;
        parts.now = now;
        await parts.sweep.run({ isSearch: random.chance(0.5) });
      }
    }
  };

  for (let life = 0; life < LIVES; life++) {
    const ended = new Promise<void>((resolve) => {
      const end = () => {
        disk.crashAfter(1, resolve);
        // It ends with its next call, which may never come.
        resolve();
      };
      if (random.chance(0.5)) disk.crashAfter(1 + random.below(400), resolve);
      else if (random.chance(0.8)) contents.crashAfter(1 + random.below(40), end);
    });
    const work = (async () => {
      const parts = new FileParts(await openOn(disk, random), contents);
      parts.now = now;
      if (mutant === "hasty sweep") parts.files.isUnderWay = () => false;
      await Promise.all(certain.map((_, job) => client(parts, job)));
    })();
    let isEnded = false;
    await Promise.race([
      ended.then(() => {
        isEnded = true;
      }),
      work.catch((error: unknown) => {
        if (
          !(error instanceof CrashError) &&
          !disk.crashed &&
          (error as { type?: string }).type !== "storage_error"
        )
          throw error;
      }),
    ]);
    work.catch(() => {});
    if (isEnded) totals.crashes++;
    disk.restart(random.chance(0.75));
    contents.restart();
    disk.faults = NO_FAULTS;

    const store = await openOn(disk, random);
    const parts = new FileParts(store, contents);
    parts.now = now;
    await check(parts, certain);
    now = parts.now;
    disk.restart(random.chance(0.5));
    contents.restart();
  }
  return totals;
}

async function addInParts(parts: FileParts, text: string) {
  const { id } = await parts.files.begin({ name: "b.txt", type: "text/plain", length: text.length });
  await parts.files.append(id, 0, bytesOf(text.slice(0, 3)));
  return parts.files.append(id, 3, bytesOf(text.slice(3)));
}

/** Nothing that a job names for certain is lost, and after the sweeps nothing is left over. */
async function check(parts: FileParts, certain: readonly Map<string, FileValue>[]): Promise<void> {
  for (const [job, own] of certain.entries()) {
    const listed = new Set((await parts.files.list(`job-${job}`)).map(({ sha256 }) => sha256));
    for (const id of own.keys()) if (!listed.has(id)) throw new Error(`job-${job} has lost ${id}`);
    // What was not acknowledged may be there.
    for (const file of await parts.files.list(`job-${job}`)) own.set(file.sha256, file);
  }
  await parts.sweepAll();
  const problems = await parts.problems();
  if (problems.length > 0) throw new Error(problems.join("; "));
}

describe("files, on a disk and a storage that lose what was not synced", () => {
  it(`${SEEDS} seeds: no file of a job is lost or dangling, and nothing is left over after a sweep`, async () => {
    const total: Totals = { crashes: 0, linked: 0, removed: 0 };
    for (let seed = FIRST; seed < FIRST + SEEDS; seed++) {
      const outcome = await simulate(seed).catch((cause: Error) => {
        throw new Error(`seed ${seed}: ${cause.message}`, { cause });
      });
      for (const key of Object.keys(total) as (keyof Totals)[]) total[key] += outcome[key];
    }
    console.log(`${SEEDS} seeds: ${JSON.stringify(total)}`);
    expect(total.crashes).toBeGreaterThan(SEEDS);
    expect(total.linked).toBeGreaterThan(SEEDS);
    expect(total.removed).toBeGreaterThan(SEEDS / 2);
  }, 1_200_000);

  it.each<[Mutant, RegExp]>([
    ["lazy chunks", /is missing/],
    ["blind removal", /has lost|has no content/],
    ["record before content", /is missing/],
    ["hasty sweep", /is missing/],
    ["forgetful removal", /is kept for nobody/],
  ])("%s is found out", async (mutant, message) => {
    const found: string[] = [];
    for (let seed = 1; seed <= 60 && found.length === 0; seed++)
      await simulate(seed, mutant).catch((error: Error) => found.push(error.message));
    expect(found.join()).toMatch(message);
  });
});
