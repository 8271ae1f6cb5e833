import * as v from "valibot";
import type { AgentRegistry, HostedAgent } from "../agents/registry.ts";
import type { Caller } from "../audit/caller.ts";
import { type Duration, isDuration, toMilliseconds } from "../base/duration.ts";
import type { Logger } from "../base/log.ts";
import type { Cases } from "../entities/cases.ts";
import type { Seen } from "../http/seen.ts";
import type { Store } from "../store/store.ts";
import { type PluginContext, PluginError } from "./plugin.ts";
import { AGENTS, CASES, CLOCK, JOB_FEED, JOBS, RUNNER, SEEN, STORE, THREADS } from "./tokens.ts";

/** What the requests of a protocol's clients need. */
export interface ProtocolParts extends Seen {
  readonly seen: (caller: Caller) => Seen;
  readonly cases: Cases;
  readonly store: Store;
  readonly log: Logger;
  readonly clock: () => Date;
  /** Slugs of the agents that clients see; `undefined` for all. */
  readonly shown: ReadonlySet<string> | undefined;
  /** Fires when the service closes: a client that loses its connection then has cancelled nothing. */
  readonly closing: AbortSignal;
}

/** The parts of a protocol that shows the agents with these slugs, or all. */
export function protocolParts(
  { get, hooks, log }: Pick<PluginContext, "get" | "hooks" | "log">,
  agents: readonly string[] | undefined,
): ProtocolParts {
  const closing = new AbortController();
  hooks.on("service:closing", () => closing.abort());
  return {
    seen: get(SEEN),
    agents: get(AGENTS),
    jobs: get(JOBS),
    cases: get(CASES),
    runner: get(RUNNER),
    threads: get(THREADS),
    feed: get(JOB_FEED),
    store: get(STORE),
    log,
    clock: get(CLOCK),
    shown: agents && new Set(agents),
    closing: closing.signal,
  };
}

/** The agents that clients see. */
export function shownAgents({ agents, shown }: Pick<ProtocolParts, "agents" | "shown">): HostedAgent[] {
  return agents.list().filter(({ slug }) => shown === undefined || shown.has(slug));
}

/** For an agent that an option of a protocol's plugin names, and the service does not have. */
export function noSuchAgent(plugin: string, slug: string, agents: AgentRegistry): PluginError {
  const all = agents.list().map((agent) => agent.slug);
  return new PluginError(
    `Plugin "${plugin}": agent "${slug}" does not exist; the agents are ${all.join(", ")}`,
  );
}

/** Path of a protocol's endpoints, after the service's `apiPrefix`. */
export function protocolPath(usual: `/${string}`) {
  const path = v.regex(/^(\/[A-Za-z0-9._~-]+)+$/, `must be a path such as ${usual}`);
  return v.optional(v.pipe(v.string(), path), usual);
}

/** A duration of an option, in milliseconds. */
export const OptionDurationSchema = v.pipe(
  v.custom<Duration>(isDuration, 'must be a duration such as "20s"'),
  v.transform(toMilliseconds),
);
