import type { Jobs } from "../entities/jobs.ts";
import { type EntityStatus, FAILED } from "../models/entity-status.ts";
import type { HostedAgent } from "./registry.ts";

/** Statistics of an agent's jobs. */
export interface AgentHealth {
  agent_id: string;
  name: string;
  slug: string;
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
  const count = async (status?: readonly EntityStatus[]): Promise<number> =>
    (await jobs.list({ where: { agent_name: agent.slug, status }, limit: 1 })).total;
  const [total, completed, failed, inProgress] = await Promise.all([
    count(),
    count(["completed"]),
    count(FAILED),
    count(["in_progress"]),
  ]);
  return {
    agent_id: agent.id,
    name: agent.definition.name,
    slug: agent.slug,
    status: inProgress > 0 ? "busy" : failed > total / 2 ? "degraded" : "available",
    version: agent.definition.version,
    paused: pausedAgents.includes(agent.slug),
    statistics: {
      total_jobs: total,
      completed_jobs: completed,
      failed_jobs: failed,
      in_progress_jobs: inProgress,
      success_rate: total === 0 ? 0 : Math.round((completed / total) * 1000) / 10,
    },
  };
}
