import type { AgentRegistry, HostedAgent } from "../../core/agents/registry.ts";
import type { Caller } from "../../core/audit/caller.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Threads } from "../../core/conversations/threads.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { JobFeed } from "../../core/http/job-feed.ts";
import type { Seen } from "../../core/http/seen.ts";
import type { Runner } from "../../core/runs/runner.ts";
import type { Store } from "../../core/store/store.ts";
import type { PushConfigs } from "./push.ts";

/** What requests of clients need. */
export interface A2aParts {
  readonly seen: (caller: Caller) => Seen;
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly runner: Runner;
  readonly threads: Threads;
  readonly feed: JobFeed;
  readonly store: Store;
  /** The receivers of tasks. */
  readonly push: PushConfigs;
  readonly log: Logger;
  readonly clock: () => Date;
  /** Slugs of the agents that clients see; `undefined` for all. */
  readonly shown: ReadonlySet<string> | undefined;
  /** Milliseconds that a message waits for its job at most; `undefined` for no limit. */
  readonly wait: number | undefined;
  /** The service's URL, as clients reach it: that of the URLs of files. */
  readonly base: string;
  /** Fires when the service closes: those who wait get what there is. */
  readonly closing: AbortSignal;
}

/** The same parts as a caller sees them, whose request has come to `base`. */
export function partsFor(parts: A2aParts, caller: Caller, base = parts.base): A2aParts {
  return { ...parts, ...parts.seen(caller), base };
}

/** The agents that clients see. */
export function shownAgents({ agents, shown }: A2aParts): HostedAgent[] {
  return agents.list().filter(({ slug }) => shown === undefined || shown.has(slug));
}
