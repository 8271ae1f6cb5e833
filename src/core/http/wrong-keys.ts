/** Wrong keys that an address may send in one window before it is refused. */
const ALLOWED = 10;
const WINDOW = 60_000;
/** Addresses remembered at once: bounds memory under a flood from many addresses. */
const REMEMBERED = 10_000;

interface Attempts {
  wrong: number;
  until: number;
}

/**
 * Counts wrong keys per address. An address over the limit is refused without a look at its key, so that
 * guessing does not pay; one that has shown the right key is not locked out by others behind the same proxy.
 */
export class WrongKeys {
  readonly #clock: () => Date;
  readonly #attempts = new Map<string, Attempts>();
  readonly #trusted = new Set<string>();

  constructor(clock: () => Date) {
    this.#clock = clock;
  }

  /** Seconds that the address has to wait; 0 where it may try. */
  wait(address: string): number {
    if (this.#attempts.size === 0 || this.#trusted.has(address)) return 0;
    const left = this.#left(address);
    return left && left.wrong >= ALLOWED ? this.#seconds(left) : 0;
  }

  /** Counts a wrong key; the result is how long to wait, 0 while there are tries left. */
  wrong(address: string): number {
    let attempts = this.#left(address);
    if (!attempts) {
      attempts = { wrong: 0, until: this.#clock().getTime() + WINDOW };
      keep(this.#attempts, address);
      this.#attempts.set(address, attempts);
    }
    attempts.wrong++;
    return attempts.wrong > ALLOWED ? this.#seconds(attempts) : 0;
  }

  right(address: string): void {
    if (this.#trusted.has(address)) return;
    keep(this.#trusted, address);
    this.#trusted.add(address);
  }

  #left(address: string): Attempts | undefined {
    const attempts = this.#attempts.get(address);
    if (!attempts || attempts.until > this.#clock().getTime()) return attempts;
    this.#attempts.delete(address);
    return undefined;
  }

  #seconds(attempts: Attempts): number {
    return Math.max(1, Math.ceil((attempts.until - this.#clock().getTime()) / 1000));
  }
}

/** Makes room for one more: the entry that came first goes. */
function keep(known: Map<string, unknown> | Set<string>, address: string): void {
  if (known.size < REMEMBERED || known.has(address)) return;
  const oldest = known.keys().next().value;
  if (oldest !== undefined) known.delete(oldest);
}
