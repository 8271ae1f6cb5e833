import * as v from "valibot";
import { atLeast, checkOptions, wholeAtLeast } from "../../core/base/check-options.ts";

/** Options of the plugin `events`; times in seconds. */
export interface EventsOptions {
  /** Time for one attempt. @default 10 */
  timeout?: number;
  /** Streams that are sent concurrently to each target. @default 16 */
  concurrency?: number;
  /** Wait after a failed attempt, doubled each time up to `max`. @default { initial: 0.5, max: 60 } */
  backoff?: { initial?: number; max?: number };
  /** Pause after several failures in a row, doubled each time up to `max`. @default { failures: 5, initial: 1, max: 30 } */
  breaker?: { failures?: number; initial?: number; max?: number };
  /** Age at which a message that keeps failing becomes a dead letter. @default 259200, three days */
  maxAge?: number;
  /** Messages that may wait; beyond it the oldest are dropped. @default 500000 */
  maxWaiting?: number;
  /** Dead letters that are kept. @default 10000 */
  maxDead?: number;
  /** Age at which dead letters are dropped. @default 2592000, thirty days */
  maxDeadAge?: number;
}

/** `EventsOptions` with all defaults resolved; times in milliseconds. */
export interface ResolvedEventsOptions {
  readonly timeout: number;
  readonly concurrency: number;
  readonly backoff: { readonly initial: number; readonly max: number };
  readonly breaker: { readonly threshold: number; readonly initial: number; readonly max: number };
  readonly maxAge: number;
  readonly maxWaiting: number;
  readonly maxDead: number;
  readonly maxDeadAge: number;
}

const time = (least = 0) => v.optional(atLeast(least));
const count = (least: number) => v.optional(wholeAtLeast(least));

const OptionsSchema = v.object({
  timeout: time(0.001),
  concurrency: count(1),
  backoff: v.optional(v.object({ initial: time(), max: time() })),
  breaker: v.optional(v.object({ failures: count(1), initial: time(), max: time() })),
  maxAge: time(),
  maxWaiting: count(1),
  maxDead: count(0),
  maxDeadAge: time(),
});

/** Fills in the defaults; throws if an option is invalid. */
export function resolveEventsOptions(options: EventsOptions): ResolvedEventsOptions {
  checkOptions(OptionsSchema, options, { of: 'of plugin "events"' });
  const { backoff = {}, breaker = {} } = options;
  const ms = (seconds: number | undefined, fallback: number) => (seconds ?? fallback) * 1000;
  return {
    timeout: ms(options.timeout, 10),
    concurrency: options.concurrency ?? 16,
    backoff: { initial: ms(backoff.initial, 0.5), max: ms(backoff.max, 60) },
    breaker: {
      threshold: breaker.failures ?? 5,
      initial: ms(breaker.initial, 1),
      max: ms(breaker.max, 30),
    },
    maxAge: ms(options.maxAge, 3 * 86_400),
    maxWaiting: options.maxWaiting ?? 500_000,
    maxDead: options.maxDead ?? 10_000,
    maxDeadAge: ms(options.maxDeadAge, 30 * 86_400),
  };
}
