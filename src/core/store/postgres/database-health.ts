import type { ServiceError } from "../../base/errors.ts";
import type { StoreHealth, StoreLogger } from "../store.ts";
import { explain, isRefusal, isTransient } from "./connection.ts";

/** Milliseconds after which a write that was not answered shows: somebody has locked a table, or a disk hangs. */
const SLOW = 4000;
/** Milliseconds between two looks whether the database answers, or accepts writes, again. */
const PROBE = 500;

interface HealthParts {
  readonly log: StoreLogger;
  /** Resolves once the database answers. */
  readonly read: () => Promise<unknown>;
}

/** Whether a database answers, and accepts what is written; it looks by itself for the end of a failure. */
export class DatabaseHealth {
  readonly #parts: HealthParts;
  #outage: unknown;
  #refusal: { readonly error: unknown; readonly rehearse: () => Promise<void> } | undefined;
  #undecided: unknown;
  /** When the write that is under way began, by the monotonic clock. */
  #writingSince: number | undefined;
  #isSlow = false;
  #slow: NodeJS.Timeout | undefined;
  #probe: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(parts: HealthParts) {
    this.#parts = parts;
  }

  /** Why nothing reaches the database: nobody waits for a time limit then. */
  get outage(): ServiceError | undefined {
    return this.#outage === undefined ? undefined : explain(this.#outage);
  }

  /** Why no write is sent: the same, or that the database refuses to say what became of an earlier one. */
  get obstacle(): ServiceError | undefined {
    return this.outage ?? (this.#undecided === undefined ? undefined : explain(this.#undecided));
  }

  describe(): StoreHealth {
    const error = this.#outage ?? this.#undecided ?? this.#refusal?.error;
    if (error === undefined) return this.#isSlow ? this.#describeSlow() : { writable: true };
    const { message, detail } = explain(error);
    return { writable: false, error: `${message}. ${detail}` };
  }

  #describeSlow(): StoreHealth {
    const seconds = Math.round((performance.now() - this.#writingSince!) / 1000);
    return {
      writable: false,
      error: `The database has not answered a write for ${seconds} s. See which session holds locks or fills its disk (pg_stat_activity): writes continue by themselves.`,
    };
  }

  /** Notes that a write was sent, until `wrote`. */
  writes(): void {
    this.#writingSince = performance.now();
    this.#slow = setTimeout(() => {
      this.#isSlow = true;
      this.#parts.log.error("the database has not answered a write", { seconds: SLOW / 1000 });
    }, SLOW).unref();
  }

  /** Notes that it is known what became of a write. */
  wrote(): void {
    clearTimeout(this.#slow);
    this.#writingSince = undefined;
    if (!this.#isSlow) return;
    this.#isSlow = false;
    this.#parts.log.info("the database answers writes again");
  }

  /** Notes that the database does not answer. */
  goDown(error: unknown): void {
    if (this.#outage === undefined)
      this.#parts.log.error("the database does not answer", { reason: explain(error).message });
    this.#outage = error;
    this.#look();
  }

  answered(): void {
    if (this.#outage === undefined) return;
    this.#outage = undefined;
    this.#parts.log.info("the database answers again");
  }

  /**
   * Notes that the database refused a write, whatever is in it. It holds until `rehearse`, which rejects while the same
   * write would be refused: other writes may succeed meanwhile, to other tables or into pages that have room. They are
   * sent, as each is refused or stored by itself.
   */
  refused(error: unknown, rehearse: () => Promise<void>): void {
    this.#report(error);
    this.#refusal = { error, rehearse };
    this.#look();
  }

  /** Notes that the database refuses to say what became of a write, until `decided`. */
  undecided(error: unknown): void {
    this.#report(error);
    this.#undecided = error;
  }

  decided(): void {
    this.answered();
    if (this.#undecided === undefined) return;
    this.#undecided = undefined;
    this.#reportEnd();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#probe);
    clearTimeout(this.#slow);
  }

  #look(): void {
    if (this.#probe !== undefined || this.#isClosed) return;
    this.#probe = setTimeout(() => {
      this.#probe = undefined;
      void this.#try();
    }, PROBE).unref();
  }

  async #try(): Promise<void> {
    const refusal = this.#refusal;
    try {
      if (this.#outage !== undefined) await this.#parts.read();
      else await refusal?.rehearse();
    } catch (error) {
      if (!isRefusal(error)) return this.goDown(error);
      // The last thing that it said, for people.
      if (this.#outage === undefined && refusal === this.#refusal && !isTransient(error))
        this.#refusal = refusal && { ...refusal, error };
      return this.#look();
    }
    if (this.#outage !== undefined) this.answered();
    else if (refusal !== undefined && this.#refusal === refusal) {
      this.#refusal = undefined;
      this.#reportEnd();
    }
    if (this.#refusal !== undefined) this.#look();
  }

  #report(error: unknown): void {
    if (this.#refusal !== undefined || this.#undecided !== undefined) return;
    this.#parts.log.error("the database refuses writes", { reason: explain(error).message });
  }

  #reportEnd(): void {
    if (this.#refusal !== undefined || this.#undecided !== undefined) return;
    this.#parts.log.info("the database accepts writes again");
  }
}
