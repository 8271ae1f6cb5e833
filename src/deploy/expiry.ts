import { toMilliseconds } from "../core/base/duration.ts";
import { EXPIRES } from "./config.ts";
import type { Release } from "./platform.ts";

/** What takes the expiry of an environment away. */
export const NEVER = "never";

const HOUR = 3_600_000;

/** When an environment expires; never without a mark. */
export function expiryOf(live: Pick<Release, "env"> | undefined): Date | undefined {
  const text = live?.env?.[EXPIRES];
  const date = text === undefined ? undefined : new Date(text);
  return date === undefined || Number.isNaN(date.getTime()) ? undefined : date;
}

/**
 * The mark of a release: as typed from now on, in full hours; without an option the one that runs. One with more than
 * half of its time left is not renewed: a deployment without other changes stays without changes.
 */
export function wantedExpiry(
  typed: string | undefined,
  live: Pick<Release, "env"> | undefined,
  now: Date,
): string | undefined {
  const before = expiryOf(live);
  if (typed === NEVER) return undefined;
  if (typed === undefined) return before && live?.env?.[EXPIRES];
  const time = toMilliseconds(typed as `${number}d`);
  const left = (before?.getTime() ?? 0) - now.getTime();
  if (left > time / 2 && left <= time + HOUR) return live?.env?.[EXPIRES];
  return new Date(Math.ceil((now.getTime() + time) / HOUR) * HOUR).toISOString();
}
