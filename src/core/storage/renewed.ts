/** Milliseconds before their end at which credentials are renewed. */
const EARLY = 5 * 60_000;

export interface Expiring {
  readonly expires?: number | undefined;
}

/** Credentials that are obtained once, and again before they expire; calls that wait share one renewal. */
export class Renewed<T extends Expiring> {
  readonly #obtain: () => Promise<T>;
  readonly #now: () => Date;
  #kept: T | undefined;
  #obtaining: Promise<T> | undefined;

  /** What is given, or obtained by what is given, else what `find` finds. */
  constructor(given: T | (() => Promise<T>) | undefined, find: () => Promise<T>, now: () => Date) {
    this.#obtain = typeof given === "function" ? given : async () => given ?? find();
    this.#now = now;
  }

  async get(): Promise<T> {
    const kept = this.#kept;
    const left = (kept?.expires ?? Number.POSITIVE_INFINITY) - this.#now().getTime();
    if (kept !== undefined && left > EARLY) return kept;
    this.#obtaining ??= this.#obtain()
      .then((obtained) => {
        this.#kept = obtained;
        return obtained;
      })
      .finally(() => {
        this.#obtaining = undefined;
      });
    try {
      return await this.#obtaining;
    } catch (error) {
      // They are good for some minutes, in which the next attempt may succeed.
      if (kept !== undefined && left > 0) return kept;
      throw error;
    }
  }

  /** What was obtained is refused. */
  discard(): void {
    this.#kept = undefined;
  }
}
