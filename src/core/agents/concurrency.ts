import { hash } from "node:crypto";
import { type Duration, isDuration, toMilliseconds } from "../base/duration.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";

/** The name of a field of `job_start`, or a function of its fields; jobs for which it gives nothing have no key. */
export type JobKey<Fields = Record<string, unknown>> =
  | (keyof Fields & string)
  | ((fields: Fields) => string | number | boolean | null | undefined);

/** How many jobs of an agent run at the same time, for each key. */
export interface ConcurrencyOptions<Fields = Record<string, unknown>> {
  /** Jobs of one key at the same time; the others wait, in order of arrival. */
  readonly limit: number;
  /** @default one key for all jobs of the agent */
  readonly key?: JobKey<Fields>;
  /**
   * Whether a job has its key while it runs (`"run"`: another one may run while it waits for an answer or sleeps), or
   * from its first start to its end (`"job"`).
   * @default "run"
   */
  readonly scope?: "run" | "job";
}

/** How many jobs of an agent start in any time of a length; the others wait, in order of arrival. */
export interface RateLimit<Fields = Record<string, unknown>> {
  readonly limit: number;
  readonly period: Duration;
  /** Counts the starts of each key apart. @default all jobs of the agent are counted together */
  readonly key?: JobKey<Fields>;
}

/** The names of options of concurrency. */
export const CONCURRENCY_NAMES: NamesOf<ConcurrencyOptions> = { limit: true, key: true, scope: true };
/** The names of a rate limit's options. */
export const RATE_NAMES: NamesOf<RateLimit> = { limit: true, period: true, key: true };

/** Longer keys are stored as a hash. */
const LONGEST = 200;

/** The key of a job with these fields; null where it has none. Throws where the agent's function throws or gives an object. */
export function readJobKey(
  key: JobKey | undefined,
  fields: Readonly<Record<string, unknown>>,
): string | null {
  const value: unknown = key === undefined ? "" : typeof key === "function" ? key(fields) : fields[key];
  if (value === null || value === undefined) return null;
  if (!["string", "number", "boolean", "bigint"].includes(typeof value))
    throw new TypeError(`The key must be text or a number, not ${typeof value}`);
  const text = String(value);
  return text.length <= LONGEST ? text : hash("sha256", text, "base64url");
}

/** What is wrong with options of concurrency; `undefined` where nothing is. */
export function problemOfConcurrency(
  { limit, key, scope }: ConcurrencyOptions,
  fieldNames: readonly string[],
): string | undefined {
  if (!(Number.isInteger(limit) && limit > 0)) return "limit must be a whole number, at least 1";
  if (scope !== undefined && scope !== "run" && scope !== "job") return 'scope must be "run" or "job"';
  return problemOfKey(key, fieldNames);
}

/** What is wrong with a rate limit; `undefined` where nothing is. */
export function problemOfRate(
  { limit, period, key }: RateLimit,
  fieldNames: readonly string[],
): string | undefined {
  if (!(Number.isInteger(limit) && limit > 0)) return "limit must be a whole number, at least 1";
  if (!isDuration(period) || toMilliseconds(period) <= 0) return 'period must be a duration such as "1m"';
  return problemOfKey(key, fieldNames);
}

function problemOfKey(key: JobKey | undefined, fieldNames: readonly string[]): string | undefined {
  if (key === undefined || typeof key === "function") return undefined;
  if (typeof key !== "string") return "key must be the name of a field, or a function";
  if (fieldNames.includes(key)) return undefined;
  return `key "${key}" is not a field of job_start: ${fieldNames.join(", ") || "it has none"}`;
}
