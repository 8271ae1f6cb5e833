/** Wrong keys that an address may send in one window before it is refused. */
const ALLOWED = 10;
/** Keys that are looked at all the same where the right one has come from, too: those who guess may share its NAT. */
const ALLOWED_KNOWN = 100;
/** Wrong keys of all addresses together in one window, before addresses that never showed the right one are refused. */
const CEILING = 1000;
const WINDOW = 60_000;
/** Milliseconds between two looks at keys from an address that has shown the right one and is over every limit. */
const PAUSE = 1000;
/** Addresses remembered at once: bounds memory under a flood from many addresses. */
const REMEMBERED = 10_000;

interface Attempts {
  wrong: number;
  readonly until: number;
  nextLook: number;
}

/**
 * Counts wrong keys, per address and all together. Who is over a limit is refused without a look at the key, so that
 * guessing does not pay. Where the right key has come from as well, it goes on working: its address gets more looks, in
 * the end one a second.
 */
export class WrongKeys {
  readonly #clock: () => Date;
  readonly #attempts = new Map<string, Attempts>();
  readonly #known = new Set<string>();
  #all: Attempts | undefined;

  constructor(clock: () => Date) {
    this.#clock = clock;
  }

  /** Seconds that the address has to wait; 0 where its key may be looked at now. */
  wait(address: string): number {
    const own = this.#current(this.#attempts.get(address));
    if (!this.#known.has(address)) {
      const all = this.#current(this.#all);
      if (all && all.wrong >= CEILING) return this.#secondsTo(all.until);
      return own && own.wrong >= ALLOWED ? this.#secondsTo(own.until) : 0;
    }
    if (!own || own.wrong < ALLOWED_KNOWN) return 0;
    const now = this.#clock().getTime();
    if (own.nextLook > now) return this.#secondsTo(own.nextLook);
    own.nextLook = now + PAUSE;
    return 0;
  }

  /** Counts a wrong key; the result is how long to wait, 0 while there are tries left. */
  wrong(address: string): number {
    let own = this.#current(this.#attempts.get(address));
    if (!own) {
      keep(this.#attempts, address);
      own = this.#begin();
      this.#attempts.set(address, own);
    }
    this.#all = this.#current(this.#all) ?? this.#begin();
    this.#all.wrong++;
    own.wrong++;
    return own.wrong > ALLOWED ? this.#secondsTo(own.until) : 0;
  }

  right(address: string): void {
    if (this.#known.has(address)) return;
    keep(this.#known, address);
    this.#known.add(address);
  }

  #begin(): Attempts {
    return { wrong: 0, until: this.#clock().getTime() + WINDOW, nextLook: 0 };
  }

  #current(attempts: Attempts | undefined): Attempts | undefined {
    return attempts && attempts.until > this.#clock().getTime() ? attempts : undefined;
  }

  #secondsTo(time: number): number {
    return Math.max(1, Math.ceil((time - this.#clock().getTime()) / 1000));
  }
}

/** Makes room for one more: the entry that came first goes. */
function keep(known: Map<string, unknown> | Set<string>, address: string): void {
  if (known.size < REMEMBERED || known.has(address)) return;
  const oldest = known.keys().next().value;
  if (oldest !== undefined) known.delete(oldest);
}
