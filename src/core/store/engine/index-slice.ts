import type { IndexValue } from "../store.ts";

/** The values of one field of some entities, as a checkpoint has them. */
export type FieldSlice =
  /** All are `null`. */
  | { readonly kind: "none" }
  /** `NaN` is `null`. */
  | { readonly kind: "numbers"; readonly numbers: Float64Array }
  | { readonly kind: "values"; readonly values: readonly IndexValue[] }
  /** Of a facet: its distinct values, and the place of each entity's value among them. */
  | { readonly kind: "codes"; readonly values: readonly IndexValue[]; readonly codes: Uint16Array };

/** All that an index has of some entities. */
export interface IndexSlice {
  readonly ids: readonly string[];
  /** In lower case; none where all are empty. */
  readonly texts: readonly string[] | undefined;
  readonly fields: Readonly<Record<string, FieldSlice>>;
}

/** The most entities of a slice: their values have codes of 16 bits. */
export const MOST_OF_SLICE = 4096;
