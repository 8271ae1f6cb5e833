import { AsyncLocalStorage } from "node:async_hooks";
import type { AgentRegistry, HostedAgent } from "../../agents/registry.ts";
import { suspendAfterOf } from "../../agents/suspend-after.ts";
import type { Workspaces } from "../../agents/workspaces.ts";
import { KeyedMutex } from "../../base/keyed-mutex.ts";
import { PassingMap } from "../../base/passing-map.ts";
import type { Redactor } from "../../base/redactor.ts";
import { Signals } from "../../base/signals.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { Cases } from "../../entities/cases.ts";
import type { Files } from "../../entities/files.ts";
import type { Jobs, LiveCosts } from "../../entities/jobs.ts";
import type { Ledger } from "../../entities/ledger.ts";
import type { ReceivedEvents } from "../../entities/received-events.ts";
import type { StoredJob } from "../../models/job.ts";
import type { EventWait } from "../../models/received-event.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { UnderWay } from "../cluster/under-way.ts";
import type { Emissions } from "../emissions/emissions.ts";
import type { IsolatedRun } from "../isolation/isolated-run.ts";
import { JobEnds } from "../operate/job-ends.ts";
import { callHandler, type HandlerCall } from "../replay/call-handler.ts";
import { type ChildrenParts, childrenOf } from "../replay/children.ts";
import type { EventsOfJob } from "../replay/event-wait.ts";
import type { HandlerParts } from "../replay/handler-context.ts";
import { readsOf } from "../replay/reads-of.ts";
import { Run } from "../replay/run.ts";
import { type RunEnd, SUPERSEDED } from "../replay/run-errors.ts";
import { RunRecord } from "../replay/run-record.ts";
import type { StepUnderWay } from "../replay/step-under-way.ts";
import type { SuspensionTimes } from "../replay/suspension.ts";
import type { TraceSource } from "../traced-call.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Slot } from "./slot.ts";
import type { TurnKind } from "./turn-kind.ts";

export interface ActiveRunsParts extends HandlerParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  /** Gets the costs of the jobs that run here. */
  readonly liveCosts: LiveCosts;
  readonly cases: Cases;
  readonly received: ReceivedEvents;
  readonly ledger: Ledger;
  /** Keeps the files of jobs; where it is absent, jobs have none. */
  readonly files?: Files | undefined;
  readonly redactor: Redactor;
  /** Gets what steps emit. */
  readonly emissions: Emissions;
  /** Headers by which other services continue the trace at a call. @default none */
  readonly trace?: TraceSource | undefined;
  readonly clock: () => Date;
  /** Ends waits at their time of day. */
  readonly startTimer: StartTimer;
  /** Address of the control system, shown in cases. */
  readonly apiUrl: string | null;
  /** Limits of workspaces; none where it is absent. */
  readonly workspaces?: Workspaces | undefined;
  /** Seconds that a handler gets to end by itself. */
  readonly stopGrace: number;
  /** Milliseconds that a job only waits before it leaves memory; without it, jobs stay. */
  readonly suspendAfter?: number | undefined;
  /** Whether calls inside a step's function are found wherever they are made. */
  readonly strictSteps: boolean;
  readonly underWay?: UnderWay | undefined;
  readonly scheduler: Scheduler;
  readonly cluster: Cluster;
  /** Has a stored job run when its turn comes. */
  readonly queue: (job: StoredJob, kind: TurnKind) => Promise<unknown>;
  /** Stops a child of a job. */
  readonly stop: ChildrenParts["stop"];
}

/** What a run begins with. */
export interface Beginning {
  readonly agent: HostedAgent;
  /** Reads what is recorded of the job. @default nothing is recorded */
  readonly readRecord?: (() => Promise<RunRecord>) | undefined;
  /** The job's parameters, where they are open already. */
  readonly values?: Record<string, string> | undefined;
  /** What is known of the time that the job was suspended. */
  readonly suspended?: StoredJob["suspended"];
  readonly wokenAt?: number | undefined;
}

/** One for all services of the process: each that is in use makes every promise cost more. Unused, it costs nothing. */
const INSIDES = new AsyncLocalStorage<StepUnderWay>();

const CLOSING: RunEnd = {
  to: "cancelled",
  reason: "interrupted",
  message: "The service is closing: the job resumes at its next start",
};

/** The runs of this process: gives each job its turn, and its handler what it needs. */
export class ActiveRuns {
  readonly ends: JobEnds;
  readonly #parts: ActiveRunsParts;
  readonly #runs = new PassingMap<string, Run>();
  readonly #mutex = new KeyedMutex();
  /** Waits for events, by their ids. */
  readonly #waits = new Signals();
  readonly #events: EventsOfJob;
  readonly #children: ChildrenParts;
  /** Jobs that are not to be suspended now, with the number of reasons. */
  readonly #kept = new Map<string, number>();

  constructor(parts: ActiveRunsParts) {
    this.#parts = parts;
    const { received, liveCosts } = parts;
    this.#events = {
      find: (match, range) => received.find(match, range),
      given: (jobId) => received.given(jobId),
      isWaiting: (waitId) => received.isWaiting(waitId),
      next: (waitId) => this.#waits.next(waitId),
    };
    this.ends = new JobEnds(parts.jobs, parts.hooks, (id) => this.#runs.get(id)?.isInterrupted === false);
    this.#children = { ...parts, ends: this.ends, queue: (job) => void parts.queue(job, "start") };
    liveCosts.of = (id) => {
      const run = this.#runs.get(id);
      return run?.isOver === false ? run.spent : undefined;
    };
    liveCosts.all = () => {
      const costs = new Map<string, number>();
      for (const [id, { isOver, spent = 0 }] of this.#runs) if (!isOver && spent > 0) costs.set(id, spent);
      return costs;
    };
  }

  find(jobId: string): Run | undefined {
    return this.#runs.get(jobId);
  }

  /** Whether a job is run here, and its end is not even about to be stored. */
  isRunning(jobId: string): boolean {
    return this.#runs.get(jobId)?.isSealed === false;
  }

  list(): Run[] {
    return [...this.#runs.values()];
  }

  /** Ends all runs, and leaves their jobs as they are: others may have claimed them already. */
  leaveAll(): void {
    for (const run of this.#runs.values()) run.abandon(SUPERSEDED);
  }

  /**
   * Serializes work that starts a run of a job, or that changes the job depending on its run: while a run is
   * being started, there is nothing that could be asked to end.
   */
  exclusively<T>(jobId: string, work: () => Promise<T>): Promise<T> {
    return this.#mutex.run(jobId, work);
  }

  /** An answer is stored just now. */
  answered(jobId: string, entry: AnswerEntry, seq: number): void {
    this.#runs.get(jobId)?.questions.answered(entry, seq);
  }

  /** An event was just stored, together with the waits that it was given to. */
  received(waits: readonly EventWait[]): void {
    for (const { id } of waits) this.#waits.signal(id);
  }

  /**
   * Lets running steps end within the grace time, in seconds, and leaves all jobs to the next start: each as soon as its own
   * steps are over.
   */
  async close(grace: number): Promise<void> {
    this.#parts.scheduler.close();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, grace * 1000);
    });
    const giveUp = async (run: Run): Promise<void> => {
      await Promise.race([run.freeze(), late]);
      run.abandon(CLOSING);
      const { jobId, parts, spent: total_cost } = run;
      const left = { jobId, epoch: parts.epoch, ...(total_cost !== undefined && { total_cost }) };
      await this.#parts.cluster.release(left);
    };
    await Promise.all([...this.#runs.values()].map(giveUp));
    clearTimeout(timer);
    this.ends.close();
    this.#parts.processes?.close();
    this.#parts.underWay?.end();
  }

  /** Has a job that is in memory, or is resumed, stay there until the result is called. */
  keepInMemory(jobId: string): () => void {
    this.#kept.set(jobId, (this.#kept.get(jobId) ?? 0) + 1);
    return () => {
      const left = this.#kept.get(jobId)! - 1;
      if (left > 0) this.#kept.set(jobId, left);
      else this.#kept.delete(jobId);
    };
  }

  /**
   * Runs a started job in its slot. The run is known from now on, although its record may have to be read first: what
   * comes meanwhile is not missed.
   */
  async launch(job: StoredJob, slot: Slot, beginning: Beginning): Promise<void> {
    const { cluster, scheduler } = this.#parts;
    cluster.checkLease();
    // While its beginning was being stored, the service began to close, or counted as dead: others may have the job.
    if (scheduler.isClosed || cluster.isElsewhere(job)) {
      slot.release();
      void cluster.release({ jobId: job.id, epoch: job.run_count, total_cost: job.total_cost });
      return;
    }
    const run = this.#toRun(job, slot, beginning);
    this.#runs.set(job.id, run);
    slot.share(cluster.limits.partOf(job));
    const { readRecord } = beginning;
    try {
      const record = readRecord ? await readRecord() : new RunRecord();
      cluster.checkLease();
      // The service closes, or counted as dead.
      if (run.isOver) {
        this.#forget(run);
        slot.leave();
      } else this.#execute(run, job, { record, ...beginning });
    } catch (error) {
      this.#forget(run);
      throw error;
    }
  }

  #toRun(job: StoredJob, slot: Slot, { agent, suspended, wokenAt }: Beginning): Run {
    const { cluster, ledger, clock, startTimer, redactor, emissions, stopGrace, apiUrl } = this.#parts;
    const { isolate, methods, version } = agent.definition;
    const { timeout } = methods.job_start;
    const run: Run = new Run({
      jobId: job.id,
      agent: agent.slug,
      epoch: job.run_count,
      instructions: job.job_context.job_instructions,
      account: { workspace_id: job.job_context.workspace_id, api_key: null, api_url: apiUrl },
      access: job.access,
      isBudgeted: this.#parts.workspaces?.of(job.job_context.workspace_id).budget !== undefined,
      worked: suspended?.worked,
      wokenAt,
      suspension: () => this.#suspensionOf(agent, run),
      stopGrace: stopGrace * 1000,
      timeout: timeout === undefined ? undefined : timeout * 1000,
      insides: INSIDES,
      isStrict: this.#parts.strictSteps,
      isIsolated: Boolean(isolate),
      mayRead: agent.mayRead,
      onRead: () => {
        agent.mayRead = true;
      },
      code: { version, fingerprint: agent.code },
      redact: (text) => redactor.text(text),
      emissions,
      trace: this.#parts.trace,
      slot,
      checkLease: cluster.checkLease,
      readAnswers: cluster.answersOf(() => run),
      doing: cluster.watched.doingOf(job, () => run),
      ledger,
      files: this.#parts.files,
      readResult: (file) => this.#parts.files!.readResult(file),
      openLog: () => this.#parts.log.with({ agent: agent.slug, job_id: job.id }),
      clock,
      startTimer,
    });
    return run;
  }

  #execute(
    run: Run,
    job: StoredJob,
    { agent, values, record }: Beginning & { readonly record: RunRecord },
  ): void {
    run.parts.slot.use();
    let isolated: IsolatedRun | undefined;
    const call: HandlerCall = {
      ...{ run, job, agent, values, ...readsOf(this.#parts, job.id) },
      children: () => childrenOf(this.#children, job),
      events: this.#events,
      relaunch: () => void this.#relaunch(run, job),
      onIsolated: (one) => {
        isolated = one;
      },
    };
    run
      .execute(record, () => callHandler(this.#parts, call))
      .catch((error: unknown) => {
        run.log.error("the end of a run could not be stored", { error });
      })
      .finally(() => {
        isolated?.end();
        this.#forget(run);
      });
  }

  /** A run is over, or has left memory; its job may have another one. */
  #forget(run: Run): void {
    if (this.#runs.deleteIf(run.jobId, run)) this.#parts.cluster.watched.forget(run.jobId);
  }

  /** Resumes a job in a new process, once the tries that its process has cut short are recorded as failed. */
  async #relaunch(run: Run, job: StoredJob): Promise<void> {
    await run.freeze();
    if (run.isOver || run.isInterrupted) return;
    run.abandon(CLOSING);
    await this.#parts.queue(job, "resume");
  }

  /** How a run of an agent leaves memory. */
  #suspensionOf({ definition }: HostedAgent, run: Run): SuspensionTimes | undefined {
    const after = suspendAfterOf(definition, this.#parts.suspendAfter);
    if (after === undefined) return undefined;
    const suspend = () =>
      this.exclusively(run.jobId, async () => {
        if (!this.#kept.has(run.jobId)) await run.suspension?.leave(() => this.#forget(run));
      });
    return { after, suspend };
  }
}
