import { ServiceError } from "../base/errors.ts";
import type { DeletedJob } from "../models/deleted-job.ts";
import type { StoredJob } from "../models/job.ts";
import { laterOf } from "../store/timestamp.ts";
import { eraseCasesOf, splitHistory } from "./case-history.ts";
import { leaveRelatives } from "./change-job.ts";
import { takeKey } from "./idempotency-keys.ts";
import { jobNotFound } from "./jobs.ts";
import type { Unit } from "./ledger.ts";
import { caseIdsOf, eraseRest } from "./remove-job.ts";

/*
 * A deleted job and its cases are in tables of their own, so that no list, search, count or export has them. Their
 * logs stay where they are, and their ids stay taken.
 */

/** Deletes an ended job inside a unit so that it can be restored; resolves with the number of its cases. */
export async function putAside(unit: Unit, id: string, by?: string): Promise<number> {
  const job = await unit.tx.get("Job", id);
  if (!job) throw jobNotFound(id);
  const caseIds = await caseIdsOf(unit.tx, id);
  for (const caseId of caseIds) {
    const item = await unit.tx.get("Case", caseId);
    if (!item) continue;
    await unit.tx.remove("Case", caseId);
    await unit.tx.insert("DeletedCase", item);
    await unit.emit({ kind: "case:deleted", case: splitHistory(item).item, by });
  }
  await unit.record(id, { type: "mark", mark: "note", message: "deleted", by });
  await unit.tx.remove("Job", id);
  await unit.tx.insert("DeletedJob", { ...job, deleted_at: unit.now, deleted_by: by ?? null });
  // A job of version 0.1.0 has no row: without one, its key would start a second job.
  if (job.idempotency_key !== null) await takeKey(unit.tx, job.idempotency_key, id);
  await unit.emit({ kind: "job:deleted", job, by });
  await leaveRelatives(unit, job);
  return caseIds.length;
}

/** Restores a deleted job with its cases inside a unit, as it was. */
export async function restoreJob(unit: Unit, id: string, by?: string): Promise<StoredJob> {
  const { deleted_at: _at, deleted_by: _by, ...deleted } = await deletedJob(unit, id);
  const job = { ...deleted, updated_at: laterOf(unit.now, deleted.updated_at) };
  // Only a version that knows no deleted jobs makes another one of their id.
  if (await unit.tx.get("Job", id)) throw isTaken(`Job "${id}"`);
  for (const caseId of await unit.tx.ids("DeletedCase", "job_id", id)) {
    const item = await unit.tx.get("DeletedCase", caseId);
    // One that was deleted alone stays so.
    if (!item || item.deleted_at !== undefined) continue;
    if (await unit.tx.get("Case", caseId)) throw isTaken(`Case "${caseId}"`);
    await unit.tx.remove("DeletedCase", caseId);
    await unit.tx.insert("Case", item);
  }
  await unit.tx.remove("DeletedJob", id);
  await unit.tx.insert("Job", job);
  await unit.record(id, { type: "mark", mark: "note", message: "restored", by });
  await unit.emit({ kind: "job:restored", job, by });
  return job;
}

/** Removes a deleted job permanently inside a unit; resolves with the job and the number of its cases. */
export async function eraseJob(
  unit: Unit,
  id: string,
  by?: string,
): Promise<{ readonly job: DeletedJob; readonly cases: number }> {
  const job = await deletedJob(unit, id);
  const cases = await eraseCasesOf(unit, id);
  await unit.tx.remove("DeletedJob", id);
  await eraseRest(unit, job);
  await unit.emit({ kind: "job:erased", job, by });
  return { job, cases };
}

async function deletedJob(unit: Unit, id: string): Promise<DeletedJob> {
  const row = await unit.tx.get("DeletedJob", id);
  if (row) return row;
  if (!(await unit.tx.get("Job", id))) throw jobNotFound(id);
  throw new ServiceError("invalid_transition", `Job "${id}" is not deleted`, {
    detail: "It is in the list of jobs.",
  });
}

function isTaken(what: string): ServiceError {
  return new ServiceError("job_already_exists", `${what} exists again: another one has its id`, {
    detail: "Delete that one permanently, then restore this job.",
  });
}
