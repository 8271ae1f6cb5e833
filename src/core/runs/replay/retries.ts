import { NonRetryableError, RetryAfterError } from "../../agents/retry-errors.ts";
import type { StepOptions } from "../../agents/run-context.ts";
import { delays } from "../../base/backoff.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { messageOf } from "../../base/error-text.ts";
import type { Tries } from "./call.ts";

/** A result that cannot be recorded: trying again would not help. */
export class UnrecordableError extends TypeError {
  override readonly name = "UnrecordableError";
}

/** A hundred years, in milliseconds: what is longer leaves the range of dates. */
const LONGEST = 100 * 365 * 86_400_000;

/** The tries that a step has left, and the pauses before them. */
export class Retries {
  readonly #options: StepOptions;
  readonly #pauseAfter: (failures: number) => number;
  #failed: number;

  /** After `failed` tries. */
  constructor(options: StepOptions, failed: number) {
    const { initial = 1, max = 60, factor = 2 } = options.backoff ?? {};
    this.#options = options;
    this.#failed = failed;
    this.#pauseAfter = delays({ first: toMilliseconds(initial), most: toMilliseconds(max), factor });
  }

  /** Milliseconds to wait before the next try; nothing where there is none. Throws where `retryIf` does. */
  after(error: unknown, now: Date): number | undefined {
    if (this.#failed >= (this.#options.retries ?? 0) || isFinal(error) || !this.#mayRetry(error))
      return undefined;
    const pause = this.#pauseAfter(this.#failed++);
    return Math.min(askedPause(error, now) ?? pause, LONGEST);
  }

  #mayRetry(error: unknown): boolean {
    const { retryIf } = this.#options;
    if (!retryIf) return true;
    let answer: unknown;
    try {
      answer = retryIf(error);
    } catch (failure) {
      throw new TypeError(`retryIf failed: ${messageOf(failure)}`, { cause: error });
    }
    if (typeof answer === "boolean") return answer;
    throw new TypeError("retryIf must return true or false synchronously", { cause: error });
  }
}

function isFinal(error: unknown): boolean {
  return error instanceof UnrecordableError || isNamed(error, NonRetryableError, "NonRetryableError");
}

/** How long an error asks to wait, in milliseconds. */
function askedPause(error: unknown, now: Date): number | undefined {
  if (!isNamed(error, RetryAfterError, "RetryAfterError")) return undefined;
  const { after } = error;
  if (after instanceof Date) return Math.max(0, after.getTime() - now.getTime());
  return typeof after === "number" && after >= 0 ? after : undefined;
}

/** Also of another copy of this package. */
function isNamed<E extends Error>(
  error: unknown,
  kind: abstract new (...args: never) => E,
  name: string,
): error is E {
  return error instanceof kind || (error instanceof Error && error.name === name);
}

/** What is left of the pause that began before a restart; where the clock was set back, no more than a whole one. */
export function pauseLeft({ pauseUntil, pause }: Tries, now: Date): number {
  return pauseUntil === undefined ? 0 : Math.min(Date.parse(pauseUntil) - now.getTime(), pause);
}
