import { ClientError } from "./client-error.ts";

/** Statuses of a service that is closing or busy, and of a proxy that cannot reach it. */
const AWAY = [429, 502, 503, 504];

/** A time in which the service does not answer: waits for it, for a limited time. */
export class Outage {
  readonly #patience: number;
  readonly #signal: AbortSignal | undefined;
  #since: number | undefined;
  #attempt = 0;

  /** `patience` in seconds. */
  constructor(patience: number, signal: AbortSignal | undefined) {
    this.#patience = patience * 1000;
    this.#signal = signal;
  }

  /** The service has answered. */
  over(): void {
    this.#since = undefined;
    this.#attempt = 0;
  }

  /** Waits after a failure; throws it if it will not pass, or the patience is over. */
  async wait(error: unknown): Promise<void> {
    this.#signal?.throwIfAborted();
    this.#since ??= Date.now();
    // Anything else is a connection that broke.
    const passes = error instanceof ClientError ? isAway(error) : !(error instanceof SyntaxError);
    if (!passes || Date.now() - this.#since > this.#patience) throw error;
    await this.pause(error instanceof ClientError ? error.retryAfter : 0);
  }

  /** Waits before the next connection, at least this many seconds. */
  async pause(seconds = 0): Promise<void> {
    await pause(Math.max(seconds * 1000, backoff(this.#attempt++)), this.#signal);
  }
}

/** Whether the service may answer later. */
export function isAway(error: ClientError): boolean {
  return error.status === 0 || AWAY.includes(error.status);
}

/** Milliseconds before the next try, up to 5 s; spread, so that clients do not come back together. */
export function backoff(attempt: number): number {
  return Math.min(250 * 2 ** attempt, 5000) * (0.5 + Math.random() / 2);
}

/** Waits; ends with the signal's reason when it fires. */
export function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, milliseconds);
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end, { once: true });
  });
}
