import type { Jobs } from "../entities/jobs.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { JobFeed } from "./job-feed.ts";

/** Events of a feed after which a job may have ended, or ask something. */
export const MOVES: ReadonlySet<string> = new Set(["snapshot", "status", "begun", "answer", "end"]);

export interface SettleOptions {
  /** Ends the wait. */
  readonly signal: AbortSignal;
  /** Called when something has happened to the job. */
  readonly seen?: (job: StoredJob) => void;
}

/** The job once it has ended or asks something, or its state when the signal fires. */
export async function settled(
  { feed, jobs }: { readonly feed: JobFeed; readonly jobs: Jobs },
  job: StoredJob,
  { signal, seen }: SettleOptions,
): Promise<StoredJob> {
  if (!isBusy(job) || signal.aborted) return job;
  const after = await feed.last(job.id);
  for await (const { event } of feed.watch(job.id, { after, signal })) {
    if (!MOVES.has(event) && (!seen || event === "chunk")) continue;
    const now = await jobs.get(job.id);
    if (!isBusy(now)) return now;
    if (event !== "snapshot") seen?.(now);
  }
  return jobs.get(job.id);
}

/** Whether a job neither has ended nor asks something. */
export function isBusy(job: StoredJob): boolean {
  return !isTerminal(job.status) && !isAsking(job);
}

/** Whether a job waits for somebody's answer. */
export function isAsking({ open_questions }: StoredJob): boolean {
  return open_questions > 0;
}
