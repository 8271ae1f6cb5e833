import type { Change } from "../engine/backend.ts";
import { closedError } from "../storage-error.ts";
import type { StoreHealth, StoreLogger } from "../store.ts";
import { Batch, type Commit } from "./batch.ts";
import { beginJournal } from "./begin-journal.ts";
import type { Contents } from "./contents.ts";
import { diskError } from "./disk-errors.ts";
import type { FileSet } from "./file-set.ts";
import { GroupPace } from "./group-pace.ts";
import type { HeadroomOptions } from "./headroom.ts";
import { JournalEnd } from "./journal-end.ts";
import { JournalHealth } from "./journal-health.ts";
import type { Remote } from "./remote.ts";
import type { Reserve } from "./reserve.ts";
import { rewriteActive } from "./rewrite-active.ts";
import type { Timers } from "./timers.ts";

/** A batch that is on disk, and the locations of its lines, one after another. */
interface Written {
  readonly batch: Batch;
  /** Number of its first write. */
  readonly seq: number;
  readonly segment: number;
  readonly start: number;
}

export interface JournalOptions {
  readonly files: FileSet;
  readonly contents: Contents;
  readonly reserve: Reserve;
  readonly timers: Timers;
  readonly log: StoreLogger;
  /** Number of the last write. */
  readonly last: number;
  /** Bytes after which a new journal file is started. */
  readonly limit: number;
  readonly headroom: HeadroomOptions;
  /** Called after each group of commits, and again and again while the disk is full: files may need to be compacted. */
  readonly onCheck: () => void;
  /** Where each group is stored besides, before it is acknowledged. */
  readonly remote?: Remote | undefined;
}

/**
 * Appends commits to the journal, all waiting ones together, and makes them visible once they are on disk.
 */
export class Journal {
  readonly #files: FileSet;
  readonly #contents: Contents;
  readonly #options: JournalOptions;
  /** Waiting commits with their lines, built while the disk works on the previous ones. */
  #filling = this.#newBatch();
  readonly #spare: Batch[] = [];
  /** Those queued after them, without lines yet. */
  #rest: Commit[] = [];
  /** Number of both. */
  #waiting = 0;
  /** Lines that are being written. */
  #underWay = 0;
  #tasks: (() => Promise<void>)[] = [];
  #running: Promise<void> | undefined;
  /** Whether somebody is writing, or a task runs. */
  #busy = false;
  #scheduled = false;
  #closed = false;
  #last: number;
  readonly #pace: GroupPace;
  readonly #health: JournalHealth;
  readonly #end: JournalEnd;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#files = options.files;
    this.#contents = options.contents;
    this.#last = options.last;
    this.#pace = new GroupPace(options.timers);
    const exclusive = (work: () => Promise<void>) => this.exclusive(work);
    this.#health = new JournalHealth({
      ...options,
      exclusive,
      rewrite: () => this.#rewrite(),
      onStillFull: options.onCheck,
    });
    this.#end = new JournalEnd({ ...options, exclusive, health: this.#health });
  }

  /** Number of the last write that is on disk. */
  get last(): number {
    return this.#last;
  }

  commit(changes: readonly Change[], done: (error?: Error) => void): void {
    this.#enqueue({ changes, done });
    if (this.#busy) this.#pace.noteCommit();
    if (this.#waiting >= this.#pace.enough) this.#start();
    else this.#schedule();
  }

  /** Builds the lines immediately if their numbers are known. */
  #enqueue(commit: Commit): void {
    this.#waiting++;
    if (this.#health.isSound && this.#rest.length === 0 && !this.#filling.isFull) {
      try {
        this.#filling.add(commit, this.#last + this.#underWay, this.#last);
        return;
      } catch {
        // Retried when it is written; all waiting commits are notified then.
      }
    }
    this.#rest.push(commit);
  }

  /** Runs `work` while nothing is written. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#tasks.push(() => work().then(resolve, reject));
      this.#schedule();
    });
  }

  /**
   * Assumes that the end of the active file cannot be trusted; resolves once it was rewritten, or that has
   * failed.
   */
  distrust(reason: Error): Promise<void> {
    return this.exclusive(() => this.#health.distrust(reason));
  }

  health(): StoreHealth {
    return this.#health.describe();
  }

  get isFull(): boolean {
    return this.#health.isFull;
  }

  /** Whether the files on disk match those in memory, so that new ones may replace them. */
  get isWritable(): boolean {
    return this.#health.isWritable;
  }

  get isSound(): boolean {
    return this.#health.isSound;
  }

  /** Notes that it is unknown which manifest is on disk. */
  noteUnknown(cause: unknown): void {
    this.#health.fail(cause);
  }

  /** Notes that there is no space, before a write fails. */
  noteFull(): void {
    this.#health.noteFull();
  }

  /** Starts a new file, so that the active one can be compacted. For use inside `exclusive`. */
  async rotate(): Promise<void> {
    this.#end.dropHeadroom();
    await beginJournal(this.#files, this.#last + 1);
  }

  /** Writes waiting commits, and marks the journal as complete. */
  async close(): Promise<void> {
    while (this.#busy || this.#scheduled) {
      this.#start();
      await this.#running;
    }
    this.#closed = true;
    this.#health.close();
    this.#end.close();
    const { active } = this.#files;
    if (!this.isWritable || (active === undefined && this.#files.order.length === 0)) return;
    try {
      this.#end.dropHeadroom();
      await this.#files.release();
    } catch (error) {
      this.#options.log.warn("Store: the journal could not be marked as complete; the next start checks it", {
        error: String(error),
      });
    }
  }

  #schedule(): void {
    if (this.#busy || this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      if (this.#scheduled) this.#start();
    });
  }

  #start(): void {
    this.#scheduled = false;
    if (this.#busy) return;
    this.#busy = true;
    this.#running = this.#run();
  }

  async #run(): Promise<void> {
    for (;;) {
      const task = this.#tasks.shift();
      if (task !== undefined) await task();
      else if (this.#waiting === 0) break;
      else if (await this.#writeGroups()) return;
    }
    this.#busy = false;
  }

  /**
   * Writes waiting commits, group by group, while there are enough. Resolves with whether it released the
   * journal, so that the callers of the last group can start the next one.
   */
  async #writeGroups(): Promise<boolean> {
    if (this.#closed) {
      this.#rejectAll(undefined, closedError());
      return false;
    }
    let batch: Batch | undefined;
    try {
      // Waiting here, even for a moment, would let callers run first and leave the disk idle.
      if (!this.#isReady()) await this.#prepare();
      batch = this.#take();
      let writing = this.#write(batch);
      for (;;) {
        const written = await writing;
        const isEnough = this.#tasks.length > 0 || this.#waiting >= this.#pace.enough;
        const goesOn = isEnough && this.#tasks.length === 0 && this.#isReady();
        batch = goesOn ? this.#take() : undefined;
        // The disk gets the next ones before the callers of these continue.
        if (batch !== undefined) writing = this.#write(batch);
        else if (!isEnough) this.#busy = false;
        this.#apply(written);
        this.#options.onCheck();
        if (batch !== undefined) continue;
        if (!isEnough && this.#waiting > 0) this.#schedule();
        return !isEnough;
      }
    } catch (error) {
      this.#busy = true;
      this.#rejectAll(batch, this.isWritable ? diskError(error, this.#files.folder) : this.#health.error);
      return false;
    }
  }

  /** Whether the next group can be written in the current state. */
  #isReady(): boolean {
    const { active } = this.#files;
    return this.#health.isSound && active !== undefined && active.size < this.#options.limit;
  }

  /** Ensures that there is a sound file to write to. */
  async #prepare(): Promise<void> {
    // The space that the reserve released is for commits that remove something.
    const usesReserve = this.isFull && removesSomething((this.#filling.commits[0] ?? this.#rest[0])!.changes);
    if (!usesReserve) await this.#health.heal();
    const { active } = this.#files;
    if (active !== undefined && active.size < this.#options.limit) return;
    try {
      await this.rotate();
    } catch (error) {
      this.#health.noteFailure(error);
      throw error;
    }
  }

  /** The commits to write next; while the disk is full, those at the head of the queue that remove something. */
  #take(): Batch {
    const { isFull } = this;
    if (isFull || this.#filling.commits.length === 0) {
      this.#rest = [...this.#filling.clear(), ...this.#rest];
      let count = 0;
      try {
        for (; count < this.#rest.length && !this.#filling.isFull; count++) {
          const commit = this.#rest[count]!;
          if (isFull && !removesSomething(commit.changes)) break;
          this.#filling.add(commit, this.#last + this.#underWay, this.#last);
        }
      } finally {
        this.#rest.splice(0, count);
      }
    }
    const batch = this.#filling;
    if (batch.commits.length === 0) throw this.#health.error;
    this.#waiting -= batch.commits.length;
    this.#filling = this.#spare.pop() ?? this.#newBatch();
    return batch;
  }

  #newBatch(): Batch {
    return new Batch((change) => (change.kind === "put" ? this.#contents.versionOf(change.table)! : ""));
  }

  /** Resolves once a batch is on disk, with the locations of its lines. */
  async #write(batch: Batch): Promise<Written> {
    const active = this.#files.active!;
    const start = active.size;
    const bytes = batch.bytes(this.#last);
    const count = batch.commits.length;
    const seq = this.#last + 1;
    this.#underWay = batch.lengths.length;
    let began = this.#options.timers.now();
    if (this.#end.isShort(active, bytes.length, began)) {
      await this.#end.makeHeadroom();
      began = this.#options.timers.now();
    }
    const onTheSpot = this.#pace.isOnTheSpot({ count, waiting: this.#waiting });
    await this.#end.write(bytes, { start, onTheSpot });
    const { remote } = this.#options;
    if (remote?.append !== undefined) await this.#orLose(() => remote.append!(bytes));
    this.#pace.noteGroup({ count, waiting: this.#waiting }, { began, onTheSpot });
    // What a remote has must stay what the folder has: the numbers of these writes are used.
    if (remote?.append !== undefined) await this.#orLose(() => this.#health.confirm());
    else this.#health.confirm();
    if (remote?.stored !== undefined)
      await this.#orLose(() => remote.stored!(bytes, this.#last + this.#underWay));
    active.size = start + bytes.length;
    this.#last += this.#underWay;
    this.#underWay = 0;
    return { batch, seq, segment: active.id, start };
  }

  /** If `work` fails, the folder no longer is what others will find: nothing more is written to it. */
  async #orLose(work: () => void | Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#files.claim.lose(error as Error);
      this.#health.fail(error);
      throw error;
    }
  }

  #apply({ batch, seq, segment, start }: Written): void {
    const { commits, lengths } = batch;
    let offset = start;
    let line = 0;
    for (const { changes, done } of commits) {
      for (const change of changes) {
        const length = lengths[line]!;
        this.#contents.apply(change, { segment, offset, length }, seq + line++);
        offset += length + 1;
      }
      done();
    }
    batch.clear();
    this.#spare.push(batch);
  }

  /** Writes the end of the journal again, from its known content. */
  async #rewrite(): Promise<void> {
    this.#end.forgetHeadroom();
    await this.#files.takeAgain();
    this.#files.confirmAll();
    await rewriteActive(this.#files, this.#last + 1);
  }

  /** Notifies all waiting commits, and those of the batch that was being written. */
  #rejectAll(batch: Batch | undefined, error: Error): void {
    const waiting = [...(batch?.clear() ?? []), ...this.#filling.clear(), ...this.#rest];
    this.#rest = [];
    this.#waiting = 0;
    this.#underWay = 0;
    for (const { done } of waiting) done(error);
  }
}

function removesSomething(changes: readonly Change[]): boolean {
  return changes.some(({ kind }) => kind === "delete" || kind === "clear");
}
