import type { StoredJob } from "../../models/job.ts";

/** Who asks for a slot. */
export interface QueuedJob {
  readonly jobId: string;
  /** The agent's slug. */
  readonly agent: string;
  readonly workspace: string;
  /** Its concurrency key, where it has one. */
  readonly key?: string | null | undefined;
  /** What its agent's rate limit counts it by, where that has a key. */
  readonly rateKey?: string | null | undefined;
  /** Whether it has not started before: its agent's rate limit counts it. */
  readonly isFirst?: boolean;
  /** Whether it was let in here, and other jobs had its concurrency key. */
  readonly isRefused?: boolean;
}

/** Who a job is to the scheduler. */
export function toQueuedJob({
  id,
  agent_name,
  job_context,
  concurrency_key,
  rate_key,
  run_count,
}: Pick<StoredJob, "id" | "agent_name" | "job_context"> & Partial<StoredJob>): QueuedJob {
  return {
    jobId: id,
    agent: agent_name,
    workspace: job_context.workspace_id,
    key: concurrency_key,
    rateKey: rate_key,
    isFirst: !run_count,
  };
}
