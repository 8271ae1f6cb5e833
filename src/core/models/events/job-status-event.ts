import * as v from "valibot";
import { type Job, JobSchema } from "../job.ts";

/** A job is held, or resumes after that: `stop_reason` and `error` say why, and `held` if its record does not match the code. */
export const JobStatusEventSchema = v.object({
  source: v.object({ job: v.string() }),
  type: v.literal("agent.job.status"),
  object_type: v.literal("job"),
  details: JobSchema,
});
export type JobStatusEvent = v.InferOutput<typeof JobStatusEventSchema>;

export function jobStatusEvent(job: Job): JobStatusEvent {
  return { source: { job: job.id }, type: "agent.job.status", object_type: "job", details: job };
}
