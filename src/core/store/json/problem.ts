/** A damaged position in a file. */
export interface Problem {
  readonly file: string;
  readonly line?: number;
  readonly byte: number;
  readonly what: string;
}
