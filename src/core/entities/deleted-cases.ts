import { ServiceError } from "../base/errors.ts";
import type { StoredCase } from "../models/case.ts";
import type { DeletedCase } from "../models/deleted-job.ts";
import { isTerminal } from "../models/entity-status.ts";
import { laterOf } from "../store/timestamp.ts";
import { splitHistory } from "./case-history.ts";
import { caseNotFound } from "./cases.ts";
import { endCase } from "./change-case.ts";
import { changeJob } from "./change-job.ts";
import type { Unit } from "./ledger.ts";

/** Deletes a case inside a unit so that it can be restored, cancelled where it was open; its job continues. */
export async function putCaseAside(unit: Unit, id: string, by?: string): Promise<void> {
  const found = await unit.tx.get("Case", id);
  if (!found) throw caseNotFound(id);
  const item = isTerminal(found.status)
    ? found
    : await endCase(unit, id, { to: "cancelled", error: "The case was deleted", name: "cancelled" });
  await unit.tx.remove("Case", id);
  await unit.tx.insert("DeletedCase", { ...item, deleted_at: unit.now, deleted_by: by ?? null });
  if (await unit.tx.get("Job", item.job_id)) {
    await unit.record(item.job_id, { type: "mark", mark: "note", message: `case "${id}" deleted`, by });
    await changeJob(unit, item.job_id, null, (job) => ({ ...job, case_count: job.case_count - 1 }));
  }
  await unit.emit({ kind: "case:deleted", case: splitHistory(item).item, by });
}

/** Restores inside a unit a case that was deleted alone. */
export async function restoreCase(unit: Unit, id: string, by?: string): Promise<StoredCase> {
  const { deleted_at: _at, deleted_by: _by, ...deleted } = await deletedCase(unit, id);
  if (!(await unit.tx.get("Job", deleted.job_id)))
    throw new ServiceError("invalid_transition", `The job of case "${id}" is deleted`, {
      detail: `Restore job "${deleted.job_id}" first.`,
    });
  const item = { ...deleted, updated_at: laterOf(unit.now, deleted.updated_at) };
  await unit.tx.remove("DeletedCase", id);
  await unit.tx.insert("Case", item);
  await unit.record(item.job_id, { type: "mark", mark: "note", case_id: id, message: "case restored", by });
  await changeJob(unit, item.job_id, null, (job) => ({ ...job, case_count: job.case_count + 1 }));
  await unit.emit({ kind: "case:restored", case: splitHistory(item).item, by });
  return item;
}

/** Removes permanently inside a unit a case that was deleted alone. */
export async function eraseCase(unit: Unit, id: string): Promise<DeletedCase> {
  const item = await deletedCase(unit, id);
  await unit.tx.remove("DeletedCase", id);
  await unit.tx.clear("CaseUpdate", id);
  return item;
}

async function deletedCase(unit: Unit, id: string): Promise<DeletedCase> {
  const row = await unit.tx.get("DeletedCase", id);
  if (row?.deleted_at !== undefined) return row;
  if (row)
    throw new ServiceError("invalid_transition", `Case "${id}" was deleted with its job`, {
      detail: `Restore job "${row.job_id}", or delete it permanently.`,
    });
  if (!(await unit.tx.get("Case", id))) throw caseNotFound(id);
  throw new ServiceError("invalid_transition", `Case "${id}" is not deleted`, {
    detail: "It is in the list of cases.",
  });
}
