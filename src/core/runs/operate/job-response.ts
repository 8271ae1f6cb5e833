import { toJsonValue } from "../../agents/json-value.ts";
import { isRecord } from "../../base/is-record.ts";
import type { EntityStatus } from "../../models/entity-status.ts";
import type { StopReason, StoredJob } from "../../models/job.ts";
import type { JobResponse } from "../../models/job-response.ts";
import { isIn } from "../../models/job-state.ts";
import { toSuspended } from "../../models/suspended.ts";

const MESSAGES: Readonly<Record<EntityStatus, string>> = {
  stopped: "The job is queued",
  in_progress: "The job is in progress",
  cancelling: "The job is being cancelled",
  awaiting: "The job is awaiting an answer",
  completed: "The job is completed",
  failed: "The job has failed",
  cancelled: "The job is cancelled",
};

/** Why a job does not run. */
const HELD: Partial<Record<StopReason, string>> = {
  code_changed: "The job is held because its record does not fit the code",
  crash_loop: "The job is held because the process ended each time that it ran",
  unreadable_parameters: "The job is held because its parameters cannot be read with the present RSA key",
  pulled: "The job is a copy of another service's job, and does not run here",
};

/** The newest response of a job, or its status in words; `wait` says what a queued job waits for besides its turn. */
export function describeJob(job: StoredJob, wait?: string): JobResponse {
  const response = newestOf(job, wait);
  const suspended = toSuspended(job.suspended);
  if (!job.forked_from && !suspended) return response;
  return {
    ...response,
    ...(job.forked_from && { forked_from: job.forked_from }),
    ...(suspended && { suspended }),
  };
}

function newestOf(job: StoredJob, wait?: string): JobResponse {
  const newest = job.responses.at(-1);
  if (newest?.status === job.status) return newest;
  return {
    job_id: job.id,
    status: job.status,
    message: (isIn(job, "held", "pulled") && HELD[job.stop_reason!]) || (wait ?? MESSAGES[job.status]),
    payload: null,
    error_message: job.error,
    error_traceback: null,
  };
}

/** What a method answered, as a response about its job. */
export function toJobResponse(answer: unknown, job: StoredJob | undefined, jobId = ""): JobResponse {
  const value = toJsonValue(answer, "The method's result");
  const map: Partial<JobResponse> = isRecord(value) ? value : {};
  const isResponse = typeof map.message === "string" && "status" in map;
  const text = typeof value === "string" ? value : map.message;
  return {
    job_id: job?.id ?? jobId,
    status: job?.status ?? "completed",
    message: text ?? (job ? MESSAGES[job.status] : "Done"),
    payload: isRecord(value) ? value : value === null ? null : { result: value },
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
