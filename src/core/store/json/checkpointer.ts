import { isNoRoom } from "../../storage/file-io.ts";
import type { StoreTable } from "../engine/backend.ts";
import { MOST_OF_SLICE } from "../engine/index-slice.ts";
import type { StoreLogger } from "../store.ts";
import {
  type CheckpointHead,
  type CheckpointName,
  CheckpointWriter,
  headOf,
  type Places,
} from "./checkpoint-file.ts";
import type { Contents } from "./contents.ts";
import type { FileSet } from "./file-set.ts";
import type { Journal } from "./journal.ts";
import type { Locator } from "./locators.ts";
import type { Segment } from "./segment.ts";
import type { Timers } from "./timers.ts";

/** Bytes of complete files that a start has to read, from which on a checkpoint is worth it. */
export const CHECKPOINT_BYTES = 32 * 1024 * 1024;
/** Milliseconds without a commit after which nobody is in a hurry. */
const QUIET = 2000;
/** How many times as many bytes there may be until then. */
const PATIENCE = 8;
/** Entries of logs that are written together. */
const ENTRIES = 16_384;

export interface CheckpointerOptions {
  readonly files: FileSet;
  readonly contents: Contents;
  readonly journal: Journal;
  readonly timers: Timers;
  readonly log: StoreLogger;
  /** Bytes of complete files after which one is worth it. */
  readonly bytes: number;
  /** Files that the last one covers. */
  readonly covered: Iterable<Segment>;
  /** Whether a compaction runs: what it copies may be removed while it does. */
  readonly isCompacting: () => boolean;
}

/**
 * Writes a checkpoint of the index at a quiet time, so that a start need not read the files that it covers. While it is
 * written, commits continue: what they change may be in it or not, and the start reads it from the journal again.
 */
export class Checkpointer {
  readonly #options: CheckpointerOptions;
  #covered: ReadonlySet<Segment>;
  /** The files at the last check. */
  #order: readonly Segment[] | undefined;
  #uncovered = 0;
  #commits = 0;
  #cancel: (() => void) | undefined;
  #running: Promise<void> | undefined;
  #closed = false;
  count = 0;
  /** Number of files that the start has not read. */
  readonly coveredAtStart: number;

  constructor(options: CheckpointerOptions) {
    this.#options = options;
    this.#covered = new Set(options.covered);
    this.coveredAtStart = this.#covered.size;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Resolves once none is being written. */
  async idle(): Promise<void> {
    await this.#running;
  }

  /** Called at the start, and after each group of commits. */
  check(): void {
    this.#commits++;
    const { files } = this.#options;
    if (files.order === this.#order) return;
    this.#order = files.order;
    this.#uncovered = 0;
    for (const segment of files.order)
      if (segment !== files.active && !this.#covered.has(segment)) this.#uncovered += segment.size;
    if (this.#uncovered >= this.#due) this.#wait();
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancel?.();
    await this.#running;
  }

  /** A large one costs more than what a start saves by it, unless there is as much to read. */
  get #due(): number {
    const { files, bytes } = this.#options;
    return Math.max(bytes, (files.checkpoint?.size ?? 0) / 2);
  }

  #wait(): void {
    if (this.#cancel !== undefined || this.#running !== undefined || this.#closed) return;
    const commits = this.#commits;
    this.#cancel = this.#options.timers.after(QUIET, () => {
      this.#cancel = undefined;
      const isQuiet = this.#commits === commits || this.#uncovered > this.#due * PATIENCE;
      const { journal, isCompacting } = this.#options;
      const isReady = journal.isSound && !journal.isFull && !isCompacting();
      if (isQuiet && isReady) this.#begin();
      else this.#wait();
    });
  }

  #begin(): void {
    this.#running = this.#write()
      .catch((error: unknown) => {
        // Nothing is lost: a start reads the files. A full disk has already been reported.
        const { log } = this.#options;
        if (!isNoRoom(error) && !this.#closed)
          log.warn("Store: a checkpoint of the index was aborted; the next start takes longer", {
            error: String(error),
          });
      })
      .finally(() => {
        this.#running = undefined;
      });
  }

  async #write(): Promise<void> {
    const { files, journal } = this.#options;
    const { io, folder } = files;
    // Between two groups of commits.
    const { head, covered } = await journal.exclusive(async () => this.#head());
    const { name, handle } = files.createCheckpoint();
    const writer = new CheckpointWriter(io, handle);
    try {
      writer.add(head);
      for (const write of this.#parts(writer)) {
        write();
        await new Promise((resolve) => setImmediate(resolve));
        if (this.#closed) throw new Error("the store is closed");
      }
      writer.add({
        last: journal.last,
        hasActive: files.active !== undefined,
        names: Object.fromEntries(files.order.map((segment) => [segment.id, segment.name])),
      });
      await io.sync(handle);
      await io.syncFolder(folder);
    } catch (error) {
      io.close(handle);
      files.removeFile(name);
      throw error;
    }
    io.close(handle);
    const { size, sum } = writer;
    await journal.exclusive(() => this.#publish({ name, size, sum }));
    this.#covered = covered;
    this.count++;
    // Files may have become complete in the meantime.
    this.#order = undefined;
    this.check();
  }

  async #publish(next: CheckpointName): Promise<void> {
    const { files, journal } = this.#options;
    const before = files.checkpoint;
    if (!journal.isWritable) {
      files.removeFile(next.name);
      return;
    }
    files.checkpoint = next;
    try {
      await files.publish(files.order, files.active);
    } catch (error) {
      // Which manifest is on disk is unknown: both stay.
      files.checkpoint = before;
      journal.noteUnknown(error);
      throw error;
    }
    if (before !== undefined) files.removeFile(before.name);
  }

  #head(): { head: CheckpointHead; covered: ReadonlySet<Segment> } {
    const { files, contents } = this.#options;
    const covered = files.order.filter((segment) => segment !== files.active);
    const head = headOf({
      sizes: Object.fromEntries([...contents.tables].map(([name, { index }]) => [name, index.size])),
      files: covered.map(({ name, size, file, from, bare, isOutdated, removals }) => ({
        ...{ name, size, modified: files.io.identityOf(file.handle).modified },
        ...{ from, bare, isOutdated, needed: removals.needed, removals: removals.toNumbers() },
      })),
    });
    return { head, covered: new Set(covered) };
  }

  /** Writes one part with each call: of what there is at that moment. */
  *#parts(writer: CheckpointWriter): Generator<() => void, void> {
    const { contents } = this.#options;
    for (const table of contents.tables.values()) {
      for (let from = 0; from < table.index.capacity; from += MOST_OF_SLICE)
        yield () => this.#addSlots(writer, table, from);
      for (const order of table.index.orders()) yield () => writer.add({ ordered: table.name, ...order });
    }
    for (const log of contents.logNames()) {
      let keys: string[] = [];
      let entries = 0;
      for (const key of contents.keysOf(log).keys()) {
        keys.push(key);
        entries += contents.entriesOf(log, key)?.count ?? 0;
        if (entries < ENTRIES && keys.length < MOST_OF_SLICE) continue;
        const part = keys;
        yield () => this.#addKeys(writer, log, part);
        keys = [];
        entries = 0;
      }
      yield () => this.#addKeys(writer, log, keys);
    }
  }

  #addSlots(writer: CheckpointWriter, table: StoreTable, from: number): void {
    const { contents } = this.#options;
    const { index } = table;
    const slots: number[] = [];
    for (let slot = from; slot < Math.min(from + MOST_OF_SLICE, index.capacity); slot++)
      if (index.has(slot)) slots.push(slot);
    if (slots.length === 0) return;
    const locators = contents.locatorsOf(table);
    const places = newPlaces(slots.length);
    for (const [at, slot] of slots.entries()) setPlace(places, at, locators.get(slot), locators.seqOf(slot));
    const own = Uint32Array.from(slots);
    const version = contents.versionOf(table) ?? null;
    writer.add({ table: table.name, version, slots: own, slice: index.sliceOf(own), places });
  }

  #addKeys(writer: CheckpointWriter, log: string, keys: readonly string[]): void {
    const { contents } = this.#options;
    const known = keys.flatMap((key) => {
      const entries = contents.entriesOf(log, key);
      return entries === undefined ? [] : [{ key, entries }];
    });
    if (known.length === 0) return;
    const counts = known.map(({ entries }) => entries.count);
    const places = newPlaces(counts.reduce((sum, count) => sum + count, 0));
    let at = 0;
    for (const { entries } of known)
      for (let number = 1; number <= entries.count; number++)
        setPlace(places, at++, entries.get(number), entries.seqOf(number));
    writer.add({ log, keys: known.map(({ key }) => key), counts, places });
  }
}

function newPlaces(count: number): Places {
  return {
    segments: new Uint32Array(count),
    offsets: new Uint32Array(count),
    lengths: new Uint32Array(count),
    seqs: new Float64Array(count),
  };
}

function setPlace(places: Places, at: number, { segment, offset, length }: Locator, seq: number): void {
  places.segments[at] = segment;
  places.offsets[at] = offset;
  places.lengths[at] = length;
  places.seqs[at] = seq;
}
