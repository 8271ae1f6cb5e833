import { eraseCase } from "../entities/deleted-cases.ts";
import { eraseJob } from "../entities/deleted-jobs.ts";
import { isRefusal, type Ledger } from "../entities/ledger.ts";
import type { ListQuery, Store } from "../store/store.ts";
import { dueGroups, type PolicyOf } from "./due-jobs.ts";

/** Ids read at a time. */
const FOUND = 500;

export interface EraseParts {
  readonly store: Store;
  readonly ledger: Ledger;
  /** Milliseconds that deleted jobs are kept; `null` keeps them until their retention. */
  readonly deletedKeep: number | null;
  readonly policyOf: PolicyOf;
  /** Stops between two jobs. */
  readonly isOver: () => boolean;
  /** Called when a plugin refuses the removal of a job. */
  readonly onRefused?: (jobId: string, error: Error) => void;
}

/** Removes permanently what was deleted and whose time is over, or which retention would remove; returns how many jobs. */
export async function eraseDeleted(parts: EraseParts, now: Date): Promise<number> {
  const { store, deletedKeep, policyOf } = parts;
  let erased = 0;
  if (deletedKeep !== null) {
    const past = { where: { deleted_at: { lt: now.getTime() - deletedKeep } }, sort: "deleted_at" };
    // Cases that were deleted alone; those of jobs go with their jobs.
    await eraseFound(parts, "DeletedCase", past);
    erased += await eraseFound(parts, "DeletedJob", past);
  }
  for (const { query } of await dueGroups(store, policyOf, now, "DeletedJob"))
    erased += await eraseFound(parts, "DeletedJob", query);
  return erased;
}

async function eraseFound(
  parts: EraseParts,
  table: "DeletedJob" | "DeletedCase",
  query: ListQuery,
): Promise<number> {
  const { store, ledger, isOver, onRefused } = parts;
  let erased = 0;
  for (let kept = 0; ; ) {
    const ids = await store.table(table).ids({ ...query, skip: kept, limit: FOUND });
    for (const id of ids) {
      if (isOver()) return erased;
      try {
        const isErased = await ledger.write(async (unit) => {
          // Somebody may have restored it in the meantime.
          if (!(await unit.tx.get(table, id))) return false;
          if (table === "DeletedJob") await eraseJob(unit, id, "retention");
          else await eraseCase(unit, id);
          return true;
        });
        if (isErased) erased++;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        onRefused?.(id, error);
        kept++;
      }
    }
    if (ids.length < FOUND) return erased;
  }
}
