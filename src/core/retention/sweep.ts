import { isRefusal, type Ledger, type Unit } from "../entities/ledger.ts";
import { readBeforeRemoval, removeJob } from "../entities/remove-job.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { RemovedBatch } from "../models/own-rows.ts";
import type { Store } from "../store/store.ts";
import { type DueGroup, dueGroups, type PolicyOf } from "./due-jobs.ts";

/**
 * Approximate number of jobs and cases that one transaction removes: few enough not to delay the writes of
 * agents.
 */
const BATCH = 200;
/** Number of jobs that are read together. */
const READ = 20;
/** Ids read per batch: finding them scans the index. */
const FOUND = 5000;

export interface SweepParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly policyOf: PolicyOf;
  /** Stops the sweep between two batches. */
  readonly isOver: () => boolean;
  /** Called when a plugin refuses the removal of a job. */
  readonly onRefused?: (jobId: string, error: Error) => void;
  /** Adds writes to the transaction of each batch. */
  readonly note: (unit: Unit, batch: RemovedBatch) => Promise<void>;
}

/** Removes what is due at `now`, batch by batch, and lets others write in between. */
export async function sweep(parts: SweepParts, now: Date): Promise<RemovedBatch[]> {
  const removed: RemovedBatch[] = [];
  for (const group of await dueGroups(parts.store, parts.policyOf, now)) {
    let kept = 0;
    for (;;) {
      const ids = await parts.store.table("Job").ids({ ...group.query, skip: kept, limit: FOUND });
      for (let at = 0; at < ids.length; ) {
        if (parts.isOver()) return removed;
        const begun = performance.now();
        const { looked, batch, left } = await removeOrSkip(parts, group, ids.slice(at, at + BATCH));
        at += looked;
        kept += left;
        if (batch) removed.push(batch);
        // At most half of the time is spent on removing.
        await new Promise((resolve) => setTimeout(resolve, performance.now() - begun));
      }
      if (ids.length < FOUND) break;
    }
  }
  return removed;
}

/** Removes the first of some jobs; one whose removal a plugin refuses is kept, and tried again at the next sweep. */
async function removeOrSkip(parts: SweepParts, group: DueGroup, ids: readonly string[]): Promise<Removed> {
  try {
    return await removeSome(parts, group, ids);
  } catch (error) {
    if (!isRefusal(error)) throw error;
    if (ids.length > 1) return removeOrSkip(parts, group, ids.slice(0, Math.ceil(ids.length / 2)));
    parts.onRefused?.(ids[0]!, error);
    return { looked: 1, batch: undefined, left: 1 };
  }
}

interface Removed {
  readonly looked: number;
  readonly batch: RemovedBatch | undefined;
  /** Jobs that are kept although their time is over. */
  readonly left: number;
}

/** Removes the first of some jobs, as far as they are still due. */
function removeSome(
  { ledger, note }: SweepParts,
  { agent, status, before }: DueGroup,
  ids: readonly string[],
): Promise<Removed> {
  return ledger.write(async (unit) => {
    const ends: string[] = [];
    let cases = 0;
    let looked = 0;
    let left = 0;
    for (const id of ids) {
      if (ends.length + cases >= BATCH) break;
      if (looked % READ === 0) await readBeforeRemoval(unit, ids.slice(looked, looked + READ));
      looked++;
      const job = await unit.tx.get("Job", id);
      // Somebody may have removed or restarted it in the meantime.
      if (job?.status !== status || job.finished_at === null) continue;
      if (Date.parse(job.finished_at) >= before) continue;
      if (await isNeeded(unit, job)) {
        left++;
        continue;
      }
      cases += await removeJob(unit, id, "retention");
      ends.push(job.finished_at);
    }
    if (ends.length === 0) return { looked, batch: undefined, left };
    ends.sort();
    const span = { oldest: ends[0]!, newest: ends.at(-1)! };
    const batch = { agent, status, jobs: ends.length, cases, ...span };
    await note(unit, batch);
    return { looked, batch, left };
  });
}

/** Whether a child is kept for its parent, which may not have its result yet. */
async function isNeeded(unit: Unit, { parent }: StoredJob): Promise<boolean> {
  const above = parent && (await unit.tx.get("Job", parent.job_id));
  return above ? !isTerminal(above.status) : false;
}
