import { getOrMake } from "../../base/get-or-make.ts";
import type { DamagedJob } from "../../models/own-rows.ts";
import { codeOf, type StoreIo, writeFully } from "../../storage/file-io.ts";
import { ClosedStoreError } from "../closed.ts";
import { missingBytes } from "./damage-error.ts";
import { FileSet } from "./file-set.ts";
import { sizeWithoutZeros } from "./headroom.ts";
import { forgetShipping, refuseIncomplete } from "./incomplete.ts";
import { KeptLines } from "./kept-lines.ts";
import { LineBuffer, type LineHeader, type LineNames, readBody } from "./line.ts";
import { MANIFEST, type Manifest, readManifest } from "./manifest.ts";
import type { Problem } from "./problem.ts";
import { readSegment } from "./read-segment.ts";
import type { Segment } from "./segment.ts";
import { type Flawed, siftFile } from "./sift.ts";
import { TableWriter } from "./table-writer.ts";
import { examineTail, keepTornTail } from "./torn-tail.ts";

const LIMIT = 64 * 1024 * 1024;
/** Folder in the data folder that damaged files are moved to. */
export const DAMAGED = "damaged";

/** What happened to an entity, or to a key of a log, that lost a line. */
export interface Affected {
  /** Table or log. */
  readonly table: string;
  readonly id: string;
  /** `older`: an older version counts now. `back`: its removal was lost. `shorter`: a log without its last entries. */
  readonly became: "gone" | "older" | "back" | "shorter";
  /** Since when the version that counts now was the newest, if known. */
  readonly since: string | null;
  /** The job that it belongs to, if any. */
  readonly job: string | null;
  /** Entries of a log that are left, and those that are not. */
  readonly entries?: { readonly kept: number; readonly lost: number };
}

export interface Repaired {
  /** Lines, and files, that were not kept. */
  readonly problems: readonly Problem[];
  readonly affected: readonly Affected[];
  /** Whether something was lost whose owner is unknown: then every unfinished job is held. */
  readonly isUncertain: boolean;
  /** Jobs that the next start does not resume. */
  readonly held: readonly string[];
}

interface Lost {
  readonly names: LineNames;
  /** The job that the line itself names. */
  readonly job: string | undefined;
  readonly isRemoval: boolean;
}

/**
 * Keeps the intact part of a store's files, in whole transactions; damaged files move to `damaged/`. The
 * store changes in one step at the end. Jobs that lost something are marked, so that no start resumes them by
 * itself.
 */
export async function repairFiles(io: StoreIo, folder: string, now: () => Date): Promise<Repaired> {
  const files = new FileSet({ io, folder, log: { info() {}, warn() {}, error() {} }, segments: new Map() });
  refuseIncomplete(io, folder);
  files.claim.seize();
  try {
    return await new Repair(files, now().toISOString()).run();
  } finally {
    files.close();
  }
}

class Repair {
  readonly #files: FileSet;
  readonly #at: string;
  readonly #sound: Segment[] = [];
  readonly #flawed: Segment[] = [];
  readonly #problems: Problem[] = [];
  readonly #lost: Lost[] = [];
  readonly #writers = new Map<string, TableWriter>();
  #isUncertain = false;
  #last = 0;

  constructor(files: FileSet, at: string) {
    this.#files = files;
    this.#at = at;
  }

  async run(): Promise<Repaired> {
    for (const { name, size } of this.#listFiles()) await this.#examine(name, size);
    for (const segment of this.#flawed) await this.#sift(segment, undefined);
    const kept = await this.#readKept();
    const affected = this.#findAffected(kept);
    const isWhole = this.#problems.length === 0 && this.#flawed.length === 0 && affected.length === 0;
    if (isWhole) return { problems: [], affected: [], isUncertain: false, held: [] };

    for (const segment of this.#flawed)
      await this.#sift(segment, (header, bytes) => this.#write(header.t, bytes, header.s));
    this.#last = kept.last;
    await this.#shorten(kept);
    const held = this.#hold(kept, affected);
    const repaired = { problems: this.#problems, affected, isUncertain: this.#isUncertain, held };
    await this.#publish(repaired);
    return repaired;
  }

  /** The files that the manifest names; if it is lost or damaged, all existing ones. */
  #listFiles(): Manifest["files"] {
    const { io, folder } = this.#files;
    let what = "it is missing";
    try {
      const manifest = readManifest(io, folder);
      if (manifest !== undefined) return manifest.files;
    } catch (error) {
      if (codeOf(error) !== undefined || error instanceof ClosedStoreError) throw error;
      what = "it is not as it was written";
    }
    const names = this.#files.orphans();
    if (names.length === 0) return [];
    // Obsolete files may be among them, with what has been removed since.
    this.#isUncertain = true;
    this.#problems.push({ file: MANIFEST, byte: 0, what: `${what}: all files were read` });
    return names.map((name) => ({ name }));
  }

  async #examine(name: string, size: number | undefined): Promise<void> {
    const { io, folder } = this.#files;
    if (!io.list(folder).includes(name)) {
      this.#isUncertain = true;
      this.#problems.push({ file: name, byte: 0, what: "the file is missing" });
      return;
    }
    const segment = this.#files.open(name, size);
    const end = await readSegment(io, segment, () => {});
    const { flaw } = end;
    if (flaw === undefined) {
      this.#sound.push(segment);
      return;
    }
    const torn =
      size === undefined && segment.kind === "journal"
        ? await examineTail(io, segment, { ...end, flaw }).catch(() => undefined)
        : undefined;
    if (torn === undefined) {
      this.#flawed.push(segment);
      return;
    }
    // A crash caused it, before the line was acknowledged.
    keepTornTail(io, folder, torn);
    segment.size = torn.byte;
    this.#sound.push(segment);
  }

  /** Passes the lines that can be kept to `keep`; notes the others. */
  async #sift(
    segment: Segment,
    keep: ((header: LineHeader, bytes: Buffer) => void) | undefined,
  ): Promise<void> {
    const { io } = this.#files;
    const { handle } = segment.file;
    const actual = sizeWithoutZeros(io, handle);
    if (keep === undefined && actual < segment.size) {
      this.#isUncertain = true;
      this.#problems.push({
        file: segment.name,
        byte: actual,
        what: missingBytes(segment.size - actual),
      });
    }
    const size = Math.min(actual, segment.size);
    await siftFile(
      io,
      { file: handle, size, isJournal: segment.kind === "journal" },
      {
        keep: keep ?? (() => {}),
        drop: (flawed) => {
          if (keep === undefined) this.#note(segment.name, flawed);
        },
      },
    );
  }

  #note(file: string, { byte, line, what, names, bytes }: Flawed): void {
    this.#problems.push({ file, byte, what, ...(line === undefined ? {} : { line }) });
    if (names === undefined) this.#isUncertain = true;
    if (!names) return;
    const text = bytes.toString();
    const job = /"job_id":"([^"\\]+)"/.exec(text)?.[1];
    this.#lost.push({ names, job, isRemoval: text.includes('"ix":{},"d":null') });
  }

  /** Reads what is left, once for the entities that lost something, and again for their jobs. */
  async #readKept(): Promise<KeptLines> {
    const asked = new Set<string>();
    for (const { names } of this.#lost) {
      asked.add(`${names.t}\n${names.id}`);
      const owner = ownerOf(names.t, names.id);
      if (owner !== undefined && "case" in owner) asked.add(`Case\n${owner.case}`);
    }
    const kept = new KeptLines((table, id) => asked.has(`${table}\n${id}`));
    await this.#eachKept((header, bytes) => kept.add(header, bytes));
    return kept;
  }

  async #eachKept(visit: (header: LineHeader, bytes: Buffer) => void): Promise<void> {
    for (const segment of this.#sound)
      await readSegment(this.#files.io, segment, ({ header, bytes }) => visit(header, bytes));
    for (const segment of this.#flawed) await this.#sift(segment, visit);
  }

  #findAffected(kept: KeptLines): Affected[] {
    const affected = new Map<string, Affected>();
    for (const lost of this.#lost) {
      const one = lost.names.i === undefined ? entityOf(lost, kept) : this.#keyOf(lost, kept);
      if (one !== undefined) affected.set(`${one.table}\n${one.id}`, one);
    }
    // Also those whose damaged line has no owner.
    for (const [table, keys] of kept.logs) {
      for (const id of keys.keys()) {
        const { kept: count, behind } = kept.entriesOf(table, id);
        if (behind === 0 || affected.has(`${table}\n${id}`)) continue;
        const entries = { kept: count, lost: behind };
        affected.set(`${table}\n${id}`, {
          table,
          id,
          became: "shorter",
          since: null,
          job: jobOf(table, id, kept),
          entries,
        });
      }
    }
    return [...affected.values()];
  }

  #keyOf({ names: { t: table, id, i, s }, job }: Lost, kept: KeptLines): Affected | undefined {
    const { kept: count, behind, cleared } = kept.entriesOf(table, id);
    if (s <= cleared) return undefined;
    const owner = jobOf(table, id, kept) ?? job ?? null;
    const lines = this.#lost.filter(({ names }) => names.t === table && names.id === id && names.s > cleared);
    const highest = Math.max(count + behind, ...lines.map(({ names }) => names.i ?? 0));
    const entries = { kept: count, lost: highest - count };
    const became = i === 0 ? "back" : count === 0 ? "gone" : "shorter";
    if (became === "back" && count + behind === 0) return undefined;
    return { table, id, became, since: null, job: owner, entries };
  }

  /** Removes log entries after a missing one: they cannot be read without it. */
  async #shorten(kept: KeptLines): Promise<void> {
    const cuts = new Map<string, Map<number, Buffer>>();
    for (const [log, keys] of kept.logs)
      for (const id of keys.keys())
        if (kept.entriesOf(log, id).behind > 0) cuts.set(`${log}\n${id}`, new Map());
    if (cuts.size === 0) return;
    await this.#eachKept(({ t, id, i, s }, bytes) => {
      const bodies = i === undefined ? undefined : cuts.get(`${t}\n${id}`);
      if (bodies === undefined || i === 0 || kept.logs.get(t)!.get(id)!.seqs[i! - 1] !== s) return;
      bodies.set(i!, Buffer.from(readBody(bytes)));
    });
    for (const [name, bodies] of cuts) {
      const [log, id] = splitName(name);
      const { kept: count } = kept.entriesOf(log, id);
      this.#add(log, id, { entry: 0, body: "null" });
      for (let entry = 1; entry <= count; entry++)
        this.#add(log, id, { entry, body: bodies.get(entry)!.toString() });
    }
  }

  #hold(kept: KeptLines, affected: readonly Affected[]): string[] {
    const unfinished = new Set(kept.unfinishedJobs());
    const reasons = new Map<string, string[]>();
    for (const one of affected) {
      if (one.job !== null && unfinished.has(one.job))
        getOrMake(reasons, one.job, () => []).push(describeAffected(one));
    }
    if (this.#isUncertain)
      for (const id of unfinished)
        getOrMake(reasons, id, () => []).push("lines were lost that may have been of this job");
    for (const [id, what] of reasons) {
      const row: DamagedJob = { id, at: this.#at, what };
      this.#add("DamagedJob", id, { body: JSON.stringify(row) });
    }
    return [...reasons.keys()];
  }

  #add(table: string, id: string, { entry, body }: { entry?: number; body: string }): void {
    const s = ++this.#last;
    const lines = new LineBuffer();
    const rest = entry === undefined ? "" : `,"i":${entry},"ix":{}`;
    lines.add(`{"s":${s},"k":0,"n":0,"t":${JSON.stringify(table)},"id":${JSON.stringify(id)}${rest},"d":`, [
      body,
    ]);
    this.#write(table, lines.bytes().subarray(0, lines.length - 1), s);
  }

  #write(table: string, line: Buffer, seq: number): void {
    getOrMake(this.#writers, table, () => new TableWriter(this.#files, table, LIMIT)).add(line, seq);
  }

  /** Moves the damaged files aside, and makes the rest the content of the store. */
  async #publish(repaired: Repaired): Promise<void> {
    const { io, folder } = this.#files;
    const writers = [...this.#writers.values()];
    for (const writer of writers) await writer.finish();
    const aside = `${folder}/${DAMAGED}`;
    io.makeFolder(aside);
    for (const segment of this.#flawed) await copyFile(io, segment.file.handle, `${aside}/${segment.name}`);
    const report = `${this.#at.replaceAll(/[:.]/g, "-")}.json`;
    await writeFile(io, `${aside}/${report}`, Buffer.from(`${JSON.stringify(repaired, null, 2)}\n`));
    await io.syncFolder(aside);
    await io.syncFolder(folder);
    const written = writers.flatMap(({ segments }) => segments);
    await forgetShipping(io, folder);
    await this.#files.publish([...this.#sound, ...written], undefined);
    await this.#files.release();
    for (const segment of this.#flawed) this.#files.discard(segment);
  }
}

function entityOf(
  { names: { t: table, id, s }, job, isRemoval }: Lost,
  kept: KeptLines,
): Affected | undefined {
  const version = kept.find(table, id);
  if (version !== undefined && version.s > s) return undefined;
  const isThere = version !== undefined && !version.isRemoved;
  if (isRemoval && !isThere) return undefined;
  const owner = jobOf(table, id, kept) ?? job ?? null;
  const { updated_at, created_at } = version?.fields ?? {};
  const became = isRemoval ? "back" : isThere ? "older" : "gone";
  return { table, id, became, since: updated_at ?? created_at ?? null, job: owner };
}

function jobOf(table: string, id: string, kept: KeptLines): string | null {
  const owner = ownerOf(table, id);
  if (owner === undefined) return null;
  return "job" in owner ? owner.job : (kept.find("Case", owner.case)?.fields.job_id ?? null);
}

/** What happened to something, as text. */
export function describeAffected({ table, id, became, since, entries }: Affected): string {
  const name = `${table} "${id}"`;
  if (became === "gone") return `${name} is gone`;
  if (became === "shorter") return `${name} has ${entries!.kept} entries left, ${entries!.lost} are lost`;
  const when = since === null ? "" : `, last changed at ${since}`;
  return became === "back" ? `${name} was removed and is back${when}` : `${name} is an older version${when}`;
}

function splitName(name: string): [string, string] {
  const at = name.indexOf("\n");
  return [name.slice(0, at), name.slice(at + 1)];
}

async function copyFile(io: StoreIo, from: number, path: string): Promise<void> {
  const bytes = Buffer.alloc(io.size(from));
  for (let at = 0; at < bytes.length; ) {
    const count = await io.read(from, bytes.subarray(at), at);
    if (count === 0) break;
    at += count;
  }
  await writeFile(io, path, bytes);
}

async function writeFile(io: StoreIo, path: string, bytes: Buffer): Promise<void> {
  const name = path.slice(path.lastIndexOf("/") + 1);
  const folder = path.slice(0, path.lastIndexOf("/"));
  // An earlier repair was cut short.
  if (io.list(folder).includes(name)) io.remove(path);
  const file = io.open(path, "create");
  try {
    writeFully(io, file, bytes, 0);
    await io.sync(file);
  } finally {
    io.close(file);
  }
}

/** The owner of an entity or log key: a job, or a case of one; `undefined` if it is neither. */
function ownerOf(
  table: string,
  id: string,
): { readonly job: string } | { readonly case: string } | undefined {
  if (table === "Job" || table === "Run") return { job: id };
  if (table === "Case" || table === "CaseUpdate") return { case: id };
  return undefined;
}
