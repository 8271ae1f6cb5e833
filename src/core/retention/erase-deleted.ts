import type { RetentionPolicy } from "../agents/retention-policy.ts";
import { eraseJob } from "../entities/deleted-jobs.ts";
import { isRefusal, type Ledger } from "../entities/ledger.ts";
import type { ListQuery, Store } from "../store/store.ts";
import { dueGroups } from "./due-jobs.ts";

/** Ids read at a time. */
const FOUND = 500;

export interface EraseParts {
  readonly store: Store;
  readonly ledger: Ledger;
  /** Milliseconds that deleted jobs are kept; `null` keeps them until their retention. */
  readonly deletedKeep: number | null;
  readonly policyOf: (agent: string) => RetentionPolicy;
  /** Stops between two jobs. */
  readonly isOver: () => boolean;
  /** Called when a plugin refuses the removal of a job. */
  readonly onRefused?: (jobId: string, error: Error) => void;
}

/** Removes deleted jobs permanently whose time is over, or which retention would remove; returns how many. */
export async function eraseDeleted(parts: EraseParts, now: Date): Promise<number> {
  const { store, deletedKeep, policyOf } = parts;
  const queries: ListQuery[] = [];
  if (deletedKeep !== null)
    queries.push({ where: { deleted_at: { lt: now.getTime() - deletedKeep } }, sort: "deleted_at" });
  for (const { query } of await dueGroups(store, policyOf, now, "DeletedJob")) queries.push(query);
  let erased = 0;
  for (const query of queries) erased += await eraseFound(parts, query);
  return erased;
}

async function eraseFound(parts: EraseParts, query: ListQuery): Promise<number> {
  const { store, ledger, isOver, onRefused } = parts;
  let erased = 0;
  for (let kept = 0; ; ) {
    const ids = await store.table("DeletedJob").ids({ ...query, skip: kept, limit: FOUND });
    for (const id of ids) {
      if (isOver()) return erased;
      try {
        const isErased = await ledger.write(async (unit) => {
          // Somebody may have restored it in the meantime.
          if (!(await unit.tx.get("DeletedJob", id))) return false;
          await eraseJob(unit, id, "retention");
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
