import { isNoRoom, writeFully } from "../../storage/file-io.ts";
import type { FileSet } from "./file-set.ts";
import { HEADROOM_IDLE, Headroom, type HeadroomOptions } from "./headroom.ts";
import type { JournalHealth } from "./journal-health.ts";
import type { Segment } from "./segment.ts";
import type { Timers } from "./timers.ts";

interface EndParts {
  readonly files: FileSet;
  readonly health: JournalHealth;
  readonly timers: Timers;
  readonly headroom: HeadroomOptions;
  /** Runs `work` while nothing is written. */
  readonly exclusive: (work: () => Promise<void>) => Promise<void>;
}

/**
 * Writes to the end of the active file: the bytes, their sync, and the zeros after them. Undoes failed
 * writes.
 */
export class JournalEnd {
  readonly #files: FileSet;
  readonly #health: JournalHealth;
  readonly #parts: EndParts;
  readonly #headroom: Headroom;
  #cancelCheck: (() => void) | undefined;
  #closed = false;

  constructor(parts: EndParts) {
    this.#parts = parts;
    this.#files = parts.files;
    this.#health = parts.health;
    this.#headroom = new Headroom(parts.files.io, parts.headroom);
  }

  /** Whether there should be more zeros before a write of so many bytes. */
  isShort(active: Segment, bytes: number, now: number): boolean {
    return this.#headroom.isShort(active, bytes, now);
  }

  /** Writes zeros behind the end. */
  async makeHeadroom(): Promise<void> {
    try {
      await this.#headroom.make(this.#files.active!);
    } catch (error) {
      this.#health.fail(error);
      throw error;
    }
    if (this.#headroom.isThere && this.#cancelCheck === undefined) this.#scheduleCheck();
  }

  /** Removes the zeros. */
  dropHeadroom(): void {
    if (this.#files.active !== undefined) this.#headroom.drop(this.#files.active);
  }

  /** Assumes that there are none. */
  forgetHeadroom(): void {
    this.#headroom.forget();
  }

  close(): void {
    this.#closed = true;
    this.#cancelCheck?.();
  }

  /** Resolves once the bytes are on disk at `start`, the end of the active file. */
  write(bytes: Uint8Array, { start, onTheSpot }: { start: number; onTheSpot: boolean }): Promise<void> {
    const active = this.#files.active!;
    const synced = onTheSpot ? undefined : active.file.syncedHandle(`${this.#files.folder}/${active.name}`);
    if (synced !== undefined) return this.#writeSynced(synced, bytes, start);
    return this.#writeAndSync(bytes, { start, onTheSpot });
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
      this.#health.fail(error);
      throw error;
    }
  }

  /** Writes and syncs in one call to another thread, so that this one is free for staging commits. */
  async #writeSynced(handle: number, bytes: Uint8Array, start: number): Promise<void> {
    let count: number;
    try {
      count = await this.#files.io.writeSynced(handle, bytes, start);
    } catch (error) {
      // For other failures it is unknown whether the write or the sync failed.
      if (isNoRoom(error)) await this.#undo(error);
      else this.#health.fail(error);
      throw error;
    }
    if (count === bytes.length) return;
    // If only half of a line were on disk at a crash, it could not be distinguished from damage.
    if (!(await this.#cutBack())) throw this.#health.error;
    await this.#writeAndSync(bytes, { start, onTheSpot: false });
  }

  async #undo(error: unknown): Promise<void> {
    if (await this.#cutBack()) this.#health.noteFailure(error);
  }

  /**
   * Removes what a failed write may have left; returns whether it could. The shorter file is synced before
   * its end is written to again: else a power cut could mix the old bytes with new ones.
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
      this.#health.fail(error);
      return false;
    }
  }

  /** Removes the zeros after a while without writes, so that the file has only lines. */
  #scheduleCheck(): void {
    const { timers, exclusive } = this.#parts;
    this.#cancelCheck = timers.after(HEADROOM_IDLE, () => {
      this.#cancelCheck = undefined;
      if (this.#closed || !this.#headroom.isThere) return;
      if (!this.#headroom.isIdle(timers.now())) this.#scheduleCheck();
      else void exclusive(async () => this.#dropIdle());
    });
  }

  #dropIdle(): void {
    if (!this.#health.isWritable || this.#closed) return;
    try {
      this.dropHeadroom();
    } catch (error) {
      this.#health.fail(error);
    }
  }
}
