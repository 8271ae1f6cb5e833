import { AsyncLocalStorage } from "node:async_hooks";
import type { AgentRegistry, HostedAgent } from "../../agents/registry.ts";
import { suspendAfterOf } from "../../agents/suspend-after.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { KeyedMutex } from "../../base/keyed-mutex.ts";
import type { Redactor } from "../../base/redactor.ts";
import { Signals } from "../../base/signals.ts";
import type { StartTimer } from "../../base/timer.ts";
import { type Cases, notifyOfCopies } from "../../entities/cases.ts";
import {
  changeJob,
  type Jobs,
  type LiveCosts,
  moveJob,
  noteDoing,
  released,
  takeJob,
} from "../../entities/jobs.ts";
import type { Ledger, Unit } from "../../entities/ledger.ts";
import type { ReceivedEvents } from "../../entities/received-events.ts";
import type { StoredJob } from "../../models/job.ts";
import { holdOf, isIn, may, QUEUED_JOBS as QUEUED, stateOf, UNFINISHED } from "../../models/job-state.ts";
import type { EventWait } from "../../models/received-event.ts";
import type { AnswerEntry, RunEntry } from "../../models/run-entry.ts";
import { FencedError, type Store } from "../../store/store.ts";
import { rehearse } from "../check/rehearse.ts";
import { isProgress } from "../cluster/count-crashes.ts";
import { type Refusal, SharedLimits } from "../cluster/shared-limits.ts";
import { type Suspect, Suspects } from "../cluster/suspects.ts";
import type { UnderWay } from "../cluster/under-way.ts";
import type { Emissions } from "../emissions/emissions.ts";
import type { IsolatedRun } from "../isolation/isolated-run.ts";
import { JobEnds } from "../operate/job-ends.ts";
import type { Doing, StepUnderWay } from "../replay/activity.ts";
import { callHandler, type HandlerCall } from "../replay/call-handler.ts";
import { type ChildrenParts, childrenOf } from "../replay/children.ts";
import type { EventsOfJob } from "../replay/event-wait.ts";
import type { HandlerParts } from "../replay/handler-context.ts";
import { type Rehearsed, Run, type RunParts, SUPERSEDED } from "../replay/run.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import { RunRecord } from "../replay/run-record.ts";
import type { QueuePosition } from "../runner.ts";
import { type Applicant, type Place, Scheduler, type SharedPart } from "./scheduler.ts";
import type { TurnKind } from "./turn-kind.ts";
import { Waker } from "./waker.ts";
import { whenWritable } from "./when-writable.ts";

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
  /** Milliseconds by which a test has advanced the clock. @default never */
  readonly advancedBy?: (() => number) | undefined;
  /** Address of the control system, shown in cases. */
  readonly apiUrl: string | null;
  readonly maxConcurrentJobs: number;
  /** Seconds that a handler gets to end by itself. */
  readonly stopGrace: number;
  /** Milliseconds that a job only waits before it leaves memory; without it, jobs stay. */
  readonly suspendAfter?: number | undefined;
  /** Whether calls inside a step's function are found wherever they are made. */
  readonly strictSteps: boolean;
  readonly underWay?: UnderWay | undefined;
  /** Whether nothing runs until the scheduler is resumed. @default false */
  readonly isPaused?: boolean;
  readonly store: Store;
  /** The instance that these runs are of, where several share the store: others leave their jobs alone. */
  readonly owner?: (() => string) | undefined;
  /** Called before a step begins: leaves all runs where the instance may count as dead. */
  readonly checkLease?: (() => void) | undefined;
  /** Whether this instance counts as alive: others claim what a dead one begins. */
  readonly isAlive?: (() => boolean) | undefined;
}

/** The turn of a job to run. */
interface Turn {
  readonly kind: TurnKind;
  readonly place: Place;
  /** What its log has, if that is known. */
  readonly entries?: readonly RunEntry[] | undefined;
  /** When its wait was over, where the clock was set back while it was suspended. */
  readonly wokenAt?: number | undefined;
}

interface LaunchOptions {
  readonly record?: RunRecord;
  /** The job's parameters, where they are open already. */
  readonly values?: Record<string, string>;
  /** What is known of the time that the job was suspended. */
  readonly suspended?: { readonly worked?: number; readonly wokenAt: number | undefined };
}

/** One for all services of the process: each that is in use makes every promise cost more. Unused, it costs nothing. */
const INSIDES = new AsyncLocalStorage<StepUnderWay>();

/** Jobs that are read together. */
const PAGE = 500;

const CLOSING: RunEnd = {
  to: "cancelled",
  reason: "interrupted",
  message: "The service is closing: the job resumes at its next start",
};

/** Held jobs that are tried at the same time: each try has a whole log in memory. */
const TRIED_AT_ONCE = 4;

/** The runs of this process: gives each job its turn, and its handler what it needs. */
export class ActiveRuns {
  readonly scheduler: Scheduler;
  /** Where several instances share the store. */
  readonly limits: SharedLimits | undefined;
  readonly #parts: ActiveRunsParts;
  readonly #runs = new Map<string, Run>();
  /** Held jobs that were tried, and the last try of each lane: those of one lane follow each other. */
  #tried = 0;
  readonly #lanes: Promise<void>[] = [];
  readonly #insides: AsyncLocalStorage<StepUnderWay> | undefined;
  readonly #mutex = new KeyedMutex();
  /** Answers to jobs whose runs are being started: these may have read the log just before. */
  readonly #early = new Map<string, { readonly entry: AnswerEntry; readonly seq: number }[]>();
  readonly #suspects: Suspects;
  readonly #children: ChildrenParts;
  readonly ends: JobEnds;
  /** Waits for events, by their ids. */
  readonly #waits = new Signals();
  readonly #events: EventsOfJob;
  readonly #waker: Waker;
  /** Jobs that are not to be suspended now, with the number of reasons. */
  readonly #kept = new Map<string, number>();
  /** Jobs whose steps are noted before they begin: they were under way at a crash. */
  readonly #noted = new Map<string, TurnKind>();
  /** The number of the last line of its job's log that a run knows. */
  readonly #linesSeen = new WeakMap<Run, number>();
  /** Queued jobs of all instances as they were counted last, and since then. */
  #queued = { count: Promise.resolve(0), added: 0, until: 0 };
  /** Jobs that wait for their turn here, or are ended, with the number of reasons. */
  readonly #handled = new Map<string, number>();
  /** Agents of other living instances, as `slug@version`. */
  hostedElsewhere: ReadonlySet<string> = new Set();
  /** Until when no agent starts new jobs, ISO 8601. */
  drainedUntil: string | undefined;
  #stopDrainTimer: () => void = () => {};
  /** Stops a child of a job. */
  stopChild: ChildrenParts["stop"] | undefined;
  /** Ends a run whose job was stopped at another instance. */
  onStopped: ((run: Run, job: StoredJob) => void) | undefined;
  /** Called when no job is left that was under way at a crash. */
  onSuspectsResumed: (() => void) | undefined;

  constructor(parts: ActiveRunsParts) {
    this.#parts = parts;
    const { agents, maxConcurrentJobs, strictSteps } = parts;
    this.#insides = strictSteps ? INSIDES : undefined;
    const isIsolated = (slug: string) => Boolean(agents.find(slug)?.definition.isolate);
    this.scheduler = new Scheduler({
      places: maxConcurrentJobs,
      isPaused: parts.isPaused,
      keyLimitOf: (slug) => {
        const { limit, scope } = agents.find(slug)?.definition.concurrency ?? {};
        return limit === undefined ? undefined : { limit, isKept: scope === "job" };
      },
      rateOf: (slug) => {
        const { limit, period, key } = agents.find(slug)?.definition.rateLimit ?? {};
        if (limit === undefined) return undefined;
        return { limit, period: toMilliseconds(period!), isKeyed: key !== undefined };
      },
      clock: parts.clock,
      startTimer: parts.startTimer,
      isShared: parts.owner !== undefined,
      placesOf: (slug) => agents.find(slug)?.definition.maxConcurrentJobs ?? maxConcurrentJobs,
      watch: {
        // What an isolated agent does cannot end this process.
        began: ({ jobId, agent }) => isIsolated(agent) || parts.underWay?.began(jobId),
        rested: ({ jobId, agent }) => {
          if (!isIsolated(agent)) parts.underWay?.rested(jobId);
          this.#suspects.rested(jobId);
        },
      },
    });
    if (parts.owner) this.limits = new SharedLimits({ ...parts, scheduler: this.scheduler });
    const ended = ({ job }: { job: StoredJob }) => {
      this.scheduler.ended(toApplicant(job));
      this.#inBackground(this.limits?.ended(job));
    };
    parts.hooks.on("job:finished", ended);
    parts.hooks.on("job:deleted", ended);
    this.#suspects = new Suspects({
      ...parts,
      isClosed: () => this.scheduler.isClosed,
      begin: async ({ job, kind, entries, before }) => {
        await before?.();
        return this.queue(job, kind, entries);
      },
      onIdle: () => this.onSuspectsResumed?.(),
    });
    // It did not end its instance.
    if (parts.owner) {
      parts.hooks.on("run:entry", ({ job_id, entry }) => {
        // One that starts over makes the same calls again.
        if (this.#noted.get(job_id) === "resume" && isProgress(entry)) this.#noted.delete(job_id);
      });
    }
    const { received } = parts;
    this.#events = {
      find: (match, range) => received.find(match, range),
      given: (jobId) => received.given(jobId),
      isWaiting: (waitId) => received.isWaiting(waitId),
      next: (waitId) => this.#waits.next(waitId),
    };
    this.ends = new JobEnds(parts.jobs, parts.hooks, (id) => this.#runs.get(id)?.isInterrupted === false);
    this.#children = {
      ...{ ...parts, ends: this.ends, queue: (job) => void this.queue(job, "start") },
      stop: (...given) => this.stopChild!(...given),
    };
    this.#waker = new Waker({
      ...parts,
      isClosed: () => this.scheduler.isClosed,
      resume: (job, wokenAt) => this.#resumeSuspended(job, wokenAt),
    });
    parts.liveCosts.of = (id) => {
      const run = this.#runs.get(id);
      return run && !run.isOver ? run.limits.spent : undefined;
    };
    parts.liveCosts.all = () => {
      const spent = new Map<string, number>();
      for (const [id, run] of this.#runs)
        if (!run.isOver && run.limits.spent > 0) spent.set(id, run.limits.spent);
      return spent;
    };
  }

  /** Gives the jobs that were started by earlier processes the concurrency keys that they keep to their ends. */
  async holdKeys(): Promise<void> {
    const { agents, jobs } = this.#parts;
    if (this.limits) return;
    for (const { slug, definition } of agents.list()) {
      if (definition.concurrency?.scope !== "job") continue;
      const where = { agent_name: slug, status: UNFINISHED };
      for (let skip = 0, left = 1; left > 0; skip += PAGE) {
        const { items, total } = await jobs.list({ where, sort: "created_at", limit: PAGE, skip });
        for (const job of items) if (job.run_count > 0) this.scheduler.hold(toApplicant(job));
        left = total - skip - PAGE;
      }
    }
  }

  /** Counts the starts of earlier processes that are in the present period of a rate limit. */
  async recallStarts(): Promise<void> {
    const { agents, jobs, clock } = this.#parts;
    if (this.limits) return;
    for (const { slug, definition } of agents.list()) {
      if (!definition.rateLimit) continue;
      const since = new Date(clock().getTime() - toMilliseconds(definition.rateLimit.period)).toISOString();
      const starts: { readonly at: string; readonly job: StoredJob }[] = [];
      for (let skip = 0, isOver = false; !isOver; skip += PAGE) {
        const page = { where: { agent_name: slug }, sort: "-updated_at", limit: PAGE, skip };
        const { items } = await jobs.list(page);
        for (const job of items) if (job.run_count > 0) starts.push({ at: await this.#startedAt(job), job });
        isOver = items.length < PAGE || items.at(-1)!.updated_at < since;
      }
      const inOrder = starts
        .filter(({ at }) => at > since)
        .sort((one, other) => (one.at < other.at ? -1 : 1));
      for (const { at, job } of inOrder) this.scheduler.startedBefore(toApplicant(job), Date.parse(at));
    }
  }

  /** When a job started first: the beginning of its log says so. */
  async #startedAt({ id, updated_at, forked_from }: StoredJob): Promise<string> {
    // The beginning of a fork's log is that of another job.
    if (forked_from) return updated_at;
    const lines = await this.#parts.jobs.log(id, { limit: 5 });
    const start = lines.find(({ entry }) => entry.type === "status" && entry.from === "stopped");
    return start?.entry.at ?? updated_at;
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

  /** What jobs that run here have as `owner`: null where only this process has the store. */
  get owner(): string | null {
    return this.#parts.owner?.() ?? null;
  }

  /** Whether what begins here stays here. */
  get mayBegin(): boolean {
    return this.#parts.isAlive?.() ?? true;
  }

  /** Whether another instance owns a job, alive or not. */
  isElsewhere({ owner }: Pick<StoredJob, "owner">): boolean {
    return this.owner !== null && Boolean(owner) && owner !== this.owner;
  }

  /**
   * Whether a job may run here: this instance hosts its version, or no living one does, so that each version of its agent
   * will do.
   */
  mayRun({ agent_name, agent_version }: StoredJob): boolean {
    const { agents } = this.#parts;
    if (agent_version == null || !this.hostedElsewhere.has(`${agent_name}@${agent_version}`)) return true;
    return agents.versions(agent_name).some(({ definition }) => definition.version === agent_version);
  }

  /** How many jobs wait for their first place at all instances together; the caller adds one. Counted once a second at most. */
  async countQueued(): Promise<number> {
    if (this.owner === null) return this.scheduler.queued;
    if (performance.now() >= this.#queued.until) {
      const count = this.#parts.jobs.countBy("status", { where: QUEUED }).then(({ stopped = 0 }) => stopped);
      this.#queued = { count, added: 0, until: performance.now() + 1000 };
    }
    const counted = this.#queued;
    const before = counted.added++;
    try {
      return (await counted.count) + before;
    } catch (error) {
      counted.until = 0;
      throw error;
    }
  }

  /** The position of a queued job among those of all instances. */
  async position(jobId: string): Promise<QueuePosition | undefined> {
    if (this.owner === null) return this.scheduler.position(jobId);
    if (this.isRunning(jobId)) return undefined;
    const { jobs } = this.#parts;
    const job = await jobs.find(jobId);
    if (!job || stateOf(job) !== "queued") return undefined;
    const before = { ...QUEUED, created_at: { lt: Date.parse(job.created_at) } };
    const [all, ahead] = await Promise.all(
      [QUEUED, before].map((where) => jobs.countBy("status", { where })),
    );
    const queued = all!.stopped ?? 0;
    return { position: Math.min((ahead!.stopped ?? 0) + 1, queued), queued };
  }

  /** Whether a job waits for an instance that hosts its agent, as far as is known of the others. */
  lacksAgent(job: StoredJob): boolean {
    const { owner, agent_name } = job;
    if (this.owner === null || owner || isIn(job, "ended", "parked", "suspended")) return false;
    if (this.#parts.agents.find(agent_name)) return false;
    return ![...this.hostedElsewhere].some((one) => one.startsWith(`${agent_name}@`));
  }

  /** Whether something of a job is under way here, or waits for its turn. */
  isHandled(jobId: string): boolean {
    return this.#runs.has(jobId) || this.#handled.has(jobId);
  }

  /** Counts jobs as handled until `work` has settled. */
  async handling<T>(jobIds: readonly string[], work: Promise<T>): Promise<T> {
    const count = (id: string, more: number): void => {
      const next = (this.#handled.get(id) ?? 0) + more;
      if (next > 0) this.#handled.set(id, next);
      else this.#handled.delete(id);
    };
    for (const id of jobIds) count(id, 1);
    try {
      return await work;
    } finally {
      for (const id of jobIds) count(id, -1);
    }
  }

  /** Gives a job up that has no run here, for any instance to claim it. */
  async giveUp(job: string, epoch: number): Promise<void> {
    await this.#parts.ledger
      .write((unit) => takeJob(unit, job), { fence: { job, epoch } })
      .catch((error: unknown) => {
        if (!(error instanceof FencedError)) throw error;
      });
    this.offer([job]);
  }

  /** Tells the owners of these jobs to read what is stored of them. */
  tell(ids: readonly string[]): void {
    if (this.owner !== null && ids.length > 0) this.#parts.store.hints.tell("run", ids);
  }

  /** Tells the other instances that there are jobs that nobody owns. */
  offer(ids: readonly string[]): void {
    if (this.owner !== null && ids.length > 0) this.#parts.store.hints.tell("claim", ids);
  }

  /** New jobs of paused agents wait, from now on those of no other; other instances are informed where this one has changed it. */
  async readPausedAgents(isChanged = false): Promise<void> {
    const { settings, clock, startTimer } = this.#parts;
    const now = clock();
    const { slugs, drainedUntil } = await settings.paused(now);
    this.drainedUntil = drainedUntil;
    this.scheduler.pauseAgents(slugs, drainedUntil !== undefined);
    this.#stopDrainTimer();
    if (drainedUntil !== undefined)
      this.#stopDrainTimer = startTimer(Date.parse(drainedUntil) - now.getTime(), () =>
        this.#inBackground(this.readPausedAgents()),
      );
    if (isChanged) this.offer(["agents"]);
  }

  /** Tells its own runs what other instances have stored of their jobs; of all jobs, or of these. */
  async look(among?: ReadonlySet<string>): Promise<void> {
    const { jobs } = this.#parts;
    const here = [...this.#runs.values()].filter((run) => !run.isOver && (!among || among.has(run.jobId)));
    if (here.length === 0) return;
    const where = { id: here.map(({ jobId }) => jobId) };
    const { items } = await jobs.list({ where, limit: here.length });
    const found = new Map(items.map((job) => [job.id, job]));
    for (const run of here) await this.#lookAt(run, found.get(run.jobId));
  }

  /** Gives a run the answers that other instances have stored since it was read, or since the last time. */
  async #readAnswers(run: Run): Promise<void> {
    const after = this.#linesSeen.get(run) ?? run.parts.record.lines;
    for (const { seq, entry } of await this.#parts.jobs.log(run.jobId, { after })) {
      if (entry.type === "answer") run.questions.answered(entry, seq);
      this.#linesSeen.set(run, seq);
    }
  }

  async #lookAt(run: Run, job: StoredJob | undefined): Promise<void> {
    const { jobId } = run;
    const { store } = this.#parts;
    if (run.isOver) return;
    // The job was read at another moment than the run was found: only a later run takes it away.
    if (!job || job.run_count > run.parts.epoch) return run.abandon(SUPERSEDED);
    if (job.status === "cancelling" && this.onStopped) return this.onStopped(run, job);
    if (run.activity.waits.size === 0) return;
    const closed = await run.questions.findClosed((caseId) => this.#parts.cases.find(caseId));
    await this.#readAnswers(run);
    const waits = await store
      .table("EventWait")
      .list({ where: { job_id: jobId }, limit: Number.POSITIVE_INFINITY });
    this.received(waits.items.filter(({ event }) => event !== null));
    // Those that were answered are no longer waited with: their answers were in the log.
    for (const withdraw of closed) await withdraw();
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
    this.#early.get(jobId)?.push({ entry, seq });
    this.#runs.get(jobId)?.questions.answered(entry, seq);
  }

  /** An event was just stored, together with the waits that it was given to. */
  received(waits: readonly EventWait[]): void {
    for (const { id } of waits) this.#waits.signal(id);
  }

  /** Lets running steps end within the grace time, in seconds, and leaves all jobs to the next start. */
  async close(grace: number): Promise<void> {
    this.#stopDrainTimer();
    this.scheduler.close();
    this.#waker.close();
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
    await this.#release(left);
    this.ends.close();
    this.#parts.processes?.close();
    this.#parts.underWay?.end();
  }

  /** Gives the jobs of runs up, so that other instances claim them immediately. */
  async #release(runs: readonly { jobId: string; epoch: number; total_cost: number }[]): Promise<void> {
    if (this.owner === null) return;
    const { ledger, log } = this.#parts;
    const released = await Promise.all(
      runs.map(({ jobId, epoch, total_cost }) =>
        ledger
          .write((unit) => takeJob(unit, jobId, { total_cost }), { fence: { job: jobId, epoch } })
          .then(
            () => [jobId],
            (error: unknown) => {
              // It has ended, or others have it.
              if (!(error instanceof FencedError))
                log.warn("a job could not be given up: others claim it later", { job_id: jobId, error });
              return [];
            },
          ),
      ),
    );
    this.offer(released.flat());
  }

  /** Has a stored job run when its turn comes; resolves then, with whether it runs. */
  queue(job: StoredJob, kind: TurnKind, entries?: readonly RunEntry[]): Promise<boolean> {
    const isForOthers = !this.#parts.agents.find(job.agent_name) || !this.mayRun(job);
    if (!job.owner && (isForOthers || !this.scheduler.hasPlace(toApplicant(job)))) this.offer([job.id]);
    return this.#waitForTurn(job, kind, entries).then(
      () => this.#runs.has(job.id),
      (error: unknown) => {
        this.#parts.log.error("a job could not be started; it will resume at the next start", {
          job_id: job.id,
          error,
        });
        return false;
      },
    );
  }

  /** Resumes the suspended jobs that became due while the service was down. */
  wakeDue(): void {
    this.#waker.look();
  }

  /** Resumes a suspended job now; resolves once its turn has come, with whether it is in memory. */
  async wake(jobId: string): Promise<boolean> {
    const job = this.#runs.has(jobId) ? undefined : await this.#parts.jobs.find(jobId);
    if (job?.suspended) await this.#waker.wake(job);
    return this.#runs.has(jobId);
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

  /** Has jobs run that were under way when the process crashed: after the others, and one at a time. */
  async queueSuspects(suspects: readonly Suspect[], others: Promise<unknown>): Promise<void> {
    for (const { job, kind } of suspects) this.watch(job.id, kind);
    await this.scheduler.whenResumed();
    const ids = suspects.map(({ job }) => job.id);
    return this.handling(ids, this.#suspects.resume(suspects, others));
  }

  /** Has the steps of a job noted before they begin: it may have ended its process. */
  watch(jobId: string, kind: TurnKind): void {
    this.#noted.set(jobId, kind);
  }

  /** Those of these that others may claim, or a later search: see `Suspects`. */
  laterSuspects(suspects: readonly Suspect[]): readonly Suspect[] {
    return this.#suspects.later(suspects);
  }

  isLaterSuspect(job: StoredJob): boolean {
    return this.#suspects.isLeft(job);
  }

  /** Checks whether a job can resume with the current code: replays its record, without side effects. */
  async rehearse(job: StoredJob, agent = this.#parts.agents.of(job)): Promise<Rehearsed> {
    if (!agent) throw new Error(`Agent "${job.agent_name}" is not registered`);
    const readRecord = () => RunRecord.of(this.#parts.jobs, job.id);
    const redact = (text: string) => this.#parts.redactor.text(text);
    return rehearse(this.#parts, { job, readRecord, agent, redact, ...this.#reads(job.id) });
  }

  /** Resumes a held job if the code fits its record now. A few are tried at the same time. */
  tryAgain(job: StoredJob): Promise<void> {
    const lane = this.#tried++ % TRIED_AT_ONCE;
    const turn = this.#lanes[lane] ?? this.scheduler.whenResumed();
    const tried = turn.then(() => (this.isClosed ? undefined : this.#tryAgain(job)));
    this.#lanes[lane] = tried.catch(() => {});
    return tried;
  }

  async #tryAgain(job: StoredJob): Promise<void> {
    if (holdOf(job) !== "code_changed" || !this.#parts.agents.of(job)) return;
    const { end } = await this.rehearse(job);
    if (end !== undefined && end !== "unsure") {
      if (end.held) return;
      if (end.reason === "crashed") {
        const about = { job_id: job.id, problem: end.message };
        if (!this.isClosed)
          this.#parts.log.error("a held job stays held: its handler ended its process", about);
        return;
      }
    }
    void this.queue(job, "resume");
  }

  #reads(jobId: string): Pick<HandlerCall, "readJob" | "readCase"> {
    const { jobs, cases } = this.#parts;
    return {
      readJob: async () => jobs.show(await jobs.get(jobId)),
      readCase: (id) => cases.get(id),
    };
  }

  /** Begins a run inside a unit. */
  async #begin(unit: Unit, job: StoredJob, kind: TurnKind, agent: HostedAgent): Promise<StoredJob> {
    const code = { version: agent.definition.version, code: agent.code };
    const patch = {
      run_count: job.run_count + 1,
      agent_version: code.version,
      code_fingerprint: code.code,
      suspended: null,
      ...((this.owner || job.owner) && { owner: this.owner }),
    };
    if (job.status === "stopped") {
      const begun = await moveJob(unit, job.id, "start_work", patch);
      if (job.forked_from && job.run_count === 0) await notifyOfCopies(unit, job.id);
      return begun;
    }
    if (kind === "resume") await unit.record(job.id, { type: "mark", mark: "resumed", ...code });
    return changeJob(unit, job.id, "run", (current) => ({ ...released(current), ...patch }));
  }

  /** Runs a started job in its slot; `values` are its parameters, if they are already decrypted. */
  launch(
    job: StoredJob,
    agent: HostedAgent,
    place: Place,
    { record = new RunRecord(), values, suspended }: LaunchOptions = {},
  ): void {
    this.#parts.checkLease?.();
    // While its beginning was being stored, the service began to close, or counted as dead: others may have the job.
    if ((this.isClosed && this.owner !== null) || this.isElsewhere(job)) {
      place.release();
      void this.#release([{ jobId: job.id, epoch: job.run_count, total_cost: job.total_cost }]);
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
      ...{ worked: suspended?.worked, wokenAt: suspended?.wokenAt },
      suspension: this.#suspensionOf(agent),
      stopGrace: stopGrace * 1000,
      timeout: timeout === undefined ? undefined : timeout * 1000,
      insides: this.#insides,
      code: { version: agent.definition.version, fingerprint: agent.code },
      redact: (text) => redactor.text(text),
      emissions,
      record,
      place,
      checkLease: this.#parts.checkLease,
      readAnswers: this.owner === null ? undefined : () => this.#readAnswers(run),
      doing: this.#noted.has(job.id) ? this.#doingOf(job, () => run) : undefined,
      ledger,
      log,
      clock,
      startTimer,
    });
    this.#runs.set(job.id, run);
    place.share(this.#partOf(job));
    for (const { entry, seq } of this.#early.get(job.id) ?? []) run.questions.answered(entry, seq);
    let isolated: IsolatedRun | undefined;
    const call: HandlerCall = {
      ...{ run, job, agent, values, ...this.#reads(job.id) },
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
        this.#runs.delete(job.id);
        this.#noted.delete(job.id);
      });
  }

  /** What a run has of limits only while it works. */
  #partOf(job: StoredJob): SharedPart | undefined {
    const { limits } = this;
    if (!limits?.concerns(job)) return undefined;
    const patiently = <T>(work: () => Promise<T>) =>
      whenWritable(work, (error) => {
        if (this.isClosed) throw error;
      });
    return {
      rest: () => this.#inBackground(patiently(() => limits.rest(job))),
      // Where the job was taken away, its run finds out by itself.
      retake: () =>
        patiently(() => limits.retake(job)).catch((error: unknown) => {
          if (error instanceof FencedError || this.isClosed) return undefined;
          throw error;
        }),
    };
  }

  /** Where it fails, others find by themselves what it was to tell. */
  async #inBackground(work: Promise<void> | undefined): Promise<void> {
    await work?.catch((error: unknown) => {
      if (!this.isClosed) this.#parts.log.warn("a limit could not be given back yet", { error });
    });
  }

  /** Notes what a job does where the next owner finds it: where several instances share the store, with the job. */
  #doingOf({ id, run_count: run }: StoredJob, find: () => Run): Doing {
    const { underWay } = this.#parts;
    if (this.owner === null) {
      return (what) => {
        if (what !== null) underWay?.doing(id, what);
        return undefined;
      };
    }
    let last: string | null | undefined;
    return (what) => {
      if (what === undefined || what === last || !this.#noted.has(id)) return undefined;
      last = what;
      return find().write((unit) => noteDoing(unit, id, { run, what }));
    };
  }

  /** Resumes a job in a new process, once the tries that its process has cut short are recorded as failed. */
  async #relaunch(run: Run, job: StoredJob): Promise<void> {
    await run.freeze();
    if (run.isOver || run.isInterrupted) return;
    run.abandon(CLOSING);
    await this.queue(job, "resume");
  }

  /** How runs of an agent leave memory. */
  #suspensionOf({ definition }: HostedAgent): RunParts["suspension"] {
    const after = suspendAfterOf(definition, this.#parts.suspendAfter);
    if (after === undefined) return undefined;
    const suspend = async (run: Run) => {
      const { jobId } = run;
      await this.exclusively(jobId, async () => {
        if (this.#kept.has(jobId)) return;
        await run.suspend(() => {
          this.#runs.delete(jobId);
          this.#noted.delete(jobId);
        });
      });
    };
    return { after, suspend };
  }

  /** Has a job continue that only waited: it comes before those that have not started. */
  async #resumeSuspended(job: StoredJob, wokenAt: number | undefined): Promise<boolean> {
    if (!this.#parts.agents.of(job) || !this.mayRun(job)) return false;
    const take = (applicant: Applicant, order?: number) => this.scheduler.takeAgain(applicant, order);
    await this.handling([job.id], this.#takeTurns(job, { kind: "resume", wokenAt }, take));
    return this.#runs.has(job.id);
  }

  async #waitForTurn(job: StoredJob, kind: TurnKind, entries?: readonly RunEntry[]): Promise<void> {
    if (!this.#parts.agents.find(job.agent_name)) return;
    const take = (applicant: Applicant, order?: number) => this.scheduler.take(applicant, order);
    await this.handling([job.id], this.#takeTurns(job, { kind, entries }, take));
  }

  /** Waits for a place until the job could use one: other instances may have all of a limit. */
  async #takeTurns(
    job: StoredJob,
    turn: Omit<Turn, "place">,
    take: (applicant: Applicant, order?: number) => Promise<Place | undefined>,
  ): Promise<void> {
    let applicant = toApplicant(job);
    let place = await take(applicant);
    while (place) {
      const refusal = await this.#useTurn(job, { ...turn, place });
      if (!refusal) return;
      applicant = { ...applicant, isRefused: refusal.limit.kind === "key" };
      place = await take(applicant, place.order);
    }
  }

  /** Resolves with the limit that refused it, if any. */
  async #useTurn(job: StoredJob, turn: Turn): Promise<Refusal | undefined> {
    const { log } = this.#parts;
    try {
      // The job keeps its place meanwhile.
      return await whenWritable(
        () => this.exclusively(job.id, () => this.#takeTurn(job, turn)),
        (error) => {
          if (this.isClosed) throw error;
          log.warn("the store cannot write; a job is waiting to start", {
            job_id: job.id,
            error: error.message,
          });
        },
      );
    } catch (error) {
      turn.place.release();
      throw error;
    }
  }

  async #takeTurn(job: StoredJob, { kind, place, entries, wokenAt }: Turn): Promise<Refusal | undefined> {
    const { id: jobId, created_at } = job;
    const { jobs, ledger, agents } = this.#parts;
    const limits = await this.limits?.of(job);
    this.#early.set(jobId, []);
    try {
      let agent: HostedAgent | undefined;
      let suspended = null as StoredJob["suspended"];
      let isStale = false;
      const turn = await ledger.write(async (unit) => {
        const current = await unit.tx.get("Job", jobId);
        const isFree = current && !this.isElsewhere(current) && !this.isRunning(jobId);
        isStale = current !== undefined && this.#wasRunElsewhere(job, current);
        const isDue = isFree && may(current, "run") && !isStale && this.mayRun(current) && this.mayBegin;
        agent = isDue ? agents.of(current) : undefined;
        suspended = current?.suspended ?? null;
        if (!isDue || !agent) return undefined;
        const run = { id: jobId, run_count: current.run_count + 1 };
        const refusal = limits && (await this.limits!.take(unit, run, limits));
        return refusal ? { refusal } : { begun: await this.#begin(unit, current, kind, agent) };
      });
      if (turn?.refusal) {
        const { refusal } = turn;
        place.withdraw(() => this.limits!.refused(refusal));
        return refusal;
      }
      const begun = turn?.begun;
      if (!begun || !agent) {
        place.withdraw();
        if (isStale) this.offer([jobId]);
        return undefined;
      }
      // Another job may have been given the id since its log was read.
      const known = begun.created_at === created_at ? entries : undefined;
      const isNew = begun.run_count === 1 && !begun.forked_from;
      const record = isNew ? new RunRecord() : await RunRecord.of(jobs, jobId, known);
      this.launch(begun, agent, place, { record, suspended: { ...suspended, wokenAt } });
      return undefined;
    } finally {
      this.#early.delete(jobId);
    }
  }

  /** Whether another instance has started a job and given it up since its turn was asked for: who claims it records that. */
  #wasRunElsewhere(asked: StoredJob, { owner, run_count, created_at }: StoredJob): boolean {
    return this.owner !== null && !owner && created_at === asked.created_at && run_count > asked.run_count;
  }
}

/** Who a job is to the scheduler. */
export function toApplicant({
  id,
  agent_name,
  job_context,
  concurrency_key,
  rate_key,
  run_count,
}: Pick<StoredJob, "id" | "agent_name" | "job_context"> & Partial<StoredJob>): Applicant {
  return {
    jobId: id,
    agent: agent_name,
    workspace: job_context.workspace_id,
    key: concurrency_key,
    rateKey: rate_key,
    isFirst: !run_count,
  };
}
