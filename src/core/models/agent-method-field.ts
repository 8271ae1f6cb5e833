import * as v from "valibot";
import { NameSchema, optional } from "./scalars.ts";

/** Kind of form field. */
export const FieldTypeSchema = v.picklist([
  "CharField",
  "IntegerField",
  "FloatField",
  "BooleanField",
  "ChoiceField",
  "MultipleChoiceField",
  "DateField",
  "DateTimeField",
  "EmailField",
  "JSONField",
  "FileField",
]);
export type FieldType = v.InferOutput<typeof FieldTypeSchema>;

/** One input of a method or of a question. */
export const AgentMethodFieldSchema = v.object({
  name: NameSchema,
  /** Name of the value's type, for display. */
  type: optional(v.string()),
  field_type: v.optional(FieldTypeSchema, "CharField"),
  description: optional(v.string()),
  choices: optional(v.array(v.union([v.string(), v.tuple([v.string(), v.string()])]))),
  default: v.optional(v.unknown(), null),
  widget: optional(v.string()),
  required: v.optional(v.boolean(), false),
});
export type AgentMethodField = v.InferOutput<typeof AgentMethodFieldSchema>;
export type AgentMethodFieldInput = v.InferInput<typeof AgentMethodFieldSchema>;
