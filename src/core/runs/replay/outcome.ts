import { toJsonValue } from "../../agents/json-value.ts";
import {
  causeOf,
  describeError,
  LONGEST_MESSAGE,
  LONGEST_STACK,
  messageOf,
  shorten,
} from "../../base/error-text.ts";
import type { CaseEnd } from "../../entities/change-case.ts";
import type { JobPatch } from "../../entities/change-job.ts";
import type { Ending } from "../../entities/ending.ts";
import type { StopReason, StoredJob } from "../../models/job.ts";
import type { JobResponse } from "../../models/job-response.ts";
import { NondeterminismError, QuestionExpiredError, type RunEnd } from "./run-errors.ts";
import { cancellingEndOf, STOPPED } from "./stopping.ts";

/** What became of a handler: it may have been left behind when it did not end in time. */
export type Outcome =
  | { readonly kind: "returned"; readonly value: unknown }
  | { readonly kind: "threw"; readonly error: unknown }
  | { readonly kind: "left" };

export interface JobEnd {
  readonly to: Ending;
  readonly reason: StopReason | null;
  readonly message: string;
  readonly cases: CaseEnd;
  patch(job: StoredJob): JobPatch;
}

/** How a job ends, as it is stored when its run ends. */
export type EndingOf = (stored: StoredJob) => JobEnd;

/**
 * How a job ends, from its handler's result and the requests to the run. A stop that is stored has decided it, also where
 * its run does not know of it yet.
 */
export function toEnding(
  outcome: Outcome,
  end: RunEnd | undefined,
  redact: (text: string) => string,
): EndingOf {
  const own = ownEnding(outcome, end, redact);
  return (stored) => (stored.status === "cancelling" ? ended(cancellingEndOf(stored), outcome) : own);
}

function ownEnding(outcome: Outcome, end: RunEnd | undefined, redact: (text: string) => string): JobEnd {
  if (end) return ended(end, outcome);
  if (outcome.kind === "threw") return threw(outcome.error, redact);
  if (outcome.kind === "left") return ended(STOPPED, outcome);
  try {
    return completed(toJsonValue(outcome.value, "The job's result"));
  } catch (error) {
    return threw(error, redact);
  }
}

function completed(result: unknown): JobEnd {
  const message = readMessage(result) ?? "Job completed";
  return {
    to: "completed",
    reason: null,
    message,
    cases: { to: "completed", name: "closed with its job" },
    patch: (job) => ({
      result,
      error: null,
      stop_reason: null,
      responses: [...job.responses, respond(job, "completed", { message, payload: toMap(result) })],
    }),
  };
}

function ended({ to, reason, message }: RunEnd, outcome: Outcome): JobEnd {
  return {
    to,
    reason,
    message,
    cases: { to, error: message, name: to },
    patch: (job) => ({
      // What the handler still gave is kept: the results so far.
      result: outcome.kind === "returned" ? resultOrNull(outcome.value) : job.result,
      error: message,
      stop_reason: reason,
      responses: [...job.responses, respond(job, to, { message, error_message: message })],
    }),
  };
}

function threw(error: unknown, redact: (text: string) => string): JobEnd {
  const expired = find(error, (one) => one instanceof QuestionExpiredError) as
    | QuestionExpiredError
    | undefined;
  const to = expired?.onTimeout === "cancel" ? "cancelled" : "failed";
  const reason = expired
    ? "question_expired"
    : error instanceof NondeterminismError
      ? "nondeterministic"
      : isOfProcess(error)
        ? "crashed"
        : "error";
  const message =
    shorten(redact(messageOf(error)), LONGEST_MESSAGE) || "The handler failed without a message";
  const traceback = shorten(redact(describeError(error)), LONGEST_STACK);
  return {
    to,
    reason,
    message,
    cases: { to, error: message, name: to },
    patch: (job) => ({
      error: message,
      stop_reason: reason,
      responses: [
        ...job.responses,
        respond(job, to, { message, error_message: message, error_traceback: traceback }),
      ],
    }),
  };
}

/** Whether an error says that the process of an isolated agent has ended. */
export function isOfProcess(error: unknown): boolean {
  return find(error, (one) => (one as Error).name === "ProcessEndedError") !== undefined;
}

function respond(job: StoredJob, status: JobResponse["status"], fields: Partial<JobResponse>): JobResponse {
  return {
    job_id: job.id,
    message: "",
    payload: null,
    error_message: null,
    error_traceback: null,
    ...fields,
    status,
  };
}

function readMessage(result: unknown): string | undefined {
  if (typeof result === "string" && result !== "") return result;
  const message = toMap(result)?.message;
  return typeof message === "string" && message !== "" ? message : undefined;
}

/** What a JobResponse's payload can hold of a result. */
function toMap(result: unknown): Record<string, unknown> | null {
  if (result === null || typeof result !== "object") return null;
  return Array.isArray(result) ? { result } : (result as Record<string, unknown>);
}

function resultOrNull(value: unknown): unknown {
  try {
    return toJsonValue(value, "The job's result");
  } catch {
    return null;
  }
}

function find(error: unknown, matches: (error: unknown) => boolean): unknown {
  for (let one = error, depth = 0; one instanceof Error && depth < 10; one = causeOf(one), depth++) {
    if (matches(one)) return one;
  }
  return undefined;
}
