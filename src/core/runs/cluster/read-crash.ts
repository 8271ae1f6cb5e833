import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import { countCrashes, crashOf, isCrash, lastDoing } from "./count-crashes.ts";
import type { UnderWay } from "./under-way.ts";

/** A crash of the process at which a job was under way. */
export interface Crash {
  /** Crashes in a row, this one included, without progress between them. */
  readonly count: number;
  /** With how many others that had crashed several times it had been resumed: which of them it was is not known. */
  readonly beside?: number | undefined;
  /** What the job was doing, for people. */
  readonly doing: string;
  /** The job's log, which was read for this. */
  readonly entries: readonly RunEntry[];
}

/** The crash at which a job was under way, and since which it was not resumed; `last` is the end of its log. */
export async function readCrash(
  { jobs, underWay }: { readonly jobs: Jobs; readonly underWay?: UnderWay | undefined },
  job: StoredJob,
  last: RunEntry | undefined,
): Promise<Crash | undefined> {
  const leftover = underWay?.leftovers().get(job.id);
  const mayBeTold = last?.type === "mark" && (last.mark === "restarted" || isCrash(last));
  if (job.run_count === 0 || !(leftover || mayBeTold)) return undefined;
  const entries = (await jobs.log(job.id)).map(({ entry }) => entry);
  const told = crashOf(entries, job.run_count);
  if (told) return { count: countCrashes(entries), doing: told.doing!, entries };
  if (!leftover) return undefined;
  return { count: countCrashes(entries) + 1, doing: leftover.doing ?? lastDoing(entries), entries };
}
