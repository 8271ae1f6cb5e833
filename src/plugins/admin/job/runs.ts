import type { StoredCase } from "../../../core/models/case.ts";
import { type EntityStatus, isTerminal } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { RunEntry } from "../../../core/models/run-entry.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import { AttemptCounter, type LastAttempts } from "../views/attempts.ts";

/** What a job did between its start, or a retry, and an end. */
export interface JobRun {
  /** From 1. */
  readonly number: number;
  readonly status: EntityStatus;
  /** ISO 8601. */
  readonly from: string;
  /** ISO 8601; null while it is open. */
  readonly to: string | null;
  readonly entries: readonly LogEntry<RunEntry>[];
  /** The last attempts of the runs before. */
  readonly before: LastAttempts;
}

/** The runs of a job: a retry after an end begins another one. */
export function runsOf(job: StoredJob, entries: readonly LogEntry<RunEntry>[]): JobRun[] {
  const counter = new AttemptCounter();
  const begin = (from: string) => ({
    ...{ from, to: null as string | null, status: job.status, before: counter.last() },
    entries: [] as LogEntry<RunEntry>[],
  });
  const runs = [begin(job.created_at)];
  for (const one of entries) {
    const { entry } = one;
    let run = runs.at(-1)!;
    if (run.to !== null && entry.type === "status" && !isTerminal(entry.to)) {
      run = begin(entry.at);
      runs.push(run);
    }
    counter.add(entry);
    run.entries.push(one);
    if (entry.type === "status" && isTerminal(entry.to))
      Object.assign(run, { to: entry.at, status: entry.to });
  }
  return runs.map((run, at) => ({ ...run, number: at + 1 }));
}

/** The job as it was during a run, with the parts of its cases that are in it. */
export function duringRun(
  job: StoredJob,
  cases: readonly StoredCase[],
  { from, to, status }: JobRun,
): { job: StoredJob; cases: StoredCase[] } {
  const end = to ?? job.finished_at;
  return {
    job: { ...job, created_at: from, finished_at: end, status },
    cases: cases
      .filter((item) => (end === null || item.created_at <= end) && (item.finished_at ?? from) >= from)
      .map((item) => ({
        ...item,
        created_at: item.created_at < from ? from : item.created_at,
        finished_at:
          item.finished_at !== null && (end === null || item.finished_at <= end) ? item.finished_at : to,
      })),
  };
}
