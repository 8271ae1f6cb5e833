import type { ServiceError } from "../../base/errors.ts";
import type { Change } from "../backend.ts";
import { closedError } from "../storage-error.ts";
import type { StoreHealth, StoreLogger } from "../store.ts";
import type { Commit } from "./batch.ts";
import { Batch } from "./batch.ts";
import { beginJournal } from "./begin-journal.ts";
import type { Contents } from "./contents.ts";
import { diskError, fullError } from "./disk-errors.ts";
import type { FileSet } from "./file-set.ts";
import { GroupPace } from "./group-pace.ts";
import type { HeadroomOptions } from "./headroom.ts";
import { HEADROOM_IDLE, Headroom } from "./headroom.ts";
import { isNoRoom, writeFully } from "./io.ts";
import type { Reserve } from "./reserve.ts";
import { rewriteActive } from "./rewrite-active.ts";
import type { Timers } from "./timers.ts";

/** A batch that is on disk, and where its lines lie, one behind the other. */
interface Written {
  readonly batch: Batch;
  /** Number of its first write. */
  readonly seq: number;
  readonly segment: number;
  readonly start: number;
}

/**
 * `sound`: writes go on. `full`: there is no room; only commits that remove something are taken, on the reserve.
 * `failed`: what the disk holds behind the last sync is unknown; nothing is written before the journal is rewritten.
 */
type Condition = { readonly kind: "sound" } | { readonly kind: "full" | "failed"; readonly error: Error };

/** Milliseconds between attempts to write again after a failure. */
const HEAL = 1000;
/** Milliseconds between looks at whether the folder is still this process's; each group of commits looks as well. */
const WATCH = 1000;

export interface JournalOptions {
  readonly files: FileSet;
  readonly contents: Contents;
  readonly reserve: Reserve;
  readonly timers: Timers;
  readonly log: StoreLogger;
  /** Number of the last write. */
  readonly last: number;
  /** Bytes after which a new journal file is begun. */
  readonly limit: number;
  readonly headroom: HeadroomOptions;
  /** Told after each group of commits. */
  readonly onWritten: () => void;
}

/** Writes commits to the end of the journal, as many as wait at once, and makes them visible once they are on disk. */
export class Journal {
  readonly #files: FileSet;
  readonly #contents: Contents;
  readonly #options: JournalOptions;
  /** Commits that wait, with their lines: made while the disk works on those before. */
  #filling = this.#newBatch();
  readonly #spare: Batch[] = [];
  /** Those that wait behind them and have no lines yet. */
  #rest: Commit[] = [];
  /** Lines that are being written. */
  #underWay = 0;
  #tasks: (() => Promise<void>)[] = [];
  #running: Promise<void> | undefined;
  /** Whether somebody is writing, or a task runs. */
  #busy = false;
  #scheduled = false;
  #closed = false;
  #last: number;
  #condition: Condition = { kind: "sound" };
  #reported = false;
  #cancelHeal: (() => void) | undefined;
  #lastHeal = Number.NEGATIVE_INFINITY;
  readonly #pace: GroupPace;
  readonly #headroom: Headroom;
  #cancelCheck: (() => void) | undefined;
  #cancelWatch: (() => void) | undefined;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#files = options.files;
    this.#contents = options.contents;
    this.#last = options.last;
    this.#pace = new GroupPace(options.timers);
    this.#headroom = new Headroom(options.files.io, options.headroom);
    this.#watch();
  }

  /** Number of the last write that is on disk. */
  get last(): number {
    return this.#last;
  }

  commit(changes: readonly Change[], done: (error?: Error) => void): void {
    this.#enqueue({ changes, done });
    this.#pace.noteCommit();
    if (this.#waiting >= this.#pace.enough) this.#start();
    else this.#schedule();
  }

  /** Number of commits that wait. */
  get #waiting(): number {
    return this.#filling.commits.length + this.#rest.length;
  }

  /** Makes the lines at once where it is known which numbers they will have. */
  #enqueue(commit: Commit): void {
    if (this.isSound && this.#rest.length === 0 && !this.#filling.isFull) {
      try {
        this.#filling.add(commit, this.#numbers);
        return;
      } catch {
        // Tried again when it is written; all that wait are told then.
      }
    }
    this.#rest.push(commit);
  }

  get #numbers(): { before: number; known: number } {
    return { before: this.#last + this.#underWay, known: this.#last };
  }

  /** Runs `work` while nothing is written. */
  exclusive<T>(work: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#tasks.push(() => work().then(resolve, reject));
      this.#schedule();
    });
  }

  /** Takes it that the end of the active file cannot be trusted; resolves once it is rewritten, or has failed to be. */
  distrust(reason: Error): Promise<void> {
    return this.exclusive(async () => {
      this.#condition = { kind: "failed", error: reason };
      await this.#heal().catch((error) => this.#report(error));
    });
  }

  health(): StoreHealth {
    if (this.#condition.kind === "sound") return { writable: true };
    const { message, detail } = this.#condition.error as ServiceError;
    return { writable: false, error: detail === undefined ? message : `${message}. ${detail}` };
  }

  get isFull(): boolean {
    return this.#condition.kind === "full";
  }

  /** Whether the files on disk are those in memory, so that new ones may take their place. */
  get isWritable(): boolean {
    return this.#condition.kind !== "failed";
  }

  get isSound(): boolean {
    return this.#condition.kind === "sound";
  }

  /** Notes that it is unknown which manifest is on disk. */
  noteUnknown(cause: unknown): void {
    this.#fail(cause);
  }

  /** Notes that there is no room, before any write says so. */
  noteFull(): void {
    this.#condition = { kind: "full", error: fullError(this.#files.folder) };
    this.#scheduleHeal();
  }

  /** Begins a new file, so that what the active one holds can be compacted. For use inside of `exclusive`. */
  async rotate(): Promise<void> {
    if (this.#files.active !== undefined) this.#headroom.drop(this.#files.active);
    await beginJournal(this.#files, this.#last + 1);
  }

  /** Writes what waits, and marks the journal as whole. */
  async close(): Promise<void> {
    this.#cancelHeal?.();
    while (this.#busy || this.#scheduled) {
      this.#start();
      await this.#running;
    }
    this.#closed = true;
    this.#cancelHeal?.();
    this.#cancelCheck?.();
    this.#cancelWatch?.();
    const { active } = this.#files;
    if (this.#condition.kind === "failed" || (active === undefined && this.#files.order.length === 0)) return;
    try {
      if (active !== undefined) this.#headroom.drop(active);
      await this.#files.release();
    } catch (error) {
      this.#options.log.warn("Store: the journal could not be marked as whole; the next start checks it", {
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
   * Writes what waits, group by group, as long as enough do. Resolves with whether it let go of the journal, so that the
   * callers of the last group could begin the next while they come.
   */
  async #writeGroups(): Promise<boolean> {
    if (this.#closed) {
      this.#rejectAll(undefined, closedError());
      return false;
    }
    let batch: Batch | undefined;
    try {
      // Waiting here, if only for a moment, would let callers come first and the disk idle.
      if (!this.#isReady()) await this.#prepare();
      batch = this.#take();
      let writing = this.#write(batch);
      for (;;) {
        const written = await writing;
        const isEnough = this.#tasks.length > 0 || this.#waiting >= this.#pace.enough;
        const goesOn = isEnough && this.#tasks.length === 0 && this.#isReady();
        batch = goesOn ? this.#take() : undefined;
        // The disk is given the next ones before the callers of these go on.
        if (batch !== undefined) writing = this.#write(batch);
        else if (!isEnough) this.#busy = false;
        this.#apply(written);
        this.#options.onWritten();
        if (batch !== undefined) continue;
        if (!isEnough && this.#waiting > 0) this.#schedule();
        return !isEnough;
      }
    } catch (error) {
      this.#busy = true;
      const { kind } = this.#condition;
      this.#rejectAll(
        batch,
        kind === "failed" ? this.#condition.error : diskError(error, this.#files.folder),
      );
      return false;
    }
  }

  /** Whether the next group can be written as things are. */
  #isReady(): boolean {
    const { active } = this.#files;
    return this.isSound && active !== undefined && active.size < this.#options.limit;
  }

  /** Makes sure that there is a sound file to write to. */
  async #prepare(): Promise<void> {
    // The room that the reserve gave back is for commits that remove something.
    const usesReserve = this.isFull && removesSomething((this.#filling.commits[0] ?? this.#rest[0])!.changes);
    if (!usesReserve) await this.#heal();
    const { active } = this.#files;
    if (active !== undefined && active.size < this.#options.limit) return;
    try {
      await this.rotate();
    } catch (error) {
      this.#noteFailure(error);
      throw error;
    }
  }

  /** The commits to write next; while the disk is full, those at the head of the queue that remove something. */
  #take(): Batch {
    const isFull = this.#condition.kind === "full";
    if (isFull || this.#filling.commits.length === 0) {
      this.#rest = [...this.#filling.clear(), ...this.#rest];
      let count = 0;
      try {
        for (; count < this.#rest.length && !this.#filling.isFull; count++) {
          const commit = this.#rest[count]!;
          if (isFull && !removesSomething(commit.changes)) break;
          this.#filling.add(commit, this.#numbers);
        }
      } finally {
        this.#rest.splice(0, count);
      }
    }
    const batch = this.#filling;
    if (batch.commits.length === 0) throw (this.#condition as { error: Error }).error;
    this.#filling = this.#spare.pop() ?? this.#newBatch();
    return batch;
  }

  #newBatch(): Batch {
    return new Batch((change) => (change.kind === "put" ? this.#contents.versionOf(change.table)! : ""));
  }

  /** Resolves once a batch is on disk, with where its lines lie. */
  async #write(batch: Batch): Promise<Written> {
    const active = this.#files.active!;
    const start = active.size;
    const bytes = batch.bytes(this.#last);
    const count = batch.commits.length;
    const seq = this.#last + 1;
    this.#underWay = batch.lengths.length;
    if (this.#headroom.isShort(active, bytes.length, this.#options.timers.now())) await this.#makeHeadroom();
    const began = this.#options.timers.now();
    const onTheSpot = this.#pace.isOnTheSpot({ count, waiting: this.#waiting });
    const synced = onTheSpot ? undefined : active.file.syncedHandle(`${this.#files.folder}/${active.name}`);
    if (synced !== undefined) await this.#writeSynced(synced, bytes, start);
    else await this.#writeAndSync(bytes, { start, onTheSpot });
    this.#pace.noteGroup({ count, waiting: this.#waiting }, { began, onTheSpot });
    this.#confirm();
    active.size = start + bytes.length;
    this.#last += this.#underWay;
    this.#underWay = 0;
    return { batch, seq, segment: active.id, start };
  }

  /** Lets nothing be acknowledged that lies where no start will find it, or beside the lines of another owner. */
  #confirm(): void {
    try {
      this.#files.confirm();
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /** Looks at the folder also while nothing is written, so that health tells of its loss. */
  #watch(): void {
    this.#cancelWatch = this.#options.timers.after(WATCH, () => {
      if (this.#closed) return;
      if (this.isWritable) {
        try {
          this.#files.confirmAll();
        } catch (error) {
          this.#fail(error);
        }
      }
      this.#watch();
    });
  }

  async #makeHeadroom(): Promise<void> {
    try {
      await this.#headroom.make(this.#files.active!);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
    if (this.#headroom.isThere && this.#cancelCheck === undefined) this.#scheduleCheck();
  }

  /** Has the zeros taken away when nothing was written for a while, so that people find a file of lines. */
  #scheduleCheck(): void {
    const { timers } = this.#options;
    this.#cancelCheck = timers.after(HEADROOM_IDLE, () => {
      this.#cancelCheck = undefined;
      if (this.#closed || !this.#headroom.isThere) return;
      if (!this.#headroom.isIdle(timers.now())) this.#scheduleCheck();
      else void this.exclusive(async () => this.#dropHeadroom());
    });
  }

  #dropHeadroom(): void {
    const { active } = this.#files;
    if (active === undefined || !this.isWritable || this.#closed) return;
    try {
      this.#headroom.drop(active);
    } catch (error) {
      this.#fail(error);
    }
  }

  async #writeAndSync(
    bytes: Uint8Array,
    { start, onTheSpot }: { start: number; onTheSpot: boolean },
  ): Promise<void> {
    const { handle } = this.#files.active!.file;
    const { io } = this.#files;
    try {
      writeFully(io, handle, bytes, start);
    } catch (error) {
      await this.#undo(error);
      throw error;
    }
    try {
      await io.sync(handle, onTheSpot);
    } catch (error) {
      this.#fail(error);
      throw error;
    }
  }

  /** Writes and syncs in one call to another thread, so that only staging commits keeps this one busy. */
  async #writeSynced(handle: number, bytes: Uint8Array, start: number): Promise<void> {
    let count: number;
    try {
      count = await this.#files.io.writeSynced(handle, bytes, start);
    } catch (error) {
      // Of other failures nobody knows whether it was the write or the sync.
      if (isNoRoom(error)) await this.#undo(error);
      else this.#fail(error);
      throw error;
    }
    if (count === bytes.length) return;
    // Half a line that is on disk alone could not be told from damage if a crash came before the other half.
    if (!(await this.#cutBack())) throw (this.#condition as { error: Error }).error;
    await this.#writeAndSync(bytes, { start, onTheSpot: false });
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

  async #undo(error: unknown): Promise<void> {
    if ((await this.#cutBack()) && isNoRoom(error)) this.#noteFailure(error);
  }

  /**
   * Takes back what a write may have left; returns whether it could. The shorter file is synced before its end is written
   * to again: else a power cut could mix the old bytes with new ones.
   */
  async #cutBack(): Promise<boolean> {
    const active = this.#files.active!;
    const { io } = this.#files;
    this.#headroom.forget();
    try {
      io.truncate(active.file.handle, active.size);
      await io.sync(active.file.handle);
      return true;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  #noteFailure(error: unknown): void {
    if (!isNoRoom(error)) {
      this.#fail(error);
      return;
    }
    this.#options.reserve.release();
    this.noteFull();
    this.#report(error);
  }

  /** Writes nothing more before the journal is rewritten. */
  #fail(cause: unknown): void {
    this.#condition = { kind: "failed", error: this.#explain(cause) };
    this.#lastHeal = Number.NEGATIVE_INFINITY;
    this.#scheduleHeal();
    this.#report(cause);
  }

  /** What people are told of a failure: that the folder is gone explains any other. */
  #explain(cause: unknown): Error {
    try {
      this.#files.confirm();
      return diskError(cause, this.#files.folder);
    } catch (error) {
      return diskError(error, this.#files.folder);
    }
  }

  /** Logs a failure once, until writing works again. */
  #report(cause: unknown): void {
    if (!this.#reported) this.#options.log.error(`Store: ${this.health().error}`, { cause: String(cause) });
    this.#reported = true;
  }

  /** Tries to get back to a sound state. Throws where that is not possible and nothing can be written. */
  async #heal(): Promise<void> {
    const condition = this.#condition;
    if (condition.kind === "sound") return;
    if (condition.kind === "failed") {
      const now = this.#options.timers.now();
      if (now - this.#lastHeal < HEAL / 4) {
        this.#scheduleHeal();
        throw condition.error;
      }
      this.#lastHeal = now;
      this.#headroom.forget();
      try {
        await this.#files.takeAgain();
        this.#files.confirmAll();
        await rewriteActive(this.#files, this.#last + 1);
      } catch (error) {
        if (isNoRoom(error)) this.#options.reserve.release();
        this.#condition = { kind: "failed", error: this.#explain(error) };
        this.#scheduleHeal();
        throw this.#condition.error;
      }
    }
    const hasRoom = await this.#options.reserve.hold({ again: true }).catch(() => false);
    if (!hasRoom) {
      this.noteFull();
      return;
    }
    this.#condition = { kind: "sound" };
    this.#cancelHeal?.();
    if (this.#reported) this.#options.log.info("Store: writing again");
    this.#reported = false;
  }

  #scheduleHeal(): void {
    this.#cancelHeal?.();
    if (this.#closed) return;
    this.#cancelHeal = this.#options.timers.after(HEAL, () => {
      void this.exclusive(() => this.#heal().catch(() => {}));
    });
  }

  /** Tells all who wait, and those of the batch that was being written. */
  #rejectAll(batch: Batch | undefined, error: Error): void {
    const waiting = [...(batch?.clear() ?? []), ...this.#filling.clear(), ...this.#rest];
    this.#rest = [];
    this.#underWay = 0;
    for (const { done } of waiting) done(error);
  }
}

function removesSomething(changes: readonly Change[]): boolean {
  return changes.some(({ kind }) => kind === "delete" || kind === "clear");
}
