import { jobNotFound } from "../../entities/jobs.ts";
import type { Unit } from "../../entities/ledger.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Run } from "../replay/run.ts";
import { RunRecord } from "../replay/run-record.ts";
import type { RequestParts } from "../runner-parts.ts";

/** A job as it is when a change of it is stored. */
export interface FoundJob {
  readonly job: StoredJob;
  /** The run that it has, unless its end is stored, or about to be. */
  readonly run: Run | undefined;
  /** What is recorded of a job without a run; empty where it has one, which knows, and where it is not needed. */
  readonly record: RunRecord;
  /** What it has cost. */
  readonly spent: number;
}

/** Stores what a unit does. */
export type WriteUnit = <T>(work: (unit: Unit) => Promise<T>) => Promise<T>;

/** Stores a change of a job that depends on its run, or on what its runs have recorded: none begins or ends in between. */
export async function changeWithRun<T>(
  parts: RequestParts,
  jobId: string,
  work: (unit: Unit, found: FoundJob) => Promise<T>,
  {
    needsRecord = true,
    write = (unit) => parts.ledger.write(unit),
  }: { readonly needsRecord?: boolean; readonly write?: WriteUnit | undefined } = {},
): Promise<T> {
  const { jobs, runs } = parts;
  for (let isFirst = true; ; isFirst = false) {
    // A log may be long, and nothing is kept waiting for it: where it may have grown since, it is read again.
    const before = await jobs.get(jobId);
    const isRead = needsRecord && !(isFirst && runs.isRunning(jobId));
    const entries = isRead ? (await jobs.log(jobId)).map(({ entry }) => entry) : undefined;
    // Before the unit, as it may be long.
    let unused = entries && RunRecord.read(entries);
    const change = async (unit: Unit): Promise<{ value: T } | undefined> => {
      // Where the unit runs again, what it has changed of the record does not count.
      const record = unused ?? (entries && RunRecord.read(entries));
      unused = undefined;
      const job = await unit.tx.get("Job", jobId);
      if (!job) throw jobNotFound(jobId);
      const found = runs.find(jobId);
      const run = found?.isOver || isTerminal(job.status) ? undefined : found;
      const isKnown = record && job.status === before.status && job.run_count === before.run_count;
      if (!run && needsRecord && !isKnown) return undefined;
      const known = record ?? new RunRecord();
      return { value: await work(unit, { job, run, record: known, spent: run?.spent ?? known.cost }) };
    };
    const changed = await runs.exclusively(jobId, () => write(change));
    if (changed) return changed.value;
  }
}
