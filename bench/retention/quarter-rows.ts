import type { BenchRow } from "../row.ts";

/** The largest ratio of the last quarter to the second: in the first, not everything has been used, or is removed yet. */
const FLAT = 1.15;

/** A value in each quarter of a run, of which the last is compared with the second; one without a unit is not. */
export function quarterRows(what: string, unit: string, values: readonly number[]): BenchRow[] {
  const second = values[1]!;
  return values.map((value, at): BenchRow => {
    const row = { name: `${what}, mean of quarter ${at + 1}`, value, unit };
    if (at < values.length - 1 || unit === "") return row;
    const ratio = value / second;
    const baseline = { name: "quarter 2", value: second };
    return { ...row, baseline, ratio, target: `<= ${FLAT}`, ok: ratio <= FLAT };
  });
}
