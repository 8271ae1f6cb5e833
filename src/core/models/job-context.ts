import * as v from "valibot";
import { JobInstructionsSchema } from "./job-instructions.ts";
import { ClientTimestampSchema, EntityIdSchema, optional } from "./scalars.ts";

/** Who started a job, when, and for which mission. */
export const JobContextSchema = v.object({
  workspace_id: v.string(),
  job_id: EntityIdSchema,
  started_by: v.string(),
  started_at: ClientTimestampSchema,
  mission_id: v.string(),
  mission_name: v.string(),
  mission_context: v.optional(v.unknown(), null),
  job_instructions: optional(JobInstructionsSchema),
});
export type JobContext = v.InferOutput<typeof JobContextSchema>;

/** What a start request says about its job; the service fills in the rest. */
export const StartContextSchema = v.partial(JobContextSchema, [
  "workspace_id",
  "job_id",
  "started_by",
  "started_at",
  "mission_id",
  "mission_name",
]);
