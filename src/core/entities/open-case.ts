import { createHash } from "node:crypto";
import type { AccountRef } from "../models/account.ts";
import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import { changeJob } from "./change-job.ts";
import { jobNotFound } from "./jobs.ts";
import type { Unit } from "./ledger.ts";

export interface NewCase {
  /** Unique in the job. */
  readonly ref: string;
  readonly name: string;
  readonly description: string;
}

/** Opens a case inside a unit and adds it to its job. */
export async function openCase(
  unit: Unit,
  jobId: string,
  input: NewCase,
  account: AccountRef,
  totalCost?: number,
): Promise<StoredCase> {
  const job = await unit.tx.get("Job", jobId);
  if (!job) throw jobNotFound(jobId);
  const id = await freeCaseId(unit, jobId, input.ref);
  const item: StoredCase = {
    id,
    job_id: jobId,
    ref: input.ref,
    name: input.name,
    account,
    description: input.description,
    status: "in_progress",
    update_count: 0,
    last_error: null,
    total_cost: 0,
    final_delivery: null,
    finished_at: null,
    created_at: unit.now,
    updated_at: unit.now,
    question: null,
  };
  await unit.tx.insert("Case", item);
  await changeJob(unit, jobId, null, (current) => ({
    ...current,
    case_count: current.case_count + 1,
    total_cost: totalCost ?? current.total_cost,
  }));
  await unit.emit({ kind: "case:opened", case: item });
  return item;
}

/**
 * Stores a copy of another job's case inside a unit, with an id of its own. Participants and observers are notified
 * of it when its job begins; the caller counts it.
 */
export async function insertCopy(
  unit: Unit,
  jobId: string,
  { item, updates }: { readonly item: StoredCase; readonly updates: readonly CaseNodeUpdate[] },
): Promise<string> {
  const id = await freeCaseId(unit, jobId, item.ref);
  await unit.tx.insert("Case", { ...item, id, job_id: jobId, updated_at: unit.now });
  for (const update of updates) await unit.tx.append("CaseUpdate", id, update);
  return id;
}

/** Notifies inside a unit of the cases that a job was created with. */
export async function notifyOfCopies(unit: Unit, jobId: string): Promise<void> {
  for (const id of await unit.tx.ids("Case", "job_id", jobId)) {
    const item = await unit.tx.get("Case", id);
    if (item) await unit.emit({ kind: "case:opened", case: item });
  }
}

/**
 * Two jobs with the same input use the same case ids: the later job's cases are prefixed with the job's id.
 */
async function freeCaseId(unit: Unit, jobId: string, ref: string): Promise<string> {
  if (await isFree(unit, ref)) return ref;
  const qualified = `${jobId}-${ref}`;
  if (qualified.length <= 200 && (await isFree(unit, qualified))) return qualified;
  return createHash("sha256").update(`${jobId}\n${ref}`).digest("base64url");
}

/** Whether no case has an id, not even a deleted one. */
async function isFree({ tx }: Unit, id: string): Promise<boolean> {
  const found = await Promise.all([tx.get("Case", id), tx.get("DeletedCase", id)]);
  return found.every((item) => item === undefined);
}
