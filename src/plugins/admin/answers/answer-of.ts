import type * as v from "valibot";

/** What an answer with a schema has, for those who read it. */
export type AnswerOf<S extends v.GenericSchema> = ReadOnly<v.InferOutput<S>>;

type ReadOnly<T> = T extends readonly (infer One)[]
  ? readonly ReadOnly<One>[]
  : T extends object
    ? { readonly [Key in keyof T]: ReadOnly<T[Key]> }
    : T;
