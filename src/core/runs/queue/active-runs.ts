import { AsyncLocalStorage } from "node:async_hooks";
import type { AgentRegistry, HostedAgent } from "../../agents/registry.ts";
import { suspendAfterOf } from "../../agents/suspend-after.ts";
import { KeyedMutex } from "../../base/keyed-mutex.ts";
import { PassingMap } from "../../base/passing-map.ts";
import type { Redactor } from "../../base/redactor.ts";
import { Signals } from "../../base/signals.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { Cases } from "../../entities/cases.ts";
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
import type { StepUnderWay } from "../replay/activity.ts";
import { callHandler, type HandlerCall } from "../replay/call-handler.ts";
import { type ChildrenParts, childrenOf } from "../replay/children.ts";
import type { EventsOfJob } from "../replay/event-wait.ts";
import type { HandlerParts } from "../replay/handler-context.ts";
import { readsOf } from "../replay/reads-of.ts";
import { Run, type RunParts, SUPERSEDED } from "../replay/run.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import { RunRecord } from "../replay/run-record.ts";
import type { Place, Scheduler } from "./scheduler.ts";
import type { TurnKind } from "./turn-kind.ts";

export interface ActiveRunsParts extends HandlerParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  /** Gets the costs of the jobs that run here. */
  readonly liveCosts: LiveCosts;
  readonly cases: Cases;
  readonly received: ReceivedEvents;
  readonly ledger: Ledger;
  readonly redactor: Redactor;
  /** Gets what steps emit. */
  readonly emissions: Emissions;
  readonly clock: () => Date;
  /** Ends waits at their time of day. */
  readonly startTimer: StartTimer;
  /** Address of the control system, shown in cases. */
  readonly apiUrl: string | null;
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
  /** @default nothing is recorded */
  readonly record?: RunRecord | undefined;
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
  /** Answers to jobs whose runs are being started: these may have read the log just before. */
  readonly #early = new Map<string, { readonly entry: AnswerEntry; readonly seq: number }[]>();
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
      return run && !run.isOver ? run.limits.spent : undefined;
    };
    liveCosts.all = () => {
      const spent = new Map<string, number>();
      for (const [id, run] of this.#runs)
        if (!run.isOver && run.limits.spent > 0) spent.set(id, run.limits.spent);
      return spent;
    };
  }

  find(jobId: string): Run | undefined {
    return this.#runs.get(jobId);
  }

  /** Whether a job is run here, and its end is not even about to be stored. */
  isRunning(jobId: string): boolean {
    return this.#runs.get(jobId)?.isEndAhead ?? false;
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

  /** The same for the work that starts one. */
  async starting<T>(jobId: string, work: () => Promise<T>): Promise<T> {
    this.#early.set(jobId, []);
    try {
      return await work();
    } finally {
      this.#early.delete(jobId);
    }
  }

  /** An answer is stored just now. */
  answered(jobId: string, entry: AnswerEntry, seq: number): void {
    this.#early.get(jobId)?.push({ entry, seq });
    this.#runs.get(jobId)?.questions.answered(entry, seq);
  }

  /** An event was just stored, together with the waits that it was given to. */
  received(waits: readonly EventWait[]): void {
    for (const { id } of waits) this.#waits.signal(id);
  }

  /** Lets running steps end within the grace time, in seconds, and leaves all jobs to the next start. */
  async close(grace: number): Promise<void> {
    this.#parts.scheduler.close();
    const runs = [...this.#runs.values()];
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, grace * 1000);
    });
    await Promise.race([Promise.all(runs.map((run) => run.freeze())), late]);
    clearTimeout(timer);
    for (const run of runs) run.abandon(CLOSING);
    const left = runs.map(({ jobId, parts: { epoch }, limits }) => ({
      jobId,
      epoch,
      total_cost: limits.spent,
    }));
    await this.#parts.cluster.release(left);
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

  /** Runs a started job in its slot. */
  launch(
    job: StoredJob,
    place: Place,
    { agent, record = new RunRecord(), values, suspended, wokenAt }: Beginning,
  ): void {
    const { cluster } = this.#parts;
    cluster.checkLease();
    // While its beginning was being stored, the service began to close, or counted as dead: others may have the job.
    if (this.#parts.scheduler.isClosed || cluster.isElsewhere(job)) {
      place.release();
      void cluster.release([{ jobId: job.id, epoch: job.run_count, total_cost: job.total_cost }]);
      return;
    }
    const { ledger, clock, startTimer, redactor, emissions, stopGrace, apiUrl } = this.#parts;
    const { timeout } = agent.definition.methods.job_start;
    const log = this.#parts.log.with({ agent: agent.slug, job_id: job.id });
    const run: Run = new Run({
      jobId: job.id,
      agent: agent.slug,
      epoch: job.run_count,
      instructions: job.job_context.job_instructions,
      account: { workspace_id: job.job_context.workspace_id, api_key: null, api_url: apiUrl },
      worked: suspended?.worked,
      wokenAt,
      suspension: this.#suspensionOf(agent),
      stopGrace: stopGrace * 1000,
      timeout: timeout === undefined ? undefined : timeout * 1000,
      insides: INSIDES,
      isStrict: this.#parts.strictSteps,
      // Steps of an isolated agent are followed in its process.
      mayRead: !agent.definition.isolate && (agent.mayRead || record.hasReads),
      onRead: () => {
        agent.mayRead = true;
      },
      code: { version: agent.definition.version, fingerprint: agent.code },
      redact: (text) => redactor.text(text),
      emissions,
      record,
      place,
      checkLease: cluster.checkLease,
      readAnswers: cluster.answersOf(() => run),
      doing: cluster.watched.doingOf(job, () => run),
      ledger,
      log,
      clock,
      startTimer,
    });
    this.#runs.set(job.id, run);
    place.share(cluster.limits.partOf(job));
    for (const { entry, seq } of this.#early.get(job.id) ?? []) run.questions.answered(entry, seq);
    let isolated: IsolatedRun | undefined;
    const call: HandlerCall = {
      ...{ run, job, agent, values, ...readsOf(this.#parts, job.id) },
      children: childrenOf(this.#children, job),
      events: this.#events,
      relaunch: () => void this.#relaunch(run, job),
      onIsolated: (one) => {
        isolated = one;
      },
    };
    run
      .execute(() => callHandler(this.#parts, call))
      .catch((error: unknown) => {
        log.error("the end of a run could not be stored", { error });
      })
      .finally(() => {
        isolated?.end();
        if (this.#runs.get(job.id) !== run) return;
        this.#forget(job.id);
      });
  }

  #forget(jobId: string): void {
    this.#runs.delete(jobId);
    this.#parts.cluster.watched.forget(jobId);
  }

  /** Resumes a job in a new process, once the tries that its process has cut short are recorded as failed. */
  async #relaunch(run: Run, job: StoredJob): Promise<void> {
    await run.freeze();
    if (run.isOver || run.isInterrupted) return;
    run.abandon(CLOSING);
    await this.#parts.queue(job, "resume");
  }

  /** How runs of an agent leave memory. */
  #suspensionOf({ definition }: HostedAgent): RunParts["suspension"] {
    const after = suspendAfterOf(definition, this.#parts.suspendAfter);
    if (after === undefined) return undefined;
    const suspend = async (run: Run) => {
      const { jobId } = run;
      await this.exclusively(jobId, async () => {
        if (this.#kept.has(jobId)) return;
        await run.suspend(() => this.#forget(jobId));
      });
    };
    return { after, suspend };
  }
}
