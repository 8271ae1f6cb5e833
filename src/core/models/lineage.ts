import * as v from "valibot";
import { EntityIdSchema } from "./scalars.ts";

/** The job that a fork was made from. */
export const ForkedFromSchema = v.object({
  job_id: EntityIdSchema,
  /** Line of its log up to which the record was copied; 0 if nothing was copied. */
  line: v.pipe(v.number(), v.integer(), v.minValue(0)),
});
export type ForkedFrom = v.InferOutput<typeof ForkedFromSchema>;
