import { ServiceError } from "../base/errors.ts";
import type { StoredJob } from "../models/job.ts";
import { StoreConflictError } from "../store/store.ts";
import { moved, noteChange } from "./change-job.ts";
import { takeKey } from "./idempotency-keys.ts";
import type { Unit } from "./ledger.ts";
import { refuseDeleted } from "./refuse-deleted.ts";

/** What a job is created from; the rest is filled in. */
export type NewJob = Pick<
  StoredJob,
  "id" | "name" | "agent_name" | "job_context" | "job_fields" | "fingerprint" | "encrypted_agent_parameters"
> &
  Partial<
    Pick<
      StoredJob,
      | "agent_parameters"
      | "access"
      | "idempotency_key"
      | "agent_version"
      | "code_fingerprint"
      | "parent"
      | "schedule"
      | "forked_from"
      | "concurrency_key"
      | "rate_key"
      | "tags"
    >
  >;

/**
 * Stores a new job inside a unit, with `begin` together with the beginning of its first run; a repeated
 * request returns the job that it created at first. The caller stores its first `cases`.
 */
export async function createJob(
  unit: Unit,
  input: NewJob,
  { begin = false, cases = 0, owner = null as string | null } = {},
): Promise<{ job: StoredJob; created: boolean }> {
  // What each end of a job changes comes first, then what few jobs change: a store that has room for the next version
  // beside this one logs the rest once.
  const job: StoredJob = {
    status: "stopped",
    owner: null,
    finished_at: null,
    updated_at: unit.now,
    result: null,
    responses: [],
    payload: null,
    error: null,
    case_count: cases,
    open_questions: 0,
    total_cost: 0,
    run_count: 0,
    stop_reason: null,
    suspended: null,
    held: null,
    agent_version: null,
    code_fingerprint: null,
    created_at: unit.now,
    agent_parameters: null,
    idempotency_key: null,
    schedule: null,
    concurrency_key: null,
    parent: null,
    forked_from: null,
    pulled_from: null,
    ...input,
  };
  const begun = begin ? moved(unit, job, ["start_work"], { run_count: 1, ...(owner && { owner }) }) : job;
  try {
    // Not asked for before: most are new, and a store across a network finds out when it inserts them.
    await unit.tx.insert("Job", begun);
  } catch (error) {
    const existing = error instanceof StoreConflictError && (await unit.tx.get("Job", input.id));
    if (!existing) throw error;
    return { job: sameRequest(existing, input), created: false };
  }
  if (job.idempotency_key !== null) await takeKey(unit.tx, job.idempotency_key, job.id);
  const line = await unit.record(job.id, { at: unit.now, type: "status", from: null, to: job.status });
  // Only a deleted job has left lines.
  if (line > 1) await refuseDeleted(unit.tx, job.id);
  const told = unit.emit({ kind: "job:created", job });
  if (told) await told;
  if (begin) await noteChange(unit, job, begun);
  return { job: begun, created: true };
}

/** The existing job, if it was created by the same request. */
export function sameRequest(
  existing: StoredJob,
  request: Pick<NewJob, "id" | "agent_name" | "fingerprint">,
): StoredJob {
  if (existing.fingerprint === request.fingerprint && existing.agent_name === request.agent_name)
    return existing;
  throw new ServiceError("job_already_exists", `Job "${existing.id}" already exists with different content`, {
    detail: "Use a new job_id, or repeat the original request unchanged.",
  });
}
