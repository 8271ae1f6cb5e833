import type { Logger } from "../../base/log.ts";
import { startTimer } from "../../base/timer.ts";
import type { Call } from "./call.ts";

/**
 * Milliseconds that a recorded call is waited for which the handler may still make, after waiting for something of its
 * own: so many, and twice as long as it took when it was recorded, which is not taken to be more than the second.
 */
const LEAST = 3000;
const MOST = 150_000;
/**
 * The same for a retried job, which continues where it failed: calls that it made after that may not come
 * again.
 */
const AFTER_RETRY = 1000;

interface PatienceParts {
  /** Most milliseconds that a recorded call is waited for. @default as long as it may take */
  readonly most: number | undefined;
  /** Whether failures of the job were forgotten. */
  readonly isRetried: boolean;
  readonly log: Logger;
  /** Called when a call was not made in time. */
  readonly onOver: () => void;
}

/** How long replay waits for a recorded call that the handler may be on its way to. */
export class Patience {
  readonly #parts: PatienceParts;
  #cancel: (() => void) | undefined;
  /** Calls for which it is over. */
  readonly #givenUp = new Set<Call>();

  constructor(parts: PatienceParts) {
    this.#parts = parts;
  }

  /** Whether a call is waited for, from now on if it was not before. */
  lasts(call: Call): boolean {
    if (this.#givenUp.has(call)) return false;
    this.#cancel ??= this.#start(call);
    return true;
  }

  /** The handler was given something: it may need more time. */
  cancel(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #start(call: Call): () => void {
    const { most = Number.POSITIVE_INFINITY, isRetried, log, onOver } = this.#parts;
    const long = isRetried ? AFTER_RETRY : LEAST + 2 * Math.min(call.delay, MOST);
    return startTimer(Math.min(long, most), () => {
      this.#cancel = undefined;
      this.#givenUp.add(call);
      const message =
        "the handler has not repeated a recorded call so far; it continues, and may repeat it later";
      log.warn(message, { call: call.label });
      onOver();
    });
  }
}
