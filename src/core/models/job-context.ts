import * as v from "valibot";
import { GivenInstructionsSchema, JobInstructionsSchema } from "./job-instructions.ts";
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

/** What the start request of a control system says about its job: all of it except its limits. */
export const FullStartContextSchema = v.object({
  ...JobContextSchema.entries,
  job_instructions: optional(GivenInstructionsSchema),
});

/** What a start request says about its job; the service fills in the rest. */
export const StartContextSchema = v.partial(FullStartContextSchema, [
  "workspace_id",
  "job_id",
  "started_by",
  "started_at",
  "mission_id",
  "mission_name",
]);
export type StartContext = v.InferOutput<typeof StartContextSchema>;
