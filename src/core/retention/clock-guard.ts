/** A clock that is ahead of the expected time by more than this is not trusted immediately, milliseconds. */
export const JUMP = 24 * 3_600_000;
/** How long it must stay so until it is trusted, milliseconds. */
export const HOLD = 10 * 60_000;

export interface ClockReading {
  /** The time, milliseconds since the epoch. */
  readonly time: number;
  /** Milliseconds of a monotonic clock. */
  readonly elapsed: number;
}

/**
 * Distinguishes a clock that was set forward from one that advanced normally: with a monotonic clock, and at
 * the start with the latest stored time. A clock set back needs no guard, since it makes nothing due.
 */
export class ClockGuard {
  #last: ClockReading;
  #since: number | undefined;

  /** `last` is the last time that was known to be correct. */
  constructor(last: ClockReading) {
    this.#last = last;
  }

  /** Milliseconds that the clock is ahead, while it is not trusted; 0 once it is. */
  ahead(now: ClockReading): number {
    const ahead = now.time - (this.#last.time + now.elapsed - this.#last.elapsed);
    if (ahead > JUMP) {
      this.#since ??= now.elapsed;
      if (now.elapsed - this.#since < HOLD) return ahead;
    }
    this.#since = undefined;
    this.#last = now;
    return 0;
  }
}
