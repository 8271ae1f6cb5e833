import type { AgentRegistry, HostedAgent } from "../../core/agents/registry.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { Retention } from "../../core/retention/retention.ts";
import type { Runner } from "../../core/runs/runner.ts";

/** What requests of clients need. */
export interface McpParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly runner: Runner;
  readonly retention: Pick<Retention, "policyOf">;
  readonly log: Logger;
  /** Slugs of the agents that clients see; `undefined` for all. */
  readonly shown: ReadonlySet<string> | undefined;
  /** Milliseconds that clients should wait between two requests about a task. */
  readonly pollInterval: number;
  /** Milliseconds that a call without a task waits for its job. */
  readonly wait: number;
  readonly version: string;
}

/** The agents that clients see. */
export function shownAgents({ agents, shown }: McpParts): HostedAgent[] {
  return agents.list().filter(({ slug }) => shown === undefined || shown.has(slug));
}
