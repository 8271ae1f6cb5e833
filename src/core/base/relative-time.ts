/** Units of time, the largest first, in milliseconds. */
export const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
] as const;

/**
 * `"just now"`, `"4 min ago"`, `"in 2 h"`. Past times are rounded down, future times are rounded: almost two
 * days are `"in 2 d"`.
 */
export function formatRelative(date: Date, now: Date): string {
  const distance = date.getTime() - now.getTime();
  const size = Math.abs(distance);
  if (size < 5000) return "just now";
  const isPast = distance < 0;
  const [unit, length] = UNITS.find(([, ms]) => size >= (isPast ? ms : ms * 0.99)) ?? UNITS[3];
  const amount = `${isPast ? Math.floor(size / length) : Math.round(size / length)} ${unit}`;
  return isPast ? `${amount} ago` : `in ${amount}`;
}
