import { AsyncLocalStorage } from "node:async_hooks";
import { describeProblems, fieldsOf } from "../agents/fields.ts";
import type { AgentRegistry, HostedAgent } from "../agents/registry.ts";
import { isServiceError } from "../base/errors.ts";
import { KeyedMutex } from "../base/keyed-mutex.ts";
import type { Redactor } from "../base/redactor.ts";
import type { Cases } from "../entities/cases.ts";
import { changeJob, type Jobs, moveJob } from "../entities/jobs.ts";
import type { Ledger, Unit } from "../entities/ledger.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { AnswerEntry } from "../models/run-entry.ts";
import { callMethod, checkRequired, type HandlerParts, toHandlerContext } from "./handler-context.ts";
import type { StepUnderWay } from "./run/activity.ts";
import { RunJob } from "./run/job-handle.ts";
import { Run } from "./run/run.ts";
import type { RunEnd } from "./run/run-errors.ts";
import { RunRecord } from "./run/run-record.ts";
import { silenced } from "./run/silenced.ts";
import { type StartTimer, startTimer as systemTimer } from "./run/timer.ts";
import { WithSignal } from "./run/with-signal.ts";
import { type Applicant, type Place, Scheduler } from "./scheduler.ts";
import { whenWritable } from "./when-writable.ts";

export interface ActiveRunsParts extends HandlerParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly ledger: Ledger;
  readonly redactor: Redactor;
  readonly clock: () => Date;
  /** @default by the time of the system */
  readonly startTimer?: StartTimer;
  /** Address of the control system, shown in cases. */
  readonly apiUrl: string | null;
  readonly maxConcurrentJobs: number;
  /** Seconds that a handler gets to end by itself. */
  readonly stopGrace: number;
  /** Whether calls inside a step's function are found wherever they are made. */
  readonly strictSteps: boolean;
}

/** One for all services of the process: each that is in use makes every promise cost more. Unused, it costs nothing. */
const INSIDES = new AsyncLocalStorage<StepUnderWay>();

const CLOSING: RunEnd = {
  to: "cancelled",
  reason: "interrupted",
  message: "The service is closing: the job goes on at its next start",
};

/** Why a job waits for its turn: it is new or begun afresh, or a run of it was cut short. */
export type TurnKind = "start" | "resume";

/** The runs of this process: gives each job its turn, and its handler what it needs. */
export class ActiveRuns {
  readonly scheduler: Scheduler;
  readonly #parts: ActiveRunsParts;
  readonly #runs = new Map<string, Run>();
  readonly #insides: AsyncLocalStorage<StepUnderWay> | undefined;
  readonly #mutex = new KeyedMutex();
  /** Answers to jobs whose runs are being begun: these may have read the log just before. */
  readonly #early = new Map<string, { readonly entry: AnswerEntry; readonly seq: number }[]>();

  constructor(parts: ActiveRunsParts) {
    this.#parts = parts;
    const { agents, maxConcurrentJobs, strictSteps } = parts;
    this.#insides = strictSteps ? INSIDES : undefined;
    this.scheduler = new Scheduler({
      places: maxConcurrentJobs,
      placesOf: (slug) => agents.find(slug)?.definition.maxConcurrentJobs ?? maxConcurrentJobs,
    });
    parts.jobs.costsKnownBy((id) => {
      const run = this.#runs.get(id);
      return run && !run.isOver ? run.limits.spent : undefined;
    });
  }

  find(jobId: string): Run | undefined {
    return this.#runs.get(jobId);
  }

  /** Whether a job is run here, and its end is not even about to be stored. */
  isRunning(jobId: string): boolean {
    return this.#runs.get(jobId)?.isEndAhead ?? false;
  }

  get isClosed(): boolean {
    return this.scheduler.isClosed;
  }

  /**
   * Does what begins a run of a job, or changes the job with a look at its run, one at a time: while a run is being
   * begun there is nothing that could be told to end.
   */
  exclusively<T>(jobId: string, work: () => Promise<T>): Promise<T> {
    return this.#mutex.run(jobId, work);
  }

  /** An answer is stored just now. */
  answered(jobId: string, entry: AnswerEntry, seq: number): void {
    this.#early.get(jobId)?.push({ entry, seq });
    this.#runs.get(jobId)?.questions.answered(entry, seq);
  }

  /** Lets running steps end within the grace time, in seconds, and leaves all jobs to the next start. */
  async close(grace: number): Promise<void> {
    this.scheduler.close();
    const runs = [...this.#runs.values()];
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, grace * 1000);
    });
    await Promise.race([Promise.all(runs.map((run) => run.freeze())), late]);
    clearTimeout(timer);
    for (const run of runs) run.abandon(CLOSING);
  }

  /** Has a stored job run when its turn comes. */
  queue(job: StoredJob, kind: TurnKind): void {
    void this.#waitForTurn(job, kind).catch((error: unknown) => {
      this.#parts.log.error("a job could not be begun; it is taken up at the next start", {
        job_id: job.id,
        error,
      });
    });
  }

  /** Begins a run inside a unit. */
  #begin(unit: Unit, job: StoredJob, kind: TurnKind): Promise<StoredJob> {
    const run_count = job.run_count + 1;
    if (job.status === "stopped") return moveJob(unit, job.id, "start_work", { run_count });
    return this.#takeUp(unit, job, kind, run_count);
  }

  /** Runs a job that was begun, in its place; `values` are its parameters, where they are open already. */
  launch(
    job: StoredJob,
    agent: HostedAgent,
    place: Place,
    { record = new RunRecord(), values }: { record?: RunRecord; values?: Record<string, string> } = {},
  ): void {
    const { ledger, clock, startTimer = systemTimer, redactor, stopGrace, apiUrl } = this.#parts;
    const { timeout } = agent.definition.methods.job_start;
    const log = this.#parts.log.with({ agent: agent.slug, job_id: job.id });
    const run = new Run({
      jobId: job.id,
      epoch: job.run_count,
      instructions: job.job_context.job_instructions,
      account: { workspace_id: job.job_context.workspace_id, api_key: null, api_url: apiUrl },
      stopGrace: stopGrace * 1000,
      timeout: timeout === undefined ? undefined : timeout * 1000,
      insides: this.#insides,
      redact: (text) => redactor.text(text),
      record,
      place,
      ledger,
      log,
      clock,
      startTimer,
    });
    this.#runs.set(job.id, run);
    for (const { entry, seq } of this.#early.get(job.id) ?? []) run.questions.answered(entry, seq);
    run
      .execute(() => this.#handle(run, job, agent, values))
      .catch((error: unknown) => {
        const isGone = isServiceError(error) && error.type === "job_not_found";
        if (!isGone) log.error("the end of a run could not be stored", { error });
      })
      .finally(() => {
        if (this.#runs.get(job.id) === run) this.#runs.delete(job.id);
      });
  }

  async #waitForTurn(job: StoredJob, kind: TurnKind): Promise<void> {
    const { agents, log } = this.#parts;
    const agent = agents.find(job.agent_name);
    if (!agent) return;
    const place = await this.scheduler.take(toApplicant(job));
    if (!place) return;
    try {
      // The job keeps its place meanwhile.
      await whenWritable(
        () => this.exclusively(job.id, () => this.#takeTurn(job.id, agent, kind, place)),
        (error) => {
          if (this.isClosed) throw error;
          log.warn("the store cannot write; a job waits to start", { job_id: job.id, error: error.message });
        },
      );
    } catch (error) {
      place.release();
      throw error;
    }
  }

  async #takeTurn(jobId: string, agent: HostedAgent, kind: TurnKind, place: Place): Promise<void> {
    const { jobs, ledger } = this.#parts;
    this.#early.set(jobId, []);
    try {
      const begun = await ledger.write(async (unit) => {
        const current = await unit.tx.get("Job", jobId);
        const isOpen =
          current && !isTerminal(current.status) && current.status !== "cancelling" && !current.parked;
        const isDue = isOpen && !this.isRunning(jobId);
        return isDue ? this.#begin(unit, current, kind) : undefined;
      });
      if (!begun) return place.release();
      const record = begun.run_count === 1 ? new RunRecord() : await RunRecord.of(jobs, jobId);
      this.launch(begun, agent, place, { record });
    } finally {
      this.#early.delete(jobId);
    }
  }

  async #takeUp(unit: Unit, job: StoredJob, kind: TurnKind, run_count: number): Promise<StoredJob> {
    if (kind === "resume") await unit.record(job.id, { type: "mark", mark: "resumed" });
    return changeJob(unit, job.id, (current) => ({ ...current, run_count }));
  }

  async #handle(
    run: Run,
    job: StoredJob,
    agent: HostedAgent,
    values: Readonly<Record<string, string>> | undefined,
  ): Promise<unknown> {
    const { jobs, cases } = this.#parts;
    const method = agent.definition.methods.job_start;
    const checking = fieldsOf(method).check(job.job_fields);
    const fields = checking instanceof Promise ? await checking : checking;
    if (!fields.ok) {
      throw new Error(`The job's fields no longer match the agent: ${describeProblems(fields.problems)}`);
    }
    const { parameters, log, telemetry, get } = await toHandlerContext(this.#parts, agent, job, {
      parameters: values,
      log: silenced(run.parts.log, () => run.deliveries.isSilent),
    });
    checkRequired(agent, parameters);
    const handle = new RunJob(run, {
      context: job.job_context,
      readJob: async () => jobs.show(await jobs.get(job.id)),
      readCase: (id) => cases.get(id),
      onAnswer: this.#answerHandler(run, job, agent),
    });
    const given = { parameters, log, telemetry, get, job: handle, fields: fields.values };
    const context = Object.assign(new WithSignal(run), given);
    run.deliveries.begin();
    return method.run(context);
  }

  #answerHandler(run: Run, job: StoredJob, agent: HostedAgent) {
    const method = agent.definition.methods.human_answer;
    if (!method) return undefined;
    const { jobs, cases } = this.#parts;
    return async (caseId: string, { answer, message = null }: AnswerEntry): Promise<void> => {
      const context = await toHandlerContext(this.#parts, agent, job);
      const told = {
        job: await jobs.show(await jobs.get(job.id)),
        case: await cases.get(caseId),
        answer,
        message,
      };
      await callMethod("human_answer", method, (signal) => ({ ...context, ...told, signal }), run.signal);
    };
  }
}

/** Who a job is to the scheduler. */
export function toApplicant({ id, agent_name, job_context }: StoredJob): Applicant {
  return { jobId: id, agent: agent_name, workspace: job_context.workspace_id };
}
