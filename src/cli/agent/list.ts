import * as v from "valibot";
import type { AgentHealth } from "../../core/agents/agent-health.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { renderTable } from "../table.ts";

/** `svc agent list`: the agents of a service. */
export const list = defineCommand({
  usage: "list",
  summary: "List agents with their statistics",
  flags: v.object(CONNECTION_FLAGS),
  examples: ["svc agent list", "svc agent list --json"],
  async run({ flags, context }) {
    const client = await connect(flags, context);
    const { agents } = await client.get<{ agents: Record<string, AgentHealth> }>("/agents/health");
    const all = Object.values(agents);
    if (flags.json) context.print(JSON.stringify(all, null, 2));
    else
      context.print(
        renderTable(
          ["agent", "version", "status", "jobs", "running", "failed"],
          all.map(toRow),
          context.paint?.print,
        ),
      );
    return 0;
  },
});

function toRow({ slug, version, status, paused, statistics }: AgentHealth): string[] {
  const { total_jobs, in_progress_jobs, failed_jobs } = statistics;
  return [
    slug,
    version,
    paused ? "paused" : status,
    ...[total_jobs, in_progress_jobs, failed_jobs].map(String),
  ];
}
