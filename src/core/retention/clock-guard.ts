/** A clock that is ahead by more than this of what it was expected to show is not believed at once, milliseconds. */
export const JUMP = 24 * 3_600_000;
/** How long it must stay so until it is believed, milliseconds. */
export const HOLD = 10 * 60_000;

export interface ClockReading {
  /** The time, milliseconds since the epoch. */
  readonly time: number;
  /** Milliseconds by a clock that nobody sets. */
  readonly elapsed: number;
}

/**
 * Tells a clock that was set forward from one that went on: by a clock that nobody sets, and at the start by the newest
 * time that was stored. A clock set back needs no guard, as it makes nothing due.
 */
export class ClockGuard {
  #last: ClockReading;
  #since: number | undefined;

  /** `last` is the last time that was known to be right. */
  constructor(last: ClockReading) {
    this.#last = last;
  }

  /** Milliseconds that the clock is ahead by, while it is not believed; 0 once it is. */
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
