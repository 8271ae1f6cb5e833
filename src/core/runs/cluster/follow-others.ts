import type { Cases } from "../../entities/cases.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Store } from "../../store/store.ts";
import type { ActiveRuns } from "../queue/active-runs.ts";
import type { Run } from "../replay/run.ts";
import { SUPERSEDED } from "../replay/run-errors.ts";

interface OthersWritesParts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly store: Store;
  readonly runs: ActiveRuns;
  /** Ends a run whose job was stopped. */
  readonly stopped: (run: Run, job: StoredJob) => void;
}

/** Has the runs of this instance follow what other instances have stored of their jobs; of all jobs, or of these. */
export async function followOthers(parts: OthersWritesParts, among?: ReadonlySet<string>): Promise<void> {
  const isAsked = ({ jobId }: Run) => !among || among.has(jobId);
  // One that is starting reads what is stored.
  const here = parts.runs.list().filter((run) => !run.isOver && !run.isStarting && isAsked(run));
  if (here.length === 0) return;
  const where = { id: here.map(({ jobId }) => jobId) };
  const { items } = await parts.jobs.list({ where, limit: here.length });
  const found = new Map(items.map((job) => [job.id, job]));
  for (const run of here) await follow(parts, run, found.get(run.jobId));
}

async function follow(
  { cases, store, runs, stopped }: OthersWritesParts,
  run: Run,
  job: StoredJob | undefined,
): Promise<void> {
  if (run.isOver) return;
  // The job was read at another moment than the run was found: only a later run takes it away.
  if (!job || job.run_count > run.parts.epoch) return run.abandon(SUPERSEDED);
  if (job.status === "cancelling") return stopped(run, job);
  if (run.activity.waits.size === 0) return;
  const closed = await run.questions.findClosed((caseId) => cases.find(caseId));
  await run.parts.readAnswers?.();
  const waits = await store
    .table("EventWait")
    .list({ where: { job_id: run.jobId }, limit: Number.POSITIVE_INFINITY });
  runs.received(waits.items.filter(({ event }) => event !== null));
  // Those that were answered are no longer waited with: their answers were in the log.
  for (const withdraw of closed) await withdraw();
}
