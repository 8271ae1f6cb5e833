import { type } from "arktype";
import * as v from "valibot";
import { z } from "zod";

/** Long enough that no synchronous check could have waited for it. */
const later = () => new Promise<void>((resolve) => setTimeout(resolve, 5));

async function isKnown(name: string): Promise<boolean> {
  await later();
  return name === "Ada";
}

/** The same inputs in each library. */
export const LIBRARIES = [
  {
    name: "valibot",
    /** One field of each kind. */
    kinds: v.object({
      name: v.pipe(v.string(), v.description("Who it is for")),
      count: v.optional(v.pipe(v.number(), v.integer()), 3),
      ratio: v.number(),
      flag: v.boolean(),
      kind: v.picklist(["new", "old"]),
      tags: v.array(v.picklist(["a", "b"])),
      mail: v.pipe(v.string(), v.email()),
      note: v.optional(v.string()),
      limit: v.nullable(v.number()),
      raw: v.optional(v.unknown()),
    }),
    /** `count` defaults to 3, `at` to what a function gives. */
    defaults: v.object({
      count: v.optional(v.number(), 3),
      at: v.optional(v.number(), () => Math.random()),
    }),
    strict: v.strictObject({ name: v.string() }),
    loose: v.looseObject({ name: v.string() }),
    own: v.object({
      iban: v.pipe(v.string(), v.regex(/^[A-Z]{2}\d+$/, "Write the IBAN without blanks, such as DE123.")),
    }),
    nested: v.object({ address: v.object({ city: v.string() }) }),
    across: v.pipe(
      v.object({ from: v.number(), to: v.number() }),
      v.check(({ from, to }) => from < to, "The range is empty"),
    ),
    transformed: v.object({ count: v.pipe(v.string(), v.transform(Number)) }),
    asynchronous: v.objectAsync({
      name: v.pipeAsync(v.string(), v.checkAsync(isKnown, "Nobody knows them")),
    }),
  },
  {
    name: "zod",
    kinds: z.object({
      name: z.string().describe("Who it is for"),
      count: z.int().default(3),
      ratio: z.number(),
      flag: z.boolean(),
      kind: z.enum(["new", "old"]),
      tags: z.array(z.enum(["a", "b"])),
      mail: z.email(),
      note: z.string().optional(),
      limit: z.number().nullable(),
      raw: z.unknown().optional(),
    }),
    defaults: z.object({
      count: z.number().default(3),
      at: z.number().default(() => Math.random()),
    }),
    strict: z.strictObject({ name: z.string() }),
    loose: z.looseObject({ name: z.string() }),
    own: z.object({
      iban: z.string().regex(/^[A-Z]{2}\d+$/, "Write the IBAN without blanks, such as DE123."),
    }),
    nested: z.object({ address: z.object({ city: z.string() }) }),
    across: z
      .object({ from: z.number(), to: z.number() })
      .refine(({ from, to }) => from < to, "The range is empty"),
    transformed: z.object({ count: z.string().transform(Number) }),
    asynchronous: z.object({ name: z.string().refine(isKnown, "Nobody knows them") }),
  },
  {
    name: "arktype",
    kinds: type({
      name: type("string").describe("Who it is for"),
      count: "number.integer = 3",
      ratio: "number",
      flag: "boolean",
      kind: "'new' | 'old'",
      tags: "('a' | 'b')[]",
      mail: "string.email",
      "note?": "string",
      limit: "number | null",
      "raw?": "unknown",
    }),
    defaults: type({ count: "number = 3", at: type("number").default(() => Math.random()) }),
    strict: type({ name: "string", "+": "reject" }),
    loose: type({ name: "string" }),
    own: type({
      iban: type(/^[A-Z]{2}\d+$/).configure({ message: "Write the IBAN without blanks, such as DE123." }),
    }),
    nested: type({ address: { city: "string" } }),
    across: type({ from: "number", to: "number" }).narrow(
      ({ from, to }, context) => from < to || context.reject({ message: "The range is empty" }),
    ),
    transformed: type({ count: "string.numeric.parse" }),
    // ArkType has no asynchronous checks.
    asynchronous: undefined,
  },
] as const;
