import * as v from "valibot";
import { JsonMapSchema, optional } from "./scalars.ts";

/** Answer to a question raised by a case. */
export const CaseUpdateRequestSchema = v.object({
  answer: JsonMapSchema,
  message: optional(v.string()),
});
export type CaseUpdateRequest = v.InferOutput<typeof CaseUpdateRequestSchema>;
