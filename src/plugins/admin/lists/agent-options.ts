import type { SeenParts } from "../parts.ts";

/** The agents that a list can be filtered by: those that the reader sees, and the one that is chosen. */
export function agentOptions({ agents }: Pick<SeenParts, "agents">, current: string | undefined) {
  const slugs = agents.list().map((agent) => ({ value: agent.slug, label: agent.definition.name }));
  const known = current === undefined || slugs.some(({ value }) => value === current);
  const other = known ? [] : [{ value: current, label: current }];
  return [{ value: "", label: "All agents" }, ...slugs, ...other];
}
