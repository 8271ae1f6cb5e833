import { isUtf8 } from "node:buffer";
import * as v from "valibot";
import { invalid } from "./check.ts";
import { notUtf8 } from "./request-body.ts";

/** The parameters of a query; a repeated one is refused because it is ambiguous. */
export function readQuery({ search, searchParams: params }: URL): Record<string, string> {
  assertUtf8(search, "query");
  const query: Record<string, string> = Object.create(null) as Record<string, string>;
  for (const [name, value] of params) {
    if (name in query) throw invalid("query", `${name} is set more than once`);
    query[name] = value;
  }
  return query;
}

/** Throws if percent-encoded text is not UTF-8: broken characters would be replaced silently. */
export function assertUtf8(encoded: string, part: string): void {
  for (const [bytes] of encoded.matchAll(/(?:%[89a-f][0-9a-f])+/gi)) {
    if (!isUtf8(Buffer.from(bytes.replaceAll("%", ""), "hex"))) throw notUtf8(part);
  }
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

/** The page that a list returns. */
export function pageQuery(limit: { max: number; default: number }) {
  return {
    limit: wholeNumber({ min: 1, ...limit }),
    skip: wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER, default: 0 }),
  };
}
