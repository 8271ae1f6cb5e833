import type { Logger } from "../../base/log.ts";
import { suspendJob } from "../../entities/change-job.ts";
import type { Unit } from "../../entities/ledger.ts";
import { isIn } from "../../models/job-state.ts";
import { FencedError } from "../../store/store.ts";
import type { Limits } from "./limits.ts";
import type { RunClock } from "./run-clock.ts";
import { type RunEnd, SUPERSEDED } from "./run-errors.ts";
import type { RunLedger } from "./run-ledger.ts";
import type { RunLife } from "./run-life.ts";
import { leftOf, WAITS_FOR, type Wait } from "./wait.ts";

/** Milliseconds after which a run that could not leave memory tries again at the earliest. */
const AGAIN = 20;

/** What a suspension needs of the run. */
interface WaitingRun {
  readonly jobId: string;
  readonly life: RunLife;
  readonly limits: Limits;
  readonly clock: RunClock;
  readonly ledger: RunLedger;
  readonly activity: {
    readonly onlyWaits: boolean;
    readonly allWait: boolean;
    readonly waits: ReadonlySet<Wait>;
    beginWrite(): void;
    endWrite(): void;
  };
  readonly log: Logger;
  readonly parts: { readonly epoch: number; readonly clock: () => Date };
  abandon(end: RunEnd): void;
  /** The run is suspended: its handler is forgotten. */
  left(): void;
}

/** How a run leaves memory. */
export interface SuspensionTimes {
  /** Milliseconds that the run only waits before it leaves memory; it must have to wait that long again. */
  readonly after: number;
  /** Calls `Suspension.leave` while nobody else changes the job. */
  readonly suspend: () => Promise<unknown>;
}

/** Has a run leave memory once it has only waited for some time, and will do so for some time more. */
export class Suspension {
  readonly #run: WaitingRun;
  readonly #times: SuspensionTimes;
  #disarm: (() => void) | undefined;
  #isOver = false;

  constructor(run: WaitingRun, times: SuspensionTimes) {
    this.#run = run;
    this.#times = times;
  }

  /** The run only waits. */
  rested(): void {
    const { after } = this.#times;
    // Where a wait ends sooner, the run rests again after it.
    if (!this.#disarm && !this.#isOver && this.#timeLeft() > after) this.#arm(after);
  }

  /** The run works. */
  resumed(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }

  /** The run is over, or has left memory. */
  stop(): void {
    this.#isOver = true;
    this.resumed();
  }

  /**
   * Leaves memory, if the run still only waits: stores that the job is suspended, calls `onGone` as soon as it is, and
   * forgets the handler, which does not notice. Nothing else of the run is stored meanwhile.
   */
  async leave(onGone: () => void): Promise<void> {
    if (!this.#isDue) return;
    const { life, activity, ledger } = this.#run;
    const lift = life.raiseFence();
    activity.beginWrite();
    try {
      await ledger.writeFenced(async (unit) => {
        if (!(await this.#store(unit))) return;
        unit.afterwards(() => {
          if (life.may("suspend")) life.move("suspend");
          onGone();
          this.#run.left();
        });
      });
    } catch (error) {
      if (error instanceof FencedError) this.#run.abandon(SUPERSEDED);
      this.#run.log.warn("the job stays in memory: it could not be stored that it is suspended", { error });
    } finally {
      activity.endWrite();
      // The handler of a suspended run waits for the fence forever.
      if (life.state !== "suspended") lift();
    }
  }

  /** Whether the run is to leave memory now. */
  get #isDue(): boolean {
    return this.#run.activity.onlyWaits && this.#timeLeft() > this.#times.after;
  }

  #arm(milliseconds: number): void {
    this.#disarm = this.#run.clock.after(milliseconds, () => void this.#try(), "running");
  }

  async #try(): Promise<void> {
    if (this.#isDue) await this.#times.suspend();
    // It is in memory still, unless its timers are stopped: what it waits for may end soon, or another part of it works.
    if (this.#disarm) this.#arm(Math.max(this.#times.after, AGAIN));
  }

  /** Milliseconds until a wait is over, or the job has taken as long as it may. */
  #timeLeft(): number {
    return this.#nextEnd()?.left ?? Number.POSITIVE_INFINITY;
  }

  /** When the run has something to do by itself. */
  #nextEnd(): { readonly left: number; readonly at: number } | undefined {
    const { parts, activity, limits } = this.#run;
    const now = parts.clock().getTime();
    let next: { readonly left: number; readonly at: number } | undefined;
    const consider = (left: number | undefined, at: number | undefined): void => {
      if (left !== undefined && (!next || left < next.left)) next = { left, at: at ?? now + left };
    };
    for (const wait of activity.waits) consider(leftOf(wait, now), wait.end?.at);
    consider(limits.timeLeft(), undefined);
    return next;
  }

  /** Resolves with whether it stores the suspension: not if something has come that the run does not know of yet. */
  async #store(unit: Unit): Promise<boolean> {
    const { jobId, life, parts, activity, ledger, clock, limits } = this.#run;
    const job = await unit.tx.get("Job", jobId);
    if (life.isSealed || !job || !isIn(job, "running", "waiting", "suspended")) return false;
    if (job.run_count !== parts.epoch) return false;
    for (const { isOpen } of activity.waits) if (isOpen && !(await isOpen(unit))) return false;
    // A wait may have ended since the suspension was due.
    if (!activity.allWait) return false;
    await ledger.recordChanges(unit);
    const next = this.#nextEnd();
    const wake = next && parts.clock().getTime() + next.left;
    const wake_at = wake === undefined ? null : new Date(wake).toISOString();
    // The clock was set back since the wait began.
    const reached = next && next.at - wake! > 1000 ? new Date(next.at).toISOString() : undefined;
    const { worked } = clock;
    const waits_for = WAITS_FOR.find((what) => [...activity.waits].some((wait) => wait.for === what));
    await suspendJob(
      unit,
      jobId,
      {
        wake_at,
        waits_for,
        ...(reached !== undefined && { reached }),
        ...(worked !== undefined && { worked }),
      },
      limits.spent,
    );
    return true;
  }
}
