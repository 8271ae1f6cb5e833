import type { Jobs } from "../entities/jobs.ts";
import { FAILED } from "../models/entity-status.ts";
import { RUNNING_JOBS } from "../models/job-state.ts";
import type { HostedAgent } from "./registry.ts";

/** Statistics of an agent's jobs. */
export interface AgentHealth {
  agent_id: string;
  name: string;
  slug: string;
  /** `busy` while one of its jobs runs: one that only sleeps or waits does not. */
  status: "available" | "busy" | "degraded";
  version: string;
  /** Whether it starts no new jobs. */
  paused: boolean;
  statistics: {
    total_jobs: number;
    completed_jobs: number;
    failed_jobs: number;
    in_progress_jobs: number;
    /** Percentage of all jobs that completed, with one decimal. */
    success_rate: number;
  };
}

/** Computes an agent's job statistics. */
export async function readAgentHealth(
  agent: HostedAgent,
  { jobs, pausedAgents }: { readonly jobs: Jobs; readonly pausedAgents: readonly string[] },
): Promise<AgentHealth> {
  const where = { agent_name: agent.slug };
  const [counts, running] = await Promise.all([
    jobs.countBy("status", { where }),
    jobs.list({ where: { ...where, ...RUNNING_JOBS }, limit: 0 }),
  ]);
  const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
  const failed = FAILED.reduce((sum, status) => sum + (counts[status] ?? 0), 0);
  const { completed = 0, in_progress = 0 } = counts;
  return {
    agent_id: agent.id,
    name: agent.definition.name,
    slug: agent.slug,
    status: running.total > 0 ? "busy" : failed > total / 2 ? "degraded" : "available",
    version: agent.definition.version,
    paused: pausedAgents.includes(agent.slug),
    statistics: {
      total_jobs: total,
      completed_jobs: completed,
      failed_jobs: failed,
      in_progress_jobs: in_progress,
      success_rate: total === 0 ? 0 : Math.round((completed / total) * 1000) / 10,
    },
  };
}
