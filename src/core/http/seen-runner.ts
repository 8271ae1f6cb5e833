import type { AgentRegistry } from "../agents/registry.ts";
import { type Caller, nameOf } from "../audit/caller.ts";
import { isServiceError, ServiceError } from "../base/errors.ts";
import type { Cases } from "../entities/cases.ts";
import { seesAgent, seesSchedule } from "../entities/in-sight.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { Sight } from "../models/access.ts";
import type { StoredJob } from "../models/job.ts";
import { isOpenTo } from "../runs/questions/assert-assigned.ts";
import type { Runner, StartRequest } from "../runs/runner.ts";
import { SeenSchedules } from "./seen-schedules.ts";
import { uploaderOf } from "./uploads.ts";

interface SeenParts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly agents: AgentRegistry;
  readonly sight: Sight;
  readonly caller: Caller;
  /** The workspace of jobs that name none. */
  readonly home: string;
}

type Args<K extends keyof Runner> = Runner[K] extends (...args: infer A) => unknown ? A : never;
type Result<K extends keyof Runner> = Runner[K] extends (...args: never) => infer R ? R : never;

/** Does to jobs that a caller sees what the runner does; refuses what concerns others, too. */
export class SeenRunner implements Runner {
  readonly #runner: Runner;
  readonly #parts: SeenParts;

  constructor(runner: Runner, parts: SeenParts) {
    this.#runner = runner;
    this.#parts = parts;
  }

  async start(slug: string, request: StartRequest): Promise<StoredJob> {
    const { agents, sight, caller } = this.#parts;
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
    return this.#own(() => this.#runner.start(slug, asked));
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
    return this.#own(() => this.#runner.fork(jobId, asked, by));
  }

  /** Calls whose names have ids of jobs that the caller does not see are named by their lines. */
  async calls(...[jobId]: Args<"calls">): Result<"calls"> {
    const { jobs } = this.#parts;
    await jobs.get(jobId);
    const calls = await this.#runner.calls(jobId);
    const names = await jobs.textsAsSeen(calls.map(({ name }) => name));
    return calls.map((call, at) => {
      const name = names[at]!;
      return { ...call, name: name === call.name || call.line === null ? name : `@${call.line}` };
    });
  }

  async export(...[jobId, by]: Args<"export">): Result<"export"> {
    const { jobs } = this.#parts;
    await jobs.get(jobId);
    return jobs.exportAsSeen(await this.#runner.export(jobId, by));
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
  override = this.#ofJob("override");
  assign = this.#ofCase("assign");
  overrideCase = this.#ofCase("overrideCase");

  async remove(...args: Args<"remove">): Result<"remove"> {
    await this.#jobOrDeleted(args[0]);
    return this.#runner.remove(...args);
  }

  async restore(...args: Args<"restore">): Result<"restore"> {
    await this.#jobOrDeleted(args[0]);
    return this.#parts.jobs.asSeen(await this.#withoutOthers(this.#runner.restore(...args)));
  }

  async removeCase(...args: Args<"removeCase">): Result<"removeCase"> {
    await this.#caseOrDeleted(args[0]);
    return this.#runner.removeCase(...args);
  }

  async restoreCase(...args: Args<"restoreCase">): Result<"restoreCase"> {
    await this.#caseOrDeleted(args[0]);
    return this.#runner.restoreCase(...args);
  }

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

  async pauseAgent(...args: Args<"pauseAgent">): Result<"pauseAgent"> {
    this.#assertWhole(args[0]);
    return this.#runner.pauseAgent(...args);
  }

  async resumeAgent(...args: Args<"resumeAgent">): Result<"resumeAgent"> {
    this.#assertWhole(args[0]);
    return this.#runner.resumeAgent(...args);
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
    const { jobs, sight, home } = this.#parts;
    return new SeenSchedules(this.#runner.schedules, {
      jobs,
      sees: ({ agent }) => seesSchedule(sight, { agent, workspace: home }),
      own: (start) => this.#own(start),
    });
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
  async drain(): Promise<never> {
    throw forAll();
  }
  async receive(): Promise<never> {
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

  /** What is done to an agent concerns all of its jobs. */
  #assertWhole(slug: string): void {
    const { agents, sight } = this.#parts;
    agents.get(slug);
    if (!seesAgent(sight, slug)) throw forAll();
  }

  /** A method about a job, by its id: `job_not_found` where the caller does not see it. */
  #ofJob<K extends OfJob>(name: K): Runner[K] {
    return (async (...args: unknown[]) => {
      const { jobs } = this.#parts;
      await jobs.get(args[0] as string);
      const act = this.#runner[name] as (...all: unknown[]) => Promise<unknown>;
      const result = await this.#withoutOthers(act.apply(this.#runner, args));
      return isJob(result) ? jobs.asSeen(result) : result;
    }) as unknown as Runner[K];
  }

  /** Starts a job that is to be the caller's: a repeated request gives the one that it has started, not one of somebody else. */
  async #own(start: () => Promise<StoredJob>): Promise<StoredJob> {
    const { jobs } = this.#parts;
    let job: StoredJob;
    try {
      job = await start();
    } catch (error) {
      // It may name a job of somebody else.
      if (isServiceError(error) && error.type === "job_already_exists") throw idInUse();
      return this.#withoutOthers(Promise.reject(error));
    }
    if (!(await jobs.find(job.id))) throw idInUse();
    return jobs.asSeen(job);
  }

  /** An error names no job that the caller does not see. */
  async #withoutOthers<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (!isServiceError(error)) throw error;
      const { type, status, headers, detail } = error;
      const said = [error.message, ...(detail === undefined ? [] : [detail])];
      const [message, shown] = await this.#parts.jobs.textsAsSeen(said);
      if (message === error.message && shown === detail) throw error;
      throw new ServiceError(type, message!, {
        ...{ status, headers, cause: error },
        ...(shown !== undefined && { detail: shown }),
      });
    }
  }

  async #jobOrDeleted(id: string): Promise<void> {
    const { jobs } = this.#parts;
    if (!(await jobs.findDeleted(id))) await jobs.get(id);
  }

  async #caseOrDeleted(id: string): Promise<void> {
    const { cases } = this.#parts;
    if (!(await cases.findDeleted(id))) await cases.summary(id);
  }

  #ofCase<K extends OfCase>(name: K): Runner[K] {
    return (async (...args: unknown[]) => {
      await this.#parts.cases.summary(args[0] as string);
      return (this.#runner[name] as (...all: unknown[]) => unknown).apply(this.#runner, args);
    }) as unknown as Runner[K];
  }
}

type OfCase = "assign" | "overrideCase";
type OfJob = "ended" | "stop" | "resume" | "retry" | "continue" | "move" | "override";

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
