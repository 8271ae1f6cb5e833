import type { BenchRow } from "./row.ts";
import { measureStart } from "./start.ts";

/** The start of a store with ten times as many entities. */
export function run(): Promise<BenchRow[]> {
  return measureStart(1_000_000);
}
