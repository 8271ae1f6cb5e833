import type { ServiceError } from "../../base/errors.ts";
import { isNoRoom } from "../../storage/file-io.ts";
import type { StoreHealth, StoreLogger } from "../store.ts";
import { diskError, fullError } from "./disk-errors.ts";
import type { FileSet } from "./file-set.ts";
import type { Reserve } from "./reserve.ts";
import type { Timers } from "./timers.ts";

/**
 * `sound`: writes work. `full`: there is no space; only commits that remove something are accepted, using the
 * reserve. `failed`: the content of the disk after the last sync is unknown; nothing is written before the
 * journal is rewritten.
 */
type Condition = { readonly kind: "sound" } | { readonly kind: "full" | "failed"; readonly error: Error };

/** Milliseconds between attempts to write again after a failure. */
const HEAL = 1000;
/**
 * Milliseconds between checks that the folder still belongs to this process; each group of commits checks as
 * well.
 */
const WATCH = 1000;

interface HealthParts {
  readonly files: FileSet;
  readonly reserve: Reserve;
  readonly timers: Timers;
  readonly log: StoreLogger;
  /** Runs `work` while nothing is written. */
  readonly exclusive: (work: () => Promise<void>) => Promise<void>;
  /** Writes the end of the journal again, from its known content. */
  readonly rewrite: () => Promise<void>;
  /** Called after an attempt to recover that found too little space. */
  readonly onStillFull: () => void;
}

/** The state of a store that cannot be written to. */
export function describeError(error: Error): StoreHealth {
  const { message, detail } = error as ServiceError;
  return { writable: false, error: detail === undefined ? message : `${message}. ${detail}` };
}

/** Whether a journal can be written to, and how it recovers. */
export class JournalHealth {
  readonly #parts: HealthParts;
  #condition: Condition = { kind: "sound" };
  #reported = false;
  #closed = false;
  #cancelHeal: (() => void) | undefined;
  #cancelWatch: (() => void) | undefined;
  #lastHeal = Number.NEGATIVE_INFINITY;

  constructor(parts: HealthParts) {
    this.#parts = parts;
    this.#watch();
  }

  get isSound(): boolean {
    return this.#condition.kind === "sound";
  }

  get isFull(): boolean {
    return this.#condition.kind === "full";
  }

  /** Whether the files on disk match those in memory, so that new ones may replace them. */
  get isWritable(): boolean {
    return this.#condition.kind !== "failed";
  }

  /** Why nothing, or not everything, is written. */
  get error(): Error {
    return (this.#condition as { error: Error }).error;
  }

  /** The state as shown to people. */
  describe(): StoreHealth {
    if (this.#condition.kind === "sound") return { writable: true };
    return describeError(this.#condition.error);
  }

  /** Assumes that the end of the active file cannot be trusted. */
  async distrust(reason: Error): Promise<void> {
    this.#condition = { kind: "failed", error: reason };
    await this.heal().catch((error) => this.#report(error));
  }

  /** Notes that there is no space, before a write fails. */
  noteFull(): void {
    this.#condition = { kind: "full", error: fullError(this.#parts.files.folder) };
    this.#scheduleHeal();
  }

  /** Notes that nothing could be written, and that the files are as they were. */
  noteFailure(error: unknown): void {
    if (!isNoRoom(error)) {
      this.fail(error);
      return;
    }
    this.#parts.reserve.release();
    this.noteFull();
    this.#report(error);
  }

  /** Writes nothing more before the journal is rewritten. */
  fail(cause: unknown): void {
    this.#condition = { kind: "failed", error: this.#explain(cause) };
    this.#lastHeal = Number.NEGATIVE_INFINITY;
    this.#scheduleHeal();
    this.#report(cause);
  }

  /** Throws if a write would go to files that no start will find, or that another owner writes to. */
  confirm(): void {
    try {
      this.#parts.files.confirm();
    } catch (error) {
      this.fail(error);
      throw error;
    }
  }

  /** Tries to return to a sound state. Throws if that is not possible and nothing can be written. */
  async heal(): Promise<void> {
    const condition = this.#condition;
    if (condition.kind === "sound") return;
    if (condition.kind === "failed") {
      const now = this.#parts.timers.now();
      if (now - this.#lastHeal < HEAL / 4) {
        this.#scheduleHeal();
        throw condition.error;
      }
      this.#lastHeal = now;
      try {
        await this.#parts.rewrite();
      } catch (error) {
        if (isNoRoom(error)) this.#parts.reserve.release();
        this.#condition = { kind: "failed", error: this.#explain(error) };
        this.#scheduleHeal();
        throw this.#condition.error;
      }
    }
    const hasRoom = await this.#parts.reserve.hold({ again: true }).catch(() => false);
    if (!hasRoom) {
      this.noteFull();
      this.#parts.onStillFull();
      return;
    }
    this.#condition = { kind: "sound" };
    this.#cancelHeal?.();
    if (this.#reported) this.#parts.log.info("Store: writing again");
    this.#reported = false;
  }

  close(): void {
    this.#closed = true;
    this.#cancelHeal?.();
    this.#cancelWatch?.();
  }

  #scheduleHeal(): void {
    this.#cancelHeal?.();
    if (this.#closed) return;
    this.#cancelHeal = this.#parts.timers.after(HEAL, () => {
      void this.#parts.exclusive(() => this.heal().catch(() => {}));
    });
  }

  /** Checks the folder even while nothing is written, so that health reports its loss. */
  #watch(): void {
    this.#cancelWatch = this.#parts.timers.after(WATCH, () => {
      if (this.#closed) return;
      if (this.isWritable) {
        try {
          this.#parts.files.confirmAll();
        } catch (error) {
          this.fail(error);
        }
      }
      this.#watch();
    });
  }

  /** A failure as shown to people: a missing folder explains any other. */
  #explain(cause: unknown): Error {
    try {
      this.#parts.files.confirm();
      return diskError(cause, this.#parts.files.folder);
    } catch (error) {
      return diskError(error, this.#parts.files.folder);
    }
  }

  /** Logs a failure once, until writing works again. */
  #report(cause: unknown): void {
    if (!this.#reported) this.#parts.log.error(`Store: ${this.describe().error}`, { cause: String(cause) });
    this.#reported = true;
  }
}
