import { type StartTimer, startTimer } from "./timer.ts";

/** Milliseconds between two comparisons of the clocks: no wait ends later than that after its time. */
const CHECK = 2000;
/** Milliseconds by which the time of day may run ahead of the monotonic clock before waits are shortened by it. */
const TOLERANCE = 100;

interface Wait {
  /** When it is over by the time of day, and by the monotonic clock. */
  readonly at: number;
  due: number;
  stop: () => void;
  readonly end: () => void;
}

/**
 * Timers of waits, which end when as much time has passed, or when the clock shows the time at which they were to end,
 * whichever is first: a monotonic clock does not count the time for which a machine was suspended, and a timer does not
 * notice that the clock is set forward. A clock that is set back makes no wait longer.
 */
export class WallTimers {
  readonly #clock: () => Date;
  readonly #waits = new Set<Wait>();
  /** The time of day minus the monotonic clock, at its lowest since waits were shortened last. */
  #offset = Number.POSITIVE_INFINITY;
  /** One for all waits, and none where nothing waits for long. */
  #checking: NodeJS.Timeout | undefined;

  constructor(clock: () => Date) {
    this.#clock = clock;
  }

  readonly start: StartTimer = (milliseconds, fn, purpose) => {
    if (purpose === "running" || milliseconds <= CHECK) return startTimer(milliseconds, fn);
    const [time, passed] = [this.#clock().getTime(), performance.now()];
    this.#offset = Math.min(this.#offset, time - passed);
    const end = (): void => {
      this.#waits.delete(wait);
      fn();
    };
    const stop = startTimer(milliseconds, end);
    const wait: Wait = { at: time + milliseconds, due: passed + milliseconds, stop, end };
    this.#waits.add(wait);
    this.#checking ??= setInterval(() => this.#check(), CHECK).unref();
    return () => {
      this.#waits.delete(wait);
      wait.stop();
    };
  };

  /** Shortens the waits where the time of day has run ahead. */
  #check(): void {
    if (this.#waits.size === 0) {
      clearInterval(this.#checking);
      this.#checking = undefined;
      this.#offset = Number.POSITIVE_INFINITY;
      return;
    }
    const [time, passed] = [this.#clock().getTime(), performance.now()];
    const offset = time - passed;
    if (offset <= this.#offset + TOLERANCE) {
      this.#offset = Math.min(this.#offset, offset);
      return;
    }
    this.#offset = offset;
    for (const wait of this.#waits) {
      const due = passed + Math.max(wait.at - time, 0);
      if (due >= wait.due) continue;
      wait.stop();
      wait.due = due;
      wait.stop = startTimer(due - passed, wait.end);
    }
  }
}
