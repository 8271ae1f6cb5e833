import * as v from "valibot";
import { EntityStatusSchema } from "./entity-status.ts";
import { EntityIdSchema, TimestampSchema } from "./scalars.ts";

/** The job that a fork was made from. */
export const ForkedFromSchema = v.object({
  job_id: EntityIdSchema,
  /** Line of its log up to which the record was copied; 0 if nothing was copied. */
  line: v.pipe(v.number(), v.integer(), v.minValue(0)),
});

/** The service that a copied job was read from. */
export const PulledFromSchema = v.object({
  url: v.string(),
  at: TimestampSchema,
  /** The job's status there. */
  status: EntityStatusSchema,
});
export type PulledFrom = v.InferOutput<typeof PulledFromSchema>;
