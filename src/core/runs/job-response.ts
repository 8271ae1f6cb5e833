import { toJsonValue } from "../agents/json-value.ts";
import type { EntityStatus } from "../models/entity-status.ts";
import { isHeld, type StoredJob } from "../models/job.ts";
import type { JobResponse } from "../models/job-response.ts";

const MESSAGES: Readonly<Record<EntityStatus, string>> = {
  stopped: "The job is queued",
  in_progress: "The job is in progress",
  cancelling: "The job is being cancelled",
  awaiting: "The job is awaiting an answer",
  completed: "The job is completed",
  failed: "The job has failed",
  cancelled: "The job is cancelled",
};

/** The newest response of a job, or its status in words; `wait` says what a queued job waits for besides its turn. */
export function describeJob(job: StoredJob, wait?: string): JobResponse {
  const response = newestOf(job, wait);
  return job.forked_from ? { ...response, forked_from: job.forked_from } : response;
}

function newestOf(job: StoredJob, wait?: string): JobResponse {
  const newest = job.responses.at(-1);
  if (newest?.status === job.status) return newest;
  return {
    job_id: job.id,
    status: job.status,
    message: isHeld(job)
      ? "The job is held until an operator decides what happens to it"
      : (wait ?? MESSAGES[job.status]),
    payload: null,
    error_message: job.error,
    error_traceback: null,
  };
}

/** What a method answered, as a response about its job. */
export function toJobResponse(answer: unknown, job: StoredJob | undefined, jobId = ""): JobResponse {
  const value = toJsonValue(answer, "The method's result");
  const isMap = value !== null && typeof value === "object" && !Array.isArray(value);
  const map = isMap ? (value as Partial<JobResponse>) : {};
  const isResponse = typeof map.message === "string" && "status" in map;
  const text = typeof value === "string" ? value : map.message;
  return {
    job_id: job?.id ?? jobId,
    status: job?.status ?? "completed",
    message: text ?? (job ? MESSAGES[job.status] : "Done"),
    payload: isMap ? (value as Record<string, unknown>) : value === null ? null : { result: value },
    error_message: null,
    error_traceback: null,
    ...(isResponse && { ...pick(map), job_id: job?.id ?? map.job_id ?? jobId }),
  };
}

/** The fields of a response that a method gave itself. */
function pick(map: Partial<JobResponse>): Partial<JobResponse> {
  const { status, payload = null, error_message = null, error_traceback = null } = map;
  const isStatus = typeof status === "string" && status in MESSAGES;
  return { ...(isStatus && { status }), payload, error_message, error_traceback };
}
