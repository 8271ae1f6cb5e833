import type { StoredJob } from "../../core/models/job.ts";

/** Tasks of one mission belong together. */
export function contextOf(job: Pick<StoredJob, "job_context">): string {
  return job.job_context.mission_id;
}

/** The state of a job with so many open questions, as the protocol names it. */
export function stateOf({ status }: Pick<StoredJob, "status">, questions: number): string {
  switch (status) {
    case "completed":
      return "TASK_STATE_COMPLETED";
    case "failed":
      return "TASK_STATE_FAILED";
    case "cancelled":
      return "TASK_STATE_CANCELED";
    case "stopped":
      return "TASK_STATE_SUBMITTED";
    default:
      return questions > 0 && status !== "cancelling" ? "TASK_STATE_INPUT_REQUIRED" : "TASK_STATE_WORKING";
  }
}
