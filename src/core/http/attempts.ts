/** Number of addresses to remember: bounds memory under a flood from many addresses. */
const REMEMBERED = 10_000;

/** Failures of an address since its window started. */
export interface Attempt {
  failed: number;
  /** Milliseconds since the epoch. */
  readonly until: number;
  nextLook: number;
}

/** Counts failures per address, in a time window that starts with the first. */
export class Attempts {
  readonly #clock: () => Date;
  readonly #window: number;
  readonly #byAddress = new Map<string, Attempt>();

  /** `window` in milliseconds. */
  constructor(clock: () => Date, window: number) {
    this.#clock = clock;
    this.#window = window;
  }

  find(address: string): Attempt | undefined {
    const attempt = this.#byAddress.get(address);
    const left = attempt ? attempt.until - this.#clock().getTime() : 0;
    // One that ends later than a window from now is of before the clock was set back.
    return left > 0 && left <= this.#window ? attempt : undefined;
  }

  /** Counts one more. */
  fail(address: string): Attempt {
    let attempt = this.find(address);
    if (!attempt) {
      makeRoom(this.#byAddress, address);
      attempt = { failed: 0, until: this.#clock().getTime() + this.#window, nextLook: 0 };
      this.#byAddress.set(address, attempt);
    }
    attempt.failed++;
    return attempt;
  }

  /** Seconds until a time, 1 at least. */
  secondsTo(time: number): number {
    return Math.max(1, Math.ceil((time - this.#clock().getTime()) / 1000));
  }
}

/** Forgets the oldest address if there is no room for another. */
export function makeRoom(known: Map<string, unknown> | Set<string>, address: string): void {
  if (known.size < REMEMBERED || known.has(address)) return;
  const oldest = known.keys().next().value;
  if (oldest !== undefined) known.delete(oldest);
}
