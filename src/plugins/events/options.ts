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

/** Seconds, resolved to milliseconds. */
const time = (fallback: number, least = 0) => {
  const toMilliseconds = v.transform((seconds: number) => seconds * 1000);
  return v.optional(v.pipe(atLeast(least), toMilliseconds), fallback);
};
const count = (fallback: number, least: number) => v.optional(wholeAtLeast(least), fallback);

const OptionsSchema = v.object({
  timeout: time(10, 0.001),
  concurrency: count(16, 1),
  backoff: v.optional(v.object({ initial: time(0.5), max: time(60) }), {}),
  breaker: v.optional(v.object({ failures: count(5, 1), initial: time(1), max: time(30) }), {}),
  maxAge: time(3 * 86_400),
  maxWaiting: count(500_000, 1),
  maxDead: count(10_000, 0),
  maxDeadAge: time(30 * 86_400),
});

/** `EventsOptions` with all defaults resolved; times in milliseconds. */
export type ResolvedEventsOptions = Readonly<v.InferOutput<typeof OptionsSchema>>;

/** Fills in the defaults; throws if an option is invalid. */
export function resolveEventsOptions(options: EventsOptions): ResolvedEventsOptions {
  return checkOptions(OptionsSchema, options, { of: 'of plugin "events"' });
}
