import * as v from "valibot";

type Rule = v.PipeItem<string, string, v.BaseIssue<unknown>>;
type Help = Readonly<Record<string, string>>;

/** `minInstances` as `min-instances`. */
export function toFlagName(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Schemas of options that must be set, or have a default. */
export const needed = {
  /** A text; `value` is its name in the help. */
  text: (description: string, value: string) =>
    v.pipe(v.string(), v.description(description), v.metadata({ value })),

  /** A whole number from `least` to `most`. */
  whole: (description: string, least: number, most: number) => {
    const range = `must be ${least} to ${most}`;
    const number = v.pipe(v.number(), v.integer(), v.minValue(least, range));
    return v.pipe(number, v.maxValue(most, range), v.description(description));
  },

  /** How many of something, at least 1; `value` is its name in the help. */
  amount: (description: string, value: string) =>
    v.pipe(v.number(), v.minValue(1), v.description(description), v.metadata({ value })),
};

/** Schemas of options of commands and platforms, each with what the help says of it. */
export const option = {
  /** A switch that is off by default. */
  flag: (description: string, help: Help = {}) =>
    v.optional(v.pipe(v.boolean(), v.description(description), v.metadata(help)), false),

  /** A switch that is undefined where it is not set. */
  choice: (description: string, help: Help = {}) =>
    v.optional(v.pipe(v.boolean(), v.description(description), v.metadata(help))),

  /** A text; `value` is its name in the help. */
  text: (description: string, value?: string) =>
    v.optional(v.pipe(v.string(), v.description(description), v.metadata(value ? { value } : {}))),

  /** A text that a rule accepts. */
  ruled: (rule: Rule, description: string, value?: string) =>
    v.optional(v.pipe(v.string(), rule, v.description(description), v.metadata(value ? { value } : {}))),

  /** Texts; the option may be repeated. */
  list: (description: string, value: string) =>
    v.optional(v.pipe(v.array(v.string()), v.description(description), v.metadata({ value })), []),

  /** One of some names. */
  one: <const Names extends readonly string[]>(names: Names, description: string) =>
    v.optional(v.pipe(v.picklist(names), v.description(description))),

  /** A whole number from `least` to `most`. */
  whole: (description: string, least: number, most: number) =>
    v.optional(needed.whole(description, least, most)),
};
