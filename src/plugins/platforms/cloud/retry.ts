import { delays } from "../../../core/base/backoff.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { type CloudError, isCloudError, isTransient } from "./cloud-error.ts";

/** An error that goes away by itself once the provider has caught up with an earlier call. */
export interface Propagation {
  /** Description of what is being waited for. */
  readonly what: string;
  matches(error: CloudError): boolean;
  /** Milliseconds to wait for it, over all attempts. */
  readonly budget: number;
}

export interface RetryOptions<T> {
  readonly tools: Pick<DeployTools, "sleep" | "report">;
  /** The call changes nothing, or changes nothing more when made again. @default false */
  readonly idempotent?: boolean;
  /**
   * Finds out whether a call that failed or conflicted still took effect. Its value is the result; if
   * undefined, the call is made again.
   */
  readonly reread?: (() => Promise<T | undefined>) | undefined;
  readonly propagation?: readonly Propagation[] | undefined;
  /** Attempts for server errors and throttling. @default 5 */
  readonly tries?: number;
  /** @default Math.random */
  readonly random?: () => number;
}

const DELAYS = delays({ first: 1000, most: 20_000, jitter: 0.5 });

/**
 * Retries a call if that is safe: server errors and throttling only for calls that are idempotent or can be
 * read back, known propagation errors within their own budget. Everything else is thrown immediately.
 */
export async function retrying<T>(call: () => Promise<T>, options: RetryOptions<T>): Promise<T> {
  const { tools, idempotent = false, reread, propagation = [], tries = 5, random = Math.random } = options;
  const waited = new Map<Propagation, number>();
  let faults = 0;
  for (let attempt = 0; ; attempt++) {
    try {
      return await call();
    } catch (error) {
      if (!isCloudError(error)) throw error;
      const known = propagation.find((entry) => entry.matches(error));
      if (known) {
        const spent = waited.get(known) ?? 0;
        const delay = Math.min(delayOf(error, attempt, random), known.budget - spent);
        if (delay <= 0) throw error;
        waited.set(known, spent + delay);
        tools.report(`waiting for ${known.what}`);
        await tools.sleep(delay);
        continue;
      }
      // If nothing took effect, a call that the provider could not queue is retried.
      const transient = isTransient(error) || (reread !== undefined && error.code === "ABORTED");
      if (reread && (transient || error.status === 409)) {
        const found = await reread();
        if (found !== undefined) return found;
      }
      if (!transient || !(idempotent || reread || error.status === 429)) throw error;
      faults += 1;
      if (faults >= tries) throw error;
      await tools.sleep(delayOf(error, faults - 1, random));
    }
  }
}

function delayOf(error: CloudError, attempt: number, random: () => number): number {
  if (error.retryAfter !== undefined) return Math.max(error.retryAfter, 50);
  return DELAYS(attempt, random);
}
