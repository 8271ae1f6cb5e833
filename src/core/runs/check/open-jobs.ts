import type { Cases } from "../../entities/cases.ts";
import type { Jobs } from "../../entities/jobs.ts";
import { type ReadResult, withResult } from "../../entities/large-results.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { Store } from "../../store/store.ts";
import type { OpenJob } from "./check-job.ts";

interface Parts {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly readResult: ReadResult;
}

const OPEN = ["stopped", "in_progress", "awaiting", "cancelling"] as const;

/** Reads all jobs that have not ended, oldest first, with their records; secrets and hashes are omitted. */
export async function* readOpenJobs({ store, ...parts }: Parts): AsyncGenerator<OpenJob, void> {
  for (const id of await store.table("Job").ids({ where: { status: OPEN }, sort: "created_at" })) {
    const job = await parts.jobs.find(id);
    if (job && !isTerminal(job.status)) yield readRecord(parts, job, 0);
  }
}

/** Reads what is recorded of a job, with all results; without secrets, and with so many of the newest updates of its cases. */
export async function readRecord(
  { jobs, cases, readResult }: Omit<Parts, "store">,
  job: StoredJob,
  updates = Number.MAX_SAFE_INTEGER,
): Promise<OpenJob> {
  const log: RunEntry[] = [];
  for (const { entry } of await jobs.log(job.id)) log.push(await withResult(entry, readResult));
  const { items } =
    job.case_count === 0 ? { items: [] } : await cases.listWithUpdates(casesOf(job.id), updates);
  const shown = { ...job, fingerprint: "", encrypted_agent_parameters: null, idempotency_key: null };
  return { job: shown, cases: items, log };
}

function casesOf(job_id: string) {
  return { where: { job_id }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
}
