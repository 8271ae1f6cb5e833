import type { AgentRegistry } from "../agents/registry.ts";
import { type Caller, nameOf } from "../audit/caller.ts";
import { isServiceError, ServiceError } from "../base/errors.ts";
import { Threads, type ThreadsParts } from "../conversations/threads.ts";
import type { Cases } from "../entities/cases.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { Sight } from "../models/access.ts";
import type { StoredJob } from "../models/job.ts";
import { isOpenTo } from "../runs/questions/assert-assigned.ts";
import type { Runner, StartRequest } from "../runs/runner.ts";
import type { JobFeed } from "./job-feed.ts";
import { uploaderOf } from "./uploads.ts";

/** The parts of a service as a caller sees them: what it may not see does not exist in them. */
export interface Seen {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly runner: Runner;
  readonly threads: Threads;
  readonly feed: JobFeed;
}

type SightsParts = ThreadsParts & Pick<Seen, "feed">;

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
        runner ??= new SeenRunner(parts.runner, { jobs, cases, agents, sight, caller });
        return runner;
      },
      get threads() {
        threads ??= new Threads({ ...parts, agents, jobs, cases, feed, runner: this.runner });
        return threads;
      },
    };
  }
}

interface SeenParts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly agents: AgentRegistry;
  readonly sight: Sight;
  readonly caller: Caller;
}

type Args<K extends keyof Runner> = Runner[K] extends (...args: infer A) => unknown ? A : never;
type Result<K extends keyof Runner> = Runner[K] extends (...args: never) => infer R ? R : never;

/** Does to jobs that a caller sees what the runner does; refuses what concerns others, too. */
class SeenRunner implements Runner {
  readonly #runner: Runner;
  readonly #parts: SeenParts;

  constructor(runner: Runner, parts: SeenParts) {
    this.#runner = runner;
    this.#parts = parts;
  }

  async start(slug: string, request: StartRequest): Promise<StoredJob> {
    const { agents, jobs, sight, caller } = this.#parts;
    agents.get(slug);
    const given = request.job_context ?? {};
    if (sight.workspace !== undefined && (given.workspace_id ?? sight.workspace) !== sight.workspace) {
      throw new ServiceError("forbidden", `This key is for the workspace "${sight.workspace}"`, {
        detail: "Omit workspace_id, or send this one.",
      });
    }
    const job_context = {
      started_by: nameOf(caller),
      ...given,
      ...(sight.workspace !== undefined && { workspace_id: sight.workspace }),
    };
    const access = sight.startedBy;
    const uploader = uploaderOf(caller);
    const asked = {
      ...{ ...request, job_context, sight },
      ...(access !== undefined && { access }),
      ...(uploader !== null && { uploader }),
    };
    let job: StoredJob;
    try {
      job = await this.#runner.start(slug, asked);
    } catch (error) {
      // It may name a job of somebody else.
      if (isServiceError(error) && error.type === "job_already_exists") throw idInUse();
      throw error;
    }
    // A repeated request gives the job that it has started: not one of somebody else.
    if (!(await jobs.find(job.id))) throw idInUse();
    return jobs.asSeen(job);
  }

  async answer(...args: Args<"answer">): Result<"answer"> {
    const [jobId, caseId, request, actor] = args;
    const { cases, caller } = this.#parts;
    const item = await cases.ofJob(jobId, caseId);
    if (!isOpenTo(caller, item)) {
      throw new ServiceError("forbidden", `Case "${item.id}" asks somebody else`, {
        detail: "Who has started a job answers what it asks of nobody else, where one answer is enough.",
      });
    }
    const uploader = uploaderOf(caller);
    return this.#runner.answer(jobId, caseId, { ...request, ...(uploader !== null && { uploader }) }, actor);
  }

  async fork(...[jobId, request, by]: Args<"fork">): Result<"fork"> {
    const { jobs, caller, sight } = this.#parts;
    await jobs.get(jobId);
    const uploader = uploaderOf(caller);
    const asked = { ...request, sight, ...(uploader !== null && { uploader }) };
    return jobs.asSeen(await this.#runner.fork(jobId, asked, by));
  }

  async say(...[jobId, message]: Args<"say">): Result<"say"> {
    const { jobs, caller } = this.#parts;
    await jobs.get(jobId);
    return this.#runner.say(jobId, { ...message, uploader: uploaderOf(caller) });
  }

  ended = this.#ofJob("ended");
  stop = this.#ofJob("stop");
  resume = this.#ofJob("resume");
  retry = this.#ofJob("retry");
  continue = this.#ofJob("continue");
  move = this.#ofJob("move");
  calls = this.#ofJob("calls");
  export = this.#ofJob("export");
  override = this.#ofJob("override");
  remove = this.#ofJob("remove");
  assign = this.#ofCase("assign");
  overrideCase = this.#ofCase("overrideCase");
  removeCase = this.#ofCase("removeCase");

  async call(...args: Args<"call">): Promise<unknown> {
    const [slug, { jobId }] = args;
    this.#parts.agents.get(slug);
    if (jobId !== undefined) await this.#parts.jobs.get(jobId, slug);
    return this.#runner.call(...args);
  }

  async checkFields(...args: Args<"checkFields">): Result<"checkFields"> {
    const [slug, method, fields] = args;
    const { agents, caller } = this.#parts;
    agents.get(slug);
    return this.#runner.checkFields(slug, method, fields, uploaderOf(caller));
  }

  describe(...args: Args<"describe">): Result<"describe"> {
    return this.#runner.describe(...args);
  }

  /** Of a job that the caller has read. */
  position(...args: Args<"position">): Result<"position"> {
    return this.#runner.position(...args);
  }

  runningSteps(...args: Args<"runningSteps">): Result<"runningSteps"> {
    return this.#runner.runningSteps(...args);
  }

  get instance(): string | undefined {
    return this.#runner.instance;
  }

  get schedules(): Runner["schedules"] {
    throw forAll();
  }
  get pausedAgents(): readonly string[] {
    throw forAll();
  }
  get drainedUntil(): string | undefined {
    throw forAll();
  }
  get probe(): Runner["probe"] {
    throw forAll();
  }
  get isPaused(): boolean {
    throw forAll();
  }
  async pauseAgent(): Promise<never> {
    throw forAll();
  }
  async resumeAgent(): Promise<never> {
    throw forAll();
  }
  async drain(): Promise<never> {
    throw forAll();
  }
  async receive(): Promise<never> {
    throw forAll();
  }
  /** What was deleted says no longer whose it was. */
  async restore(): Promise<never> {
    throw forAll();
  }
  async restoreCase(): Promise<never> {
    throw forAll();
  }
  load(): never {
    throw forAll();
  }
  unpause(): never {
    throw forAll();
  }
  async reconcile(): Promise<never> {
    throw forAll();
  }
  async close(): Promise<never> {
    throw forAll();
  }

  /** A method about a job, by its id: `job_not_found` where the caller does not see it. */
  #ofJob<K extends OfJob>(name: K): Runner[K] {
    return (async (...args: unknown[]) => {
      const { jobs } = this.#parts;
      await jobs.get(args[0] as string);
      const result = await (this.#runner[name] as (...all: unknown[]) => unknown).apply(this.#runner, args);
      return isJob(result) ? jobs.asSeen(result) : result;
    }) as unknown as Runner[K];
  }

  #ofCase<K extends OfCase>(name: K): Runner[K] {
    return (async (...args: unknown[]) => {
      await this.#parts.cases.summary(args[0] as string);
      return (this.#runner[name] as (...all: unknown[]) => unknown).apply(this.#runner, args);
    }) as unknown as Runner[K];
  }
}

type OfCase = "assign" | "overrideCase" | "removeCase";
type OfJob =
  | ("ended" | "stop" | "resume" | "retry" | "continue" | "move")
  | ("calls" | "export" | "override" | "remove");

function isJob(result: unknown): result is StoredJob {
  return typeof result === "object" && result !== null && "job_context" in result;
}

function idInUse(): ServiceError {
  return new ServiceError("job_already_exists", "The id of the job, or the idempotency key, is in use", {
    detail: "Use a new one for this job.",
  });
}

function forAll(): ServiceError {
  return new ServiceError("forbidden", "This concerns more than what the caller sees");
}
