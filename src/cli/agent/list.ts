import type { AgentHealth } from "../../core/agents/agent-health.ts";
import { requestCommand } from "../job/request-command.ts";
import { renderTable } from "../table.ts";

/** `svc agent list`: the agents of a service. */
export const list = requestCommand({
  usage: "list",
  summary: "List agents with their statistics",
  examples: ["svc agent list", "svc agent list --json"],
  async ask(client) {
    const { agents } = await client.get<{ agents: Record<string, AgentHealth> }>("/agents/health");
    return Object.values(agents);
  },
  show: (agents, { context }) => renderTable(HEADER, agents.map(toRow), context.paint?.print),
});

const HEADER = ["agent", "version", "status", "jobs", "running", "failed"];

function toRow({ slug, version, status, paused, statistics }: AgentHealth): string[] {
  const { total_jobs, in_progress_jobs, failed_jobs } = statistics;
  return [
    slug,
    version,
    paused ? "paused" : status,
    ...[total_jobs, in_progress_jobs, failed_jobs].map(String),
  ];
}
