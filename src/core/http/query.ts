import * as v from "valibot";
import { invalid } from "./check.ts";

/** The parameters of a query; one that is given twice is refused, as nobody can tell which of them counts. */
export function readQuery(params: URLSearchParams): Record<string, string> {
  const query: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [name, value] of params) {
    if (name in query) throw invalid("query", `${name} is given more than once`);
    query[name] = value;
  }
  return query;
}

/** A whole number in a query, within bounds. */
export function wholeNumber(bounds: { min: number; max: number; default: number }) {
  const { min, max } = bounds;
  const message = `must be a whole number from ${min} to ${max}`;
  return v.optional(
    v.pipe(
      v.string(),
      v.regex(/^-?\d{1,15}$/, message),
      v.metadata({ jsonSchema: { type: "integer", minimum: min, maximum: max } }),
      v.transform(Number),
      v.minValue(min, message),
      v.maxValue(max, message),
    ),
    String(bounds.default),
  );
}

/** The page that a list answers with. */
export function pageQuery(limit: { max: number; default: number }) {
  return {
    limit: wholeNumber({ min: 1, ...limit }),
    skip: wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER, default: 0 }),
  };
}
