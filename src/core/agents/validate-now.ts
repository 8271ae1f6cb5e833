import type { StandardSchemaV1 } from "@standard-schema/spec";
import type { MemberProblem } from "../base/unknown-members.ts";
import { refusals } from "./refusals.ts";
import { unknownByJsonSchema } from "./unknown-by-json-schema.ts";

/**
 * What a schema of another library than valibot makes of a value, or why it refuses it. Throws a `TypeError` where the
 * schema is asynchronous; `what` names it.
 */
export function validateNow(
  schema: StandardSchemaV1,
  value: unknown,
  what: string,
): { readonly value: unknown } | { readonly refused: readonly MemberProblem[] } {
  const standard = schema["~standard"];
  const result = standard.validate(value);
  if (result instanceof Promise) {
    result.catch(() => {});
    throw new TypeError(
      `${what}: its schema of ${standard.vendor} is asynchronous, and must be synchronous: do what takes time in the handler`,
    );
  }
  const unknown = unknownByJsonSchema(schema, value);
  if (!result.issues && unknown.length === 0) return { value: result.value };
  return { refused: refusals(standard, value, result.issues, unknown) };
}
