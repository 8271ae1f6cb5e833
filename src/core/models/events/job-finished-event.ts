import * as v from "valibot";
import { type Job, JobSchema } from "../job.ts";

/** A job has ended: `agent.job.end` if it completed, `agent.job.error` if it failed or was cancelled. */
export const JobFinishedEventSchema = v.object({
  source: v.object({ job: v.string() }),
  type: v.picklist(["agent.job.end", "agent.job.error"]),
  object_type: v.literal("job"),
  details: JobSchema,
});
export type JobFinishedEvent = v.InferOutput<typeof JobFinishedEventSchema>;

export function jobFinishedEvent(job: Job): JobFinishedEvent {
  return {
    source: { job: job.id },
    type: job.status === "completed" ? "agent.job.end" : "agent.job.error",
    object_type: "job",
    details: job,
  };
}
