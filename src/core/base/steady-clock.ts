/**
 * The time of day as it would be if nobody had ever set the clock back: by it, a wait that began before that is no longer
 * than it was to be.
 */
export class SteadyClock {
  readonly #clock: () => Date;
  /** The latest time that it has shown, and when that was by a clock that nobody sets. */
  #latest = Number.NEGATIVE_INFINITY;
  #since = 0;

  constructor(clock: () => Date) {
    this.#clock = clock;
    this.now();
  }

  /** Milliseconds since 1970. */
  now(): number {
    const [time, passed] = [this.#clock().getTime(), performance.now()];
    const steady = this.#latest + passed - this.#since;
    if (time < steady) return steady;
    this.#latest = time;
    this.#since = passed;
    return time;
  }
}
