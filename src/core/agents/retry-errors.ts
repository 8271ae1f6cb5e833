import { type Duration, toMilliseconds } from "../base/duration.ts";
import { parseRetryAfter } from "../base/retry-after.ts";

/**
 * Thrown by a step's function: the step fails immediately, whatever retries it has left. For errors that a
 * retry cannot fix: a rejected key, an invalid request.
 *
 * @example
 * if (response.status === 401) throw new NonRetryableError("The API key was rejected");
 */
export class NonRetryableError extends Error {
  override readonly name: string = "NonRetryableError";
}

/**
 * Thrown by a step's function: the next attempt starts after this time instead of the backoff's. It counts as
 * an attempt, and the step fails if none is left. The wait survives restarts.
 *
 * @example
 * if (response.status === 429) throw new RetryAfterError("The model is busy", response.headers);
 */
export class RetryAfterError extends Error {
  override readonly name: string = "RetryAfterError";
  /** When the next try may begin: milliseconds from now on, or a time; `undefined` leaves it to the backoff. */
  readonly after: number | Date | undefined;

  /**
   * `after` is how long to wait, until when, or the headers of a response: their `Retry-After` counts, and without a
   * valid one the backoff does. Throws `TypeError` where it is none of these.
   */
  constructor(
    message: string,
    after: Duration | Date | { get(name: string): string | null },
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.after = readAfter(after);
  }
}

function readAfter(after: Duration | Date | { get(name: string): string | null }): number | Date | undefined {
  if (typeof after === "number" || typeof after === "string") return toMilliseconds(after);
  if (after instanceof Date) {
    if (Number.isNaN(after.getTime()))
      throw new TypeError("The time of a RetryAfterError is not a valid date");
    return after;
  }
  if (typeof after?.get !== "function")
    throw new TypeError(
      'A RetryAfterError needs a duration such as "30s", a date, or the headers of a response',
    );
  return parseRetryAfter(after.get("retry-after"));
}
