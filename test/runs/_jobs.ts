import type { JobContext, JobInstructions, Service } from "agent-control-service";
import { AGENTS, JOBS, RUNNER } from "agent-control-service/plugin";
import type { StoredJob } from "../../src/core/models/job.ts";

/** Instructions that limit nothing. */
export const NO_LIMITS: JobInstructions = {
  max_cases: null,
  max_duration: null,
  max_cost: null,
  stop_on_warning: false,
  stop_on_error: false,
  job_start_time: null,
};

/** A job context with everything that is required. */
export function jobContext(id: string, more: Partial<JobContext> = {}): JobContext {
  return {
    workspace_id: "workspace-1",
    job_id: id,
    started_by: "someone",
    started_at: "2026-01-31T09:30:00.000Z",
    mission_id: "mission-1",
    mission_name: "Mission",
    mission_context: null,
    job_instructions: null,
    ...more,
  };
}

export interface Started {
  readonly id?: string;
  readonly fields?: Record<string, unknown>;
  readonly context?: Partial<JobContext>;
}

let count = 0;

/** Starts a job of the service's first agent. */
export async function startJob(
  service: Service,
  { id, fields = {}, context }: Started = {},
): Promise<StoredJob> {
  await service.ready();
  const name = id ?? `job-${++count}`;
  const agent = service.get(AGENTS).list()[0]!;
  return service
    .get(RUNNER)
    .start(agent.slug, { job_context: jobContext(name, context), job_fields: fields });
}

/** Resolves with the job once it is in one of these statuses. */
export async function until(
  service: Service,
  id: string,
  statuses: readonly string[] = ["completed", "failed", "cancelled"],
): Promise<StoredJob> {
  for (let left = 12_000; left > 0; left--) {
    const job = await service.get(JOBS).find(id);
    if (job && statuses.includes(job.status)) return job;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const job = await service.get(JOBS).find(id);
  throw new Error(`Job ${id} is ${job?.status}, not ${statuses.join(" or ")}: ${job?.error}`);
}
