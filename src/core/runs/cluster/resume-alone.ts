import type { StoredJob } from "../../models/job.ts";
import { UNFINISHED } from "../../models/job-state.ts";
import type { Position } from "../../store/store.ts";
import type { RequestParts } from "../runner-parts.ts";
import { BATCH, type Claimant, claimAtStart } from "./claim-jobs.ts";
import { readCrash } from "./read-crash.ts";
import { findSuspendedToEnd } from "./suspended-to-end.ts";

/** Claims all jobs that the end of the last process left unfinished: nobody else has the store. */
export async function resumeAlone(parts: RequestParts, aliveUntil?: string): Promise<void> {
  const { jobs, log } = parts;
  const found: StoredJob[] = [];
  let after: Position | undefined;
  do {
    // Those that are suspended sleep on: nothing of them was interrupted.
    const where = { status: UNFINISHED, wake_at: null };
    const page = await jobs.list({ where, sort: "created_at", limit: BATCH, after });
    found.push(...page.items);
    after = page.next;
  } while (after);
  found.push(...(await findSuspendedToEnd(parts)));
  settleEnded(parts, found);
  if (found.length === 0 && (await jobs.damaged()).length === 0) return;
  log.info("resuming unfinished jobs", { jobs: found.length });
  await claimAtStart({ ...parts, claimant: claimantOf(parts, aliveUntil) }, found);
}

function claimantOf(parts: RequestParts, aliveUntil: string | undefined): Claimant {
  return {
    aliveUntil,
    lossOf: async (job, last) => ({ crash: await readCrash(parts, job, last), isWatched: false }),
    markOf: ({ run_count }, { crash }) => (crash ? { run: run_count } : {}),
    later: () => [],
    own: async () => {},
    beforeRestart: async () => {},
    again: (changed) => changed.filter(({ id }) => !parts.runs.isRunning(id)),
  };
}

/** Nothing follows from a crash for a job that has ended, or was never stored. */
function settleEnded({ underWay }: RequestParts, left: readonly StoredJob[]): void {
  if (!underWay) return;
  const unfinished = new Set(left.map(({ id }) => id));
  for (const id of [...underWay.leftovers().keys()]) if (!unfinished.has(id)) underWay.settle(id);
}
