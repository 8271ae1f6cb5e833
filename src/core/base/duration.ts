/** Seconds, or text such as `"500ms"`, `"90s"`, `"15m"`, `"1.5h"`, `"3d"`. */
export type Duration = number | `${number}${"" | " "}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Whether a value is a duration, such as an input for how long to wait.
 *
 * @example
 * fields: v.object({ pause: v.pipe(v.string(), v.guard(isDuration, "must be a duration such as 5m")) })
 */
export function isDuration(value: unknown): value is Duration {
  try {
    toMilliseconds(value as Duration);
    return true;
  } catch {
    return false;
  }
}

/** Milliseconds of a duration: a number of seconds, or text such as `"90s"`, `"15m"`, `"1.5h"`. */
export function toMilliseconds(duration: Duration): number {
  if (typeof duration === "number" && Number.isFinite(duration) && duration >= 0) return duration * 1000;
  const match =
    typeof duration === "string" ? /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(duration.trim()) : null;
  if (match) return Number(match[1]) * UNITS[match[2]!]!;
  throw new TypeError(
    `"${duration}" is not a duration: use seconds, or text such as "90s", "15m", "2h" or "3d"`,
  );
}
