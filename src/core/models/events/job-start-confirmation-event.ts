import * as v from "valibot";
import { type Job, JobSchema } from "../job.ts";

/** The handler of a job is about to run. */
export const JobStartConfirmationEventSchema = v.object({
  source: v.object({ job: v.string() }),
  type: v.literal("agent.job.start.confirmation"),
  object_type: v.literal("job"),
  details: v.omit(JobSchema, ["agent_parameters"]),
});
export type JobStartConfirmationEvent = v.InferOutput<typeof JobStartConfirmationEventSchema>;

export function jobStartConfirmationEvent({ agent_parameters: _, ...job }: Job): JobStartConfirmationEvent {
  return { source: { job: job.id }, type: "agent.job.start.confirmation", object_type: "job", details: job };
}
