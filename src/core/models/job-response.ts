import * as v from "valibot";
import { EntityStatusSchema } from "./entity-status.ts";
import { ForkedFromSchema } from "./lineage.ts";
import { JsonMapSchema, optional } from "./scalars.ts";
import { SuspendedSchema } from "./suspended.ts";

/** A method's report about a job. */
export const JobResponseSchema = v.object({
  job_id: v.string(),
  status: EntityStatusSchema,
  message: v.string(),
  payload: optional(JsonMapSchema),
  error_message: optional(v.string()),
  error_traceback: optional(v.string()),
  /** The job that this one is a fork of; absent for other jobs. */
  forked_from: v.optional(ForkedFromSchema),
  /** Set while the job only waits and is not in memory; absent for other jobs. */
  suspended: v.optional(SuspendedSchema),
});
export type JobResponse = v.InferOutput<typeof JobResponseSchema>;
