import * as v from "valibot";
import { optional } from "./scalars.ts";

/**
 * Limits of a job. Durations in seconds; `job_start_time` in seconds since the epoch. `stop_on_error` holds also for a
 * job without instructions.
 */
export const JobInstructionsSchema = v.object({
  max_cases: optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
  max_duration: optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
  max_cost: optional(v.pipe(v.number(), v.minValue(0))),
  stop_on_warning: v.optional(v.boolean(), false),
  stop_on_error: v.optional(v.boolean(), true),
  job_start_time: optional(v.number()),
});
export type JobInstructions = v.InferOutput<typeof JobInstructionsSchema>;

/** The same as they are given: what is missing is the agent's own, or the default. */
export const GivenInstructionsSchema = v.partial(JobInstructionsSchema);
export type GivenInstructions = v.InferOutput<typeof GivenInstructionsSchema>;
