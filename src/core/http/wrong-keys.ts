import { Attempts, makeRoom } from "./attempts.ts";

/** Wrong keys that an address may send in one window before it is refused. */
const ALLOWED = 10;
/** Keys that are still checked from an address that has sent the right one: attackers may share its NAT. */
const ALLOWED_KNOWN = 100;
/**
 * Wrong keys of all addresses together in one window, before addresses that never sent the right one are
 * refused.
 */
const CEILING = 1000;
const WINDOW = 60_000;
/** Milliseconds between key checks for an address that has sent the right one and exceeds every limit. */
const PAUSE = 1000;
/**
 * Counts wrong keys, per address and in total. An address over a limit is refused without checking the key,
 * so that guessing does not pay off. An address that has sent the right key keeps working: its keys are
 * checked more often, at least once a second.
 */
export class WrongKeys {
  readonly #clock: () => Date;
  readonly #attempts: Attempts;
  /** All addresses as one. */
  readonly #together: Attempts;
  readonly #known = new Set<string>();

  constructor(clock: () => Date) {
    this.#clock = clock;
    this.#attempts = new Attempts(clock, WINDOW);
    this.#together = new Attempts(clock, WINDOW);
  }

  /** Seconds that the address has to wait; 0 if its key may be checked now. */
  wait(address: string): number {
    const own = this.#attempts.find(address);
    if (!this.#known.has(address)) {
      const all = this.#together.find("");
      if (all && all.failed >= CEILING) return this.#attempts.secondsTo(all.until);
      return own && own.failed >= ALLOWED ? this.#attempts.secondsTo(own.until) : 0;
    }
    if (!own || own.failed < ALLOWED_KNOWN) return 0;
    const now = this.#clock().getTime();
    if (own.nextLook > now) return this.#attempts.secondsTo(own.nextLook);
    own.nextLook = now + PAUSE;
    return 0;
  }

  /** Counts a wrong key; returns how long to wait, 0 while there are attempts left. */
  wrong(address: string): number {
    this.#together.fail("");
    const own = this.#attempts.fail(address);
    return own.failed > ALLOWED ? this.#attempts.secondsTo(own.until) : 0;
  }

  right(address: string): void {
    if (this.#known.has(address)) return;
    makeRoom(this.#known, address);
    this.#known.add(address);
  }
}
