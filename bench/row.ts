/** One line of a benchmark's result. */
export interface BenchRow {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /** The baseline, measured in the same run. */
  readonly baseline?: { readonly name: string; readonly value: number };
  /** `value` divided by the baseline's, or the inverse if less is better. */
  readonly ratio?: number;
  /** The target as text, such as `>= 0.6`. */
  readonly target?: string;
  readonly ok?: boolean;
}
