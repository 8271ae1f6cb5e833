import { type Duration, toMilliseconds } from "../base/duration.ts";
import { isRecord } from "../base/is-record.ts";
import type { NamesOf } from "../base/refuse-unknown.ts";

/** The statuses with a retention time: those that end a job. */
export const KEPT_STATUSES = ["completed", "failed", "cancelled"] as const;
export type KeptStatus = (typeof KEPT_STATUSES)[number];

/** How long jobs are kept after their end, by status: a duration of a second or more, or `"keep"`. */
export type RetentionOptions = Readonly<Partial<Record<KeptStatus, Duration | "keep">>>;

/** The statuses that have a retention time. */
export const RETENTION_NAMES: NamesOf<RetentionOptions> = { completed: true, failed: true, cancelled: true };

/** Milliseconds that jobs are kept after their end, by status; `null` keeps them indefinitely. */
export type RetentionPolicy = Readonly<Record<KeptStatus, number | null>>;

export const RETENTION_RULE = 'must be a duration of a second or more, such as "30d", or "keep"';

/** Whether a value is a valid retention time. */
export function isKeepTime(value: unknown): value is Duration | "keep" {
  if (value === "keep") return true;
  try {
    return toMilliseconds(value as Duration) >= 1000;
  } catch {
    return false;
  }
}

/** Milliseconds of what `isKeepTime` accepts. */
export function toKeepTime(value: Duration | "keep"): number | null {
  return value === "keep" ? null : toMilliseconds(value);
}

/** What is wrong with an agent's own policy; `undefined` if it is valid. */
export function problemOf(options: unknown): string | undefined {
  if (!isRecord(options)) {
    return `must be an object such as { completed: "30d" }`;
  }
  for (const [status, value] of Object.entries(options)) {
    if (value !== undefined && !isKeepTime(value)) return `.${status} ${RETENTION_RULE}`;
  }
  return undefined;
}

/** The service's policy, overridden by the agent's own. */
export function withOverride(policy: RetentionPolicy, own: RetentionOptions | undefined): RetentionPolicy {
  const merged: Record<KeptStatus, number | null> = { ...policy };
  for (const status of KEPT_STATUSES) {
    const value = own?.[status];
    if (value !== undefined) merged[status] = toKeepTime(value);
  }
  return merged;
}
