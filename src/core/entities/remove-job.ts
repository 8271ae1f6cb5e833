import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import { messageEvent } from "../models/message-event.ts";
import type { Transaction } from "../store/store.ts";
import { eraseCasesOf, removeCase } from "./case-history.ts";
import { leaveRelatives } from "./change-job.ts";
import { freeKey } from "./idempotency-keys.ts";
import { unlinkFiles } from "./job-files.ts";
import { jobNotFound } from "./jobs.ts";
import { forgetRequests } from "./keyed-requests.ts";
import type { Unit } from "./ledger.ts";
import { removeMessages, removeWaits } from "./received-events.ts";

/** What names a job, and is asked for when it is removed. */
const NAMING = [
  ["Case", "job_id"],
  ["DeletedCase", "job_id"],
  ["Job", "parent_id"],
  ["JobFile", "job_id"],
  ["JobResult", "job_id"],
  ["KeyedRequest", "job_id"],
  ["ShownQuestion", "job_id"],
] as const;
/** Number of cases of several jobs that are read together. */
const MOST_CASES = 200;

/**
 * Reads inside a unit what the removal of some jobs asks for, all at the same time: a database answers it in few statements.
 */
export async function readBeforeRemoval({ tx }: Unit, ids: readonly string[]): Promise<void> {
  const reads = ids.flatMap((id) => [
    tx.get("Job", id),
    tx.last("Run", id),
    tx.get("EventName", messageEvent(id)),
    ...NAMING.map(([table, field]) => tx.ids(table, field, id)),
  ]);
  await Promise.all(reads);
  const cases = await Promise.all(ids.map((id) => caseIdsOf(tx, id)));
  await readCases(tx, cases.flat().slice(0, MOST_CASES));
}

async function readCases(tx: Transaction, ids: readonly string[]): Promise<void> {
  await Promise.all(ids.flatMap((id) => [tx.get("Case", id), tx.last("CaseUpdate", id)]));
}

/** Removes a job with its cases permanently inside a unit; resolves with the number of cases. */
export async function removeJob(unit: Unit, id: string, by?: string): Promise<number> {
  const job = await unit.tx.get("Job", id);
  if (!job) throw jobNotFound(id);
  const removed = await removeCasesOf(unit, id, by);
  await eraseCasesOf(unit, id);
  if (!isTerminal(job.status)) await removeWaits(unit, id);
  await unit.tx.remove("Job", id);
  await eraseRest(unit, job);
  await unit.emit({ kind: "job:deleted", job, by });
  await unit.emit({ kind: "job:erased", job, by });
  await leaveRelatives(unit, job);
  return removed;
}

/** Removes inside a unit what is stored of a job besides itself and its cases. */
export async function eraseRest(unit: Unit, job: StoredJob): Promise<void> {
  await freeKey(unit.tx, job);
  await forgetRequests(unit, job.id);
  await removeMessages(unit, job.id);
  await unlinkFiles(unit, job.id);
  await unit.tx.clear("Run", job.id);
}

/** The ids of a job's cases inside a unit, oldest first. */
export function caseIdsOf(tx: Transaction, jobId: string): Promise<string[]> {
  return tx.ids("Case", "job_id", jobId);
}

/** Removes the cases of a job inside a unit; the caller must update the job's count. */
export async function removeCasesOf(unit: Unit, jobId: string, by?: string): Promise<number> {
  const ids = await caseIdsOf(unit.tx, jobId);
  await readCases(unit.tx, ids);
  for (const caseId of ids) {
    const item = await unit.tx.get("Case", caseId);
    if (!item) continue;
    await removeCase(unit, item, by);
  }
  return ids.length;
}
