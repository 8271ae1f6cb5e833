import type { StoredJob } from "../../models/job.ts";
import type { MarkEntry, RunEntry } from "../../models/run-entry.ts";
import { RunRecord } from "../replay/run-record.ts";
import { countCrashes, isProgress, lastDoing } from "./count-crashes.ts";
import type { Crash } from "./read-crash.ts";

/** The end of the instance that owned a job, where several share the store. */
export interface Loss {
  /** Set where the job was under way. */
  readonly crash?: Crash | undefined;
  /** Whether its log has that crash: it was not resumed since. */
  readonly isKnown?: boolean;
  /** Whether what the job does next must be stored before it does it. */
  readonly isWatched: boolean;
}

/**
 * Whether a job was under way when its instance died, as the store shows it. A job that was watched has stored what it
 * did. One that was not watched, and that has a wait that is not over, may only have waited: it is watched from then on,
 * so that its next crash counts.
 */
export function readLoss(
  job: StoredJob,
  entries: readonly RunEntry[],
  { startsOver }: { readonly startsOver: boolean },
): Loss {
  const at = entries.findLastIndex(isInterrupted);
  const last = entries[at] as MarkEntry | undefined;
  // It was claimed, and its turn had not come.
  if (last?.run !== undefined && job.run_count === last.run + 1) {
    const count = last.watched ? countCrashes(entries) : 0;
    if (count === 0) return { isWatched: last.watched === true };
    const beside = entries.slice(0, at).findLast(isInterrupted)?.beside;
    return { isWatched: true, isKnown: true, crash: { count, beside, doing: lastDoing(entries), entries } };
  }
  const isWatched =
    last?.watched === true && (startsOver || !entries.some((entry, line) => line > at && isProgress(entry)));
  const known = job.doing?.run === job.run_count ? job.doing.what : undefined;
  if (isWatched ? known === null : mayOnlyWait(entries)) return { isWatched: true };
  const doing = (isWatched && known) || lastDoing(entries);
  const count = countCrashes(entries) + 1;
  return { isWatched: true, crash: { count, beside: last?.beside, doing, entries } };
}

/** Whether it waits for something that nothing in its log ends. */
function mayOnlyWait(entries: readonly RunEntry[]): boolean {
  return RunRecord.read(entries)
    .open()
    .some(({ answer }) => answer === undefined);
}

function isInterrupted(entry: RunEntry): entry is MarkEntry {
  return entry.type === "mark" && entry.mark === "interrupted";
}
