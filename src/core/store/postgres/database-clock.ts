/** The part of the time that has passed by which the clocks of two machines may differ from each other then. */
const DRIFT = 1e-4;

/**
 * The time of the database, known without asking: each time that it has given, laid over the monotonic clock. What was
 * answered quickly is known better than what was answered slowly, and stays until drift has made it worse.
 */
export class DatabaseClock {
  /** Milliseconds by which the database's clock is ahead of the monotonic one, and by which that may be wrong. */
  #ahead: number | undefined;
  #error = 0;
  #notedAt = 0;

  /** Takes a time that was asked for and answered at these times of the monotonic clock. */
  note(time: number, { asked, answered }: { readonly asked: number; readonly answered: number }): void {
    const error = (answered - asked) / 2;
    const ahead = time - (asked + answered) / 2;
    const known = this.#error + (answered - this.#notedAt) * DRIFT;
    // Where both cannot be right, one of the clocks was set, or this machine was suspended.
    const fits = this.#ahead !== undefined && Math.abs(ahead - this.#ahead) <= error + known;
    if (fits && error > known) return;
    this.#ahead = ahead;
    this.#error = error;
    this.#notedAt = answered;
  }

  /** Milliseconds since the epoch; the time of this machine until a time was noted. */
  now(): number {
    return this.#ahead === undefined ? Date.now() : performance.now() + this.#ahead;
  }
}
