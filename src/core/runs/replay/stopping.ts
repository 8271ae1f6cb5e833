import type { JobPatch } from "../../entities/change-job.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEnd } from "./run-errors.ts";

/** Why a job ends that a person stops. */
export const STOPPED: RunEnd = { to: "cancelled", reason: "stopped", message: "The job was stopped" };

/** What a job has while its stop is under way: should the process end, the next one ends it for the same reason. */
export function toCancelling(end: RunEnd): JobPatch {
  const { reason, message } = end;
  return { open_questions: 0, ...(end !== STOPPED && { stop_reason: reason, error: message }) };
}

/** The same, read from a job whose stop is under way. */
export function cancellingEndOf({ stop_reason: reason, error }: StoredJob): RunEnd {
  const isOwn = (reason === "parent_ended" || reason === "stopped") && error !== null;
  return isOwn ? { to: "cancelled", reason, message: error } : STOPPED;
}
