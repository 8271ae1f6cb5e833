import { delays } from "../../core/base/backoff.ts";

export interface BreakerOptions {
  /** Failures in a row after which it opens. */
  readonly failures: number;
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
  /** When the pause is over by a clock that nobody sets, where the time of day is set back meanwhile. */
  #pauseEnds = 0;
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

  /** Milliseconds that are left of the pause. */
  left(now: number): number {
    if (this.#pausedUntil === undefined) return 0;
    return Math.max(0, Math.min(this.#pausedUntil - now, this.#pauseEnds - performance.now()));
  }

  /** Whether a delivery may start now; if so, report its outcome. */
  enter(now: number): boolean {
    if (this.#pausedUntil === undefined) return true;
    if (this.left(now) > 0 || this.#probing) return false;
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
      this.#pause(now, Math.max(this.left(now), retryAfter));
      return;
    }
    if (this.#pausedUntil !== undefined && !probed) return;
    if (!probed && this.#failures < this.#options.failures) return;
    this.#pause(now, backoff(this.#options)(this.#pauses++, this.#options.random));
  }

  #pause(now: number, milliseconds: number): void {
    this.#pausedUntil = now + milliseconds;
    this.#pauseEnds = performance.now() + milliseconds;
  }
}

/** The pauses of waiters of which many may wait for the same receiver. */
export function backoff({ initial, max }: { readonly initial: number; readonly max: number }) {
  return delays({ first: initial, most: max, jitter: 0.5 });
}
