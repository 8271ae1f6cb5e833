import type { Ledger } from "../entities/ledger.ts";
import { removeEvent } from "../entities/received-events.ts";
import type { Store } from "../store/store.ts";

/** Events that one transaction removes. */
const BATCH = 200;

interface Parts {
  readonly store: Store;
  readonly ledger: Ledger;
  /** Stops between two batches. */
  readonly isOver: () => boolean;
}

/** Removes the events that were received before a time, except those that a job has yet to take; returns how many. */
export async function removeEvents({ store, ledger, isOver }: Parts, before: number): Promise<number> {
  const query = { where: { created_at: { lt: before } }, sort: "created_at", limit: BATCH };
  let removed = 0;
  for (let kept = 0; !isOver(); ) {
    const ids = await store.table("ReceivedEvent").ids({ ...query, skip: kept });
    const gone = await ledger.write(async (unit) => {
      let count = 0;
      for (const id of ids) if (await removeEvent(unit, id)) count++;
      return count;
    });
    removed += gone;
    kept += ids.length - gone;
    if (ids.length < BATCH) break;
  }
  return removed;
}
