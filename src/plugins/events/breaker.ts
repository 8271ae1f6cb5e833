export interface BreakerOptions {
  /** Failures in a row after which it opens. */
  readonly threshold: number;
  /** First pause, milliseconds; doubled at each failed probe. */
  readonly initial: number;
  /** Longest pause, milliseconds. */
  readonly max: number;
  readonly random: () => number;
}

/**
 * Circuit breaker for a receiver that does not respond: after some failures nothing is sent for a while, then
 * one probe.
 */
export class Breaker {
  readonly #options: BreakerOptions;
  #failures = 0;
  #pauses = 0;
  #pausedUntil: number | undefined;
  #probing = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get failures(): number {
    return this.#failures;
  }

  get pausedUntil(): number | undefined {
    return this.#pausedUntil;
  }

  /** Whether a delivery may start now; if so, report its outcome. */
  enter(now: number): boolean {
    if (this.#pausedUntil === undefined) return true;
    if (now < this.#pausedUntil || this.#probing) return false;
    this.#probing = true;
    return true;
  }

  /** While it pauses, only a successful probe ends the pause: a receiver that asked for time gets it. */
  succeed(): void {
    this.#failures = 0;
    if (this.#pausedUntil !== undefined && !this.#probing) return;
    this.#pauses = 0;
    this.#pausedUntil = undefined;
    this.#probing = false;
  }

  /** `retryAfter` is a pause that the receiver asked for, milliseconds. */
  fail(now: number, retryAfter?: number): void {
    this.#failures++;
    const probed = this.#probing;
    this.#probing = false;
    if (retryAfter !== undefined) {
      this.#pausedUntil = Math.max(this.#pausedUntil ?? 0, now + retryAfter);
      return;
    }
    if (this.#pausedUntil !== undefined && !probed) return;
    if (!probed && this.#failures < this.#options.threshold) return;
    this.#pausedUntil = now + backoff(this.#pauses++, this.#options);
  }
}

/** Exponential, with jitter in the upper half, so that many waiters do not retry together. */
export function backoff(
  attempt: number,
  options: { readonly initial: number; readonly max: number; readonly random: () => number },
): number {
  const full = Math.min(options.max, options.initial * 2 ** Math.min(attempt, 30));
  return full / 2 + (full / 2) * options.random();
}
