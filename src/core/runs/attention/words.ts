const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
] as const;

/** A time that has passed, in its largest unit. */
export function spanOf(milliseconds: number): string {
  const [length, unit] = UNITS.find(([one]) => milliseconds >= one) ?? [1, "ms"];
  return `${Math.floor(milliseconds / length)} ${unit}`;
}
