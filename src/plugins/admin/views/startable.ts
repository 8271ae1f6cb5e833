import type { AgentRegistry } from "../../../core/agents/registry.ts";

/** Buttons that start a job: one for a single agent, else the way to choose one. */
export function startable(agents: AgentRegistry): readonly { href: string; label: string; style: string }[] {
  const [first, second] = agents.list();
  if (!first) return [];
  if (second) return [{ href: "/admin/agents", label: "Start a job", style: "main" }];
  return [{ href: `/admin/agents/${first.slug}/start`, label: "Start a job", style: "main" }];
}
