import type { AgentRegistry } from "../agents/registry.ts";
import type { Caller } from "../audit/caller.ts";
import { Threads, type ThreadsParts } from "../conversations/threads.ts";
import type { Cases } from "../entities/cases.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { Sight } from "../models/access.ts";
import type { Runner } from "../runs/runner.ts";
import type { JobFeed } from "./job-feed.ts";
import { SeenRunner } from "./seen-runner.ts";

/** The parts of a service as a caller sees them: what it may not see does not exist in them. */
export interface Seen {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly runner: Runner;
  readonly threads: Threads;
  readonly feed: JobFeed;
}

type SightsParts = ThreadsParts &
  Pick<Seen, "feed"> & {
    /** The workspace of jobs that name none. */
    readonly home: string;
  };

/**
 * Gives each caller the parts as it sees them. Jobs, cases and agents apply its sight in every read, list, count and
 * search; the runner does so before whatever it does to a job.
 */
export class Sights {
  readonly #whole: Seen;
  readonly #parts: SightsParts;
  /** A named key is the same caller at each read. */
  readonly #known = new WeakMap<Caller, Seen>();

  constructor(parts: SightsParts) {
    this.#parts = parts;
    const { agents, jobs, cases, runner, feed } = parts;
    this.#whole = { agents, jobs, cases, runner, feed, threads: new Threads(parts) };
  }

  /** The parts themselves, for a caller who sees everything. */
  readonly of = (caller: Caller): Seen => {
    const { sight } = caller;
    if (sight === undefined) return this.#whole;
    let seen = this.#known.get(caller);
    if (seen === undefined) {
      seen = this.#seenBy(sight, caller);
      this.#known.set(caller, seen);
    }
    return seen;
  };

  #seenBy(sight: Sight, caller: Caller): Seen {
    const parts = this.#parts;
    const jobs = parts.jobs.seenBy(sight);
    const cases = parts.cases.seenBy(sight, jobs);
    const agents = parts.agents.seenBy(sight);
    const feed = parts.feed.seenBy(jobs);
    let runner: Runner | undefined;
    let threads: Threads | undefined;
    // Own properties, as parts are spread over those of who sees everything: one that was missing would be theirs. What
    // acts in the name of a caller is made where it is used, as most requests only read.
    return {
      agents,
      jobs,
      cases,
      feed,
      get runner() {
        runner ??= new SeenRunner(parts.runner, { jobs, cases, agents, sight, caller, home: parts.home });
        return runner;
      },
      get threads() {
        threads ??= new Threads({ ...parts, agents, jobs, cases, feed, runner: this.runner });
        return threads;
      },
    };
  }
}
