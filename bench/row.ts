/** One line of a benchmark's result. */
export interface BenchRow {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** What it is compared with, measured in the same run. */
  readonly baseline?: { readonly name: string; readonly value: number };
  /** `value` over the baseline's, or the other way round where less is better. */
  readonly ratio?: number;
  /** What it should reach, in words, such as `>= 0.6`. */
  readonly target?: string;
  readonly ok?: boolean;
}
