import { messageOf } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import { isRefusal, type Ledger, type Unit } from "../../entities/ledger.ts";
import { FencedError, type TransactionOptions } from "../../store/store.ts";
import { whenWritable } from "../queue/when-writable.ts";
import { Changes } from "./changes.ts";
import { type RunEnd, SUPERSEDED } from "./run-errors.ts";
import type { RunLife } from "./run-life.ts";
import type { RunRecord } from "./run-record.ts";

/** What its ledger needs of a run. */
interface WritingRun {
  readonly jobId: string;
  readonly life: RunLife;
  readonly record: RunRecord;
  readonly gate: { readonly isBehindRecord: boolean };
  readonly activity: { beginWrite(): void; endWrite(): void };
  readonly log: Logger;
  readonly parts: { readonly epoch: number; readonly ledger: Ledger };
  abandon(end: RunEnd): void;
  end(end: RunEnd): void;
}

/** What a unit gives that was held up. */
const NOTHING = Promise.resolve(undefined as never);

/** Reads and stores for a run: waits while the store cannot, and stores nothing once another run has the job. */
export class RunLedger {
  readonly #run: WritingRun;
  /** The store refuses what an earlier run still writes. */
  readonly #fenced: TransactionOptions;
  /** Answers of `job.changed`; absent where the handler asks for none. */
  #changes: Changes | undefined;

  constructor(run: WritingRun) {
    this.#run = run;
    this.#fenced = { fence: { job: run.jobId, epoch: run.parts.epoch } };
  }

  get changes(): Changes {
    this.#changes ??= new Changes(this.#run);
    return this.#changes;
  }

  /**
   * Stores something of this run, unless its end is about to be stored. While the store cannot write, it waits: the next
   * attempt may succeed. The store may run `work` again: see `Ledger.write`.
   */
  write<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    const { life } = this.#run;
    return life.isSealed ? Promise.reject(life.error) : this.store(work);
  }

  /** The same for the run's end. */
  async store<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    const { life, parts, activity } = this.#run;
    let fence: Promise<void> | undefined;
    let changesStored: (() => void) | undefined;
    const guarded = (unit: Unit): Promise<T> => {
      // Once the run has left memory, it is never lifted.
      fence = life.fence;
      if (fence) return NOTHING;
      if (life.isOver) throw life.error;
      return changesStored ? this.changes.record(unit).then(() => work(unit)) : work(unit);
    };
    activity.beginWrite();
    try {
      if (this.#changes?.areStored === false) changesStored = await this.#changes.claim();
      for (;;) {
        const value = await whenWritable(
          () => parts.ledger.write(guarded, this.#fenced),
          ({ message }) => {
            if (life.state === "over") throw life.error;
            this.#run.log.warn("the store cannot write; the run waits", { error: message });
          },
        );
        if (!fence) return value;
        await fence;
      }
    } catch (error) {
      if (error instanceof FencedError) await this.#superseded();
      // What a plugin refuses is not recorded: a handler that continued after it could not be replayed.
      if (isRefusal(error) && !life.isSealed) this.#run.end(refused(error));
      throw error;
    } finally {
      changesStored?.();
      activity.endWrite();
    }
  }

  /** Stores something of this run now, whatever its state is. */
  writeFenced<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    return this.#run.parts.ledger.write(work, this.#fenced);
  }

  /** Reads something for a call. While the store does not answer, it waits: the next attempt may succeed. */
  read<T>(work: () => Promise<T>): Promise<T> {
    return this.#persist(work, "the store cannot be read; the run waits");
  }

  /** Stores something that nothing names yet, in the same way. */
  prepare<T>(work: () => Promise<T>): Promise<T> {
    return this.#persist(work, "the store cannot write; the run waits");
  }

  #persist<T>(work: () => Promise<T>, failure: string): Promise<T> {
    const { life } = this.#run;
    return whenWritable(work, ({ message }) => {
      if (life.isOver) throw life.error;
      this.#run.log.warn(failure, { error: message });
    });
  }

  /** Stores inside a unit what `job.changed` has answered, where that is not stored. */
  async recordChanges(unit: Unit): Promise<void> {
    if (this.#changes?.areStored === false) await this.#changes.record(unit);
  }

  /** Forgets the answers of `job.changed` that are not stored. */
  forgetChanges(): void {
    this.#changes?.forget();
  }

  /** The job has another run, or is gone: this one ends without a trace. */
  async #superseded(): Promise<never> {
    const { life } = this.#run;
    // Where it was taken in this process, that says why.
    await life.fence;
    if (!life.isOver) this.#run.log.info("the run has ended: another one has the job");
    this.#run.abandon(SUPERSEDED);
    throw life.error;
  }
}

/** How a run ends whose change was refused, or whose handler failed. */
export function refused(error: unknown): RunEnd {
  return { to: "failed", reason: "error", message: messageOf(error) };
}
