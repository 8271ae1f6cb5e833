import type { Cases } from "../../entities/cases.ts";
import type { Jobs } from "../../entities/jobs.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Store } from "../../store/store.ts";
import type { OpenJob } from "./check-job.ts";

interface Parts {
  readonly store: Store;
  readonly jobs: Jobs;
  readonly cases: Cases;
}

const OPEN = ["stopped", "in_progress", "awaiting", "cancelling"] as const;

/** Reads all jobs that have not ended, oldest first, with their records; secrets and hashes are omitted. */
export async function* readOpenJobs({ store, jobs, cases }: Parts): AsyncGenerator<OpenJob, void> {
  for (const id of await store.table("Job").ids({ where: { status: OPEN }, sort: "created_at" })) {
    const job = await jobs.find(id);
    if (job && !isTerminal(job.status)) yield readRecord({ jobs, cases }, job, 0);
  }
}

/** Reads what is recorded of a job; without secrets, and with so many of the newest updates of its cases. */
export async function readRecord(
  { jobs, cases }: Omit<Parts, "store">,
  job: StoredJob,
  updates = Number.MAX_SAFE_INTEGER,
): Promise<OpenJob> {
  const log = (await jobs.log(job.id)).map(({ entry }) => entry);
  const { items } =
    job.case_count === 0 ? { items: [] } : await cases.listWithUpdates(casesOf(job.id), updates);
  const shown = { ...job, fingerprint: "", encrypted_agent_parameters: null, idempotency_key: null };
  return { job: shown, cases: items, log };
}

function casesOf(job_id: string) {
  return { where: { job_id }, sort: "created_at", limit: Number.POSITIVE_INFINITY };
}
