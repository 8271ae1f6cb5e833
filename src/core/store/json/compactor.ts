import { isNoRoom } from "../../storage/file-io.ts";
import type { StoreLogger } from "../store.ts";
import type { Checkpointer } from "./checkpointer.ts";
import { type Compacted, compactFiles } from "./compaction.ts";
import type { Contents } from "./contents.ts";
import type { FileSet } from "./file-set.ts";
import type { Journal } from "./journal.ts";
import type { Segment } from "./segment.ts";

/** Number of small files that are tolerated before they are merged. */
const SMALL_FILES = 12;
/** Groups of commits between two checks of the files. */
const EVERY = 32;
/**
 * Multiple of a journal's size that lines without an index may occupy; a start has to parse their bodies.
 */
const BARE = 16;

export interface CompactorOptions {
  readonly files: FileSet;
  readonly contents: Contents;
  readonly journal: Journal;
  readonly log: StoreLogger;
  /** Size of a journal file. */
  readonly limit: number;
  /** Covers the files: none is copied while it does. */
  readonly checkpointer?: Pick<Checkpointer, "isRunning" | "idle">;
}

/** Copies what still matters of mostly outdated files into new ones, in the background. */
export class Compactor {
  readonly #options: CompactorOptions;
  #running: Promise<void> | undefined;
  #groups = 0;
  #files = 0;
  #closed = false;
  /** Files that cannot be compacted as they are; the next start reads them whole and will say so. */
  readonly #damaged = new Set<Segment>();
  count = 0;

  constructor(options: CompactorOptions) {
    this.#options = options;
  }

  /** Called after each group of commits, and while the disk is full: starts a compaction if it is worth it. */
  check(): void {
    const { files, journal } = this.#options;
    if (this.#running !== undefined || this.#closed) return;
    if (++this.#groups < EVERY && files.order.length === this.#files && journal.isSound) return;
    if (this.#options.checkpointer?.isRunning) return;
    this.#groups = 0;
    this.#files = files.order.length;
    const sources = journal.isFull ? this.#relief() : this.#worthwhile();
    if (sources.length > 0) this.#begin(sources);
  }

  /** Compacts everything that is not being written to; resolves once it is done. */
  async compact(): Promise<void> {
    await this.#running;
    await this.#options.journal.exclusive(() => this.#sealActive());
    await this.#options.checkpointer?.idle();
    this.#begin(this.#sealed());
    await this.#running;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#running;
  }

  #sealed(): Segment[] {
    const { files } = this.#options;
    return files.order.filter((segment) => segment !== files.active && !this.#damaged.has(segment));
  }

  #worthwhile(): Segment[] {
    const { limit } = this.#options;
    const sealed = this.#sealed();
    const stale = sealed.filter((segment) => deadOf(segment) > segment.size / 2);
    const small = sealed.filter((segment) => segment.size < limit / 4);
    const dead = stale.reduce((sum, segment) => sum + deadOf(segment), 0);
    const isDue = dead >= limit * 2 || small.length > SMALL_FILES;
    const chosen = new Set(isDue ? [...stale, ...small] : []);
    for (const segment of this.#bare(sealed)) chosen.add(segment);
    return sealed.filter((segment) => chosen.has(segment));
  }

  /**
   * The oldest files with lines that lack an index, once there are many of these, or whose index is of
   * another version: a start computes it from the bodies until they are rewritten. Few at a time: most of
   * their lines may still count, and outdated lines elsewhere wait in the meantime.
   */
  #bare(sealed: readonly Segment[]): Segment[] {
    const { limit } = this.#options;
    const isMuch = sealed.reduce((sum, { bare }) => sum + bare, 0) > limit * BARE;
    let needed = 0;
    return sealed.filter((segment) => {
      if (!(isMuch ? segment.bare > 0 : segment.isOutdated) || needed >= limit * 2) return false;
      needed += neededOf(segment);
      return true;
    });
  }

  /** While the disk is full: the file whose compaction frees the most for the least work. */
  #relief(): Segment[] {
    const { files, limit } = this.#options;
    const gain = (segment: Segment) => deadOf(segment) - neededOf(segment);
    const possible = files.order.filter(
      (segment) => gain(segment) > 0 && neededOf(segment) <= limit / 16 && !this.#damaged.has(segment),
    );
    return possible.sort((a, b) => gain(b) - gain(a)).slice(0, 1);
  }

  #begin(sources: readonly Segment[]): void {
    this.#running = this.#run(sources).finally(() => {
      this.#running = undefined;
    });
  }

  async #run(sources: readonly Segment[]): Promise<void> {
    const { files, contents, journal, log, limit } = this.#options;
    try {
      if (sources.some((source) => source === files.active))
        await journal.exclusive(() => this.#sealActive());
      const compacted = await compactFiles(files, contents, { sources, limit: limit * 4 });
      const published = await journal.exclusive(() => this.#swap(sources, compacted));
      if (!published) return;
      await compacted.moves.make();
      this.count++;
      for (const source of sources) files.discard(source);
    } catch (error) {
      // Nothing is lost: the files stay as they were. A full disk has already been reported.
      if (!isNoRoom(error)) log.warn("Store: a compaction was aborted", { error: String(error) });
      if ((error as { type?: string }).type === "storage_error")
        for (const source of sources) this.#damaged.add(source);
    }
  }

  async #swap(sources: readonly Segment[], compacted: Compacted): Promise<boolean> {
    const { files, journal } = this.#options;
    const kept = files.order.filter((segment) => !sources.includes(segment));
    if (!journal.isWritable || !(await this.#isCovered(sources, compacted))) {
      for (const segment of compacted.segments) files.discard(segment);
      return false;
    }
    try {
      await files.publish([...compacted.segments, ...kept], files.active);
    } catch (error) {
      // Which manifest is on disk is unknown: the new files stay until one is written that does not name them.
      for (const segment of compacted.segments) segment.file.retire();
      journal.noteUnknown(error);
      throw error;
    }
    return true;
  }

  /** Whether the new files have everything that the index points to in the old ones. */
  async #isCovered(sources: readonly Segment[], { moves }: Compacted): Promise<boolean> {
    const uncovered = await moves.findUncovered(sources);
    if (uncovered === undefined) return true;
    for (const source of sources) this.#damaged.add(source);
    const { name: file, live } = uncovered;
    this.#options.log.warn("Store: a compaction was aborted, as it would have lost lines; all files stay", {
      file,
      live,
    });
    return false;
  }

  async #sealActive(): Promise<void> {
    const { files, journal } = this.#options;
    if (files.active === undefined || files.active.size === 0) return;
    try {
      await journal.rotate();
    } catch (error) {
      journal.noteUnknown(error);
      throw error;
    }
  }
}

/** Bytes of lines that a compaction would keep. */
function neededOf({ live, removals }: Segment): number {
  return live + removals.needed;
}

/** Bytes of lines that are no longer needed. */
function deadOf(segment: Segment): number {
  return segment.size - neededOf(segment);
}
