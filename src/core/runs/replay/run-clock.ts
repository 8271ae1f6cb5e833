import { messageOf } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import type { StartTimer, TimerPurpose } from "../../base/timer.ts";
import type { Limits } from "./limits.ts";
import type { RunEnd } from "./run-errors.ts";

/** What its clock needs of a run. */
interface TimedRun {
  readonly limits: Limits;
  readonly log: Logger;
  readonly parts: {
    /** Milliseconds that the handler may work. */
    readonly timeout: number | undefined;
    readonly startTimer: StartTimer;
    /** Milliseconds that the handler had worked before it left memory. @default 0 */
    readonly worked?: number | undefined;
  };
  /** Called when a limit of time is reached. */
  end(end: RunEnd): void;
}

/** The timers of a run: what was set for later, how long the job may take, and how long its handler may work. */
export class RunClock {
  readonly #run: TimedRun;
  readonly #timers = new Set<() => void>();
  #workedBefore: number;
  #workingSince: number | undefined;
  #stopTimeout: (() => void) | undefined;

  constructor(run: TimedRun) {
    this.#run = run;
    this.#workedBefore = run.parts.worked ?? 0;
  }

  /** Milliseconds that the handler has worked, while it only waits; nothing where that is not limited. */
  get worked(): number | undefined {
    return this.#run.parts.timeout === undefined ? undefined : this.#workedBefore;
  }

  start(): void {
    this.#watchDuration();
    this.resume();
  }

  /** Calls `fn` later, unless the run is over before; the result cancels it. */
  after(milliseconds: number, fn: () => void, purpose?: TimerPurpose): () => void {
    const end = (): void => {
      this.#timers.delete(stop);
      try {
        fn();
      } catch (error) {
        this.#run.log.error("a timer of the run failed", { error: messageOf(error) });
      }
    };
    const stop = this.#run.parts.startTimer(milliseconds, end, purpose);
    this.#timers.add(stop);
    return () => {
      this.#timers.delete(stop);
      stop();
    };
  }

  /** The handler works: that counts against its time limit. */
  resume(): void {
    const { timeout, startTimer } = this.#run.parts;
    if (timeout === undefined || this.#workingSince !== undefined) return;
    this.#workingSince = performance.now();
    const over = (): void => {
      const message = `The job has worked for ${timeout / 1000} s, the time limit of its method`;
      this.#run.end({ to: "failed", reason: "timeout", message });
    };
    this.#stopTimeout = startTimer(timeout - this.#workedBefore, over, "running");
  }

  /** The handler only waits: that does not count. */
  pause(): void {
    if (this.#workingSince === undefined) return;
    this.#stopTimeout?.();
    this.#workedBefore += performance.now() - this.#workingSince;
    this.#workingSince = undefined;
  }

  /** Cancels everything. */
  stop(): void {
    for (const stop of this.#timers) stop();
    this.#timers.clear();
    this.#stopTimeout?.();
  }

  #watchDuration(): void {
    const { limits } = this.#run;
    const left = limits.timeLeft();
    if (left === undefined) return;
    this.after(left, () => {
      const reached = limits.duration();
      // The clock may be behind the timer by a moment.
      return reached ? this.#run.end(reached) : this.#watchDuration();
    });
  }
}
