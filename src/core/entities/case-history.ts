import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import type { Unit } from "./ledger.ts";

/** A case of version 0.1.0 contains its own history. */
interface WithHistory extends StoredCase {
  readonly updates?: CaseNodeUpdate[];
}

/**
 * A case as it is stored now, and the history that it contains if version 0.1.0 stored it. Such a history
 * moves to the log with the next change of the case.
 */
export function splitHistory(stored: WithHistory): { item: StoredCase; history?: CaseNodeUpdate[] } {
  const { updates: history, ...item } = stored;
  if (!history) return { item };
  const last_error = history.findLast(({ error }) => error !== null)?.error ?? null;
  return { item: { ...item, update_count: history.length, last_error }, history };
}

/** Removes a case with its history inside a unit; the caller must update the job's count. */
export async function removeCase(unit: Unit, stored: StoredCase, by?: string): Promise<void> {
  await unit.tx.remove("Case", stored.id);
  await unit.tx.clear("CaseUpdate", stored.id);
  await unit.emit({ kind: "case:deleted", case: splitHistory(stored).item, by });
}

/** Removes permanently inside a unit all deleted cases of a job; resolves with how many were deleted with it. */
export async function eraseCasesOf(unit: Unit, jobId: string): Promise<number> {
  let withJob = 0;
  for (const id of await unit.tx.ids("DeletedCase", "job_id", jobId)) {
    if ((await unit.tx.get("DeletedCase", id))?.deleted_at === undefined) withJob++;
    await unit.tx.remove("DeletedCase", id);
    await unit.tx.clear("CaseUpdate", id);
  }
  return withJob;
}
