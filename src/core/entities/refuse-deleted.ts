import { ServiceError } from "../base/errors.ts";
import type { Transaction } from "../store/store.ts";

/**
 * Refuses inside a unit to make a job with the id of a deleted one: a repeated request must not do its work a second
 * time, and the job can still be restored.
 */
export async function refuseDeleted(tx: Transaction, id: string): Promise<void> {
  const row = await tx.get("DeletedJob", id);
  if (!row) return;
  throw new ServiceError("job_already_exists", `Job "${id}" was deleted on ${row.deleted_at}`, {
    detail:
      "Its id and its Idempotency-Key stay taken while it can be restored. Restore it, or delete it permanently and repeat the request; for other work use another id and key.",
  });
}
