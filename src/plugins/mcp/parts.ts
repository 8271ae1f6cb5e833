import type { AgentRegistry, HostedAgent } from "../../core/agents/registry.ts";
import type { Caller } from "../../core/audit/caller.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Threads } from "../../core/conversations/threads.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { JobFeed } from "../../core/http/job-feed.ts";
import type { Seen } from "../../core/http/seen.ts";
import type { Retention } from "../../core/retention/retention.ts";
import type { Runner } from "../../core/runs/runner.ts";
import type { Store } from "../../core/store/store.ts";

/** What requests of clients need. */
export interface McpParts {
  readonly seen: (caller: Caller) => Seen;
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly runner: Runner;
  readonly threads: Threads;
  readonly feed: JobFeed;
  readonly retention: Pick<Retention, "policyOf">;
  readonly log: Logger;
  readonly store: Store;
  readonly clock: () => Date;
  /** Slugs of the agents that clients see; `undefined` for all. */
  readonly shown: ReadonlySet<string> | undefined;
  /** Milliseconds that clients should wait between two requests about a task. */
  readonly pollInterval: number;
  /** Milliseconds that a call without a task waits for its job. */
  readonly wait: number;
  readonly version: string;
  /** Fires when the service closes: a client that loses its connection then has cancelled nothing. */
  readonly closing: AbortSignal;
}

/** The same parts as a caller sees them. */
export function partsFor(parts: McpParts, caller: Caller): McpParts {
  return { ...parts, ...parts.seen(caller) };
}

/** The agents that clients see. */
export function shownAgents({ agents, shown }: McpParts): HostedAgent[] {
  return agents.list().filter(({ slug }) => shown === undefined || shown.has(slug));
}
