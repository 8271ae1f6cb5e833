import * as v from "valibot";
import { NameSchema, optional } from "./scalars.ts";

/** An agent parameter as declared. `value` is the author's default and is never shown. */
export const ParameterSchema = v.object({
  name: NameSchema,
  description: optional(v.string()),
  is_environment: v.optional(v.boolean(), false),
  value: optional(v.string()),
  is_secret: v.optional(v.boolean(), false),
  is_required: v.optional(v.boolean(), false),
});
export type Parameter = v.InferOutput<typeof ParameterSchema>;
export type ParameterInput = v.InferInput<typeof ParameterSchema>;
