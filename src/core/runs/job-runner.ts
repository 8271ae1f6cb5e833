import { randomUUID } from "node:crypto";
import { fieldsOf } from "../agents/fields.ts";
import type { Actor } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { wakeJob } from "../entities/jobs.ts";
import type { Unit } from "../entities/ledger.ts";
import { receiveEvent } from "../entities/received-events.ts";
import type { StoredCase } from "../models/case.ts";
import type { EntityStatus } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { ExportLine } from "../models/job-export.ts";
import type { JobInstructions } from "../models/job-instructions.ts";
import type { JobResponse } from "../models/job-response.ts";
import { stateOf } from "../models/job-state.ts";
import type { EventWait, StoredEvent } from "../models/received-event.ts";
import type { BegunEntry } from "../models/run-entry.ts";
import { Membership } from "./cluster/membership.ts";
import { runProbe } from "./cluster/probe-run.ts";
import { reconcileJobs } from "./cluster/reconcile.ts";
import { Rounds } from "./cluster/rounds.ts";
import { lookAround, shareJobs } from "./cluster/share-jobs.ts";
import { listCalls, type NamedCall } from "./fork/call-names.ts";
import { resumeJob, retryJob } from "./operate/again.ts";
import { deleteCase, restoreDeletedCase } from "./operate/delete-case.ts";
import { deleteJob, restoreDeleted } from "./operate/delete-job.ts";
import { exportJob } from "./operate/export-job.ts";
import { continueJob, moveJobTo } from "./operate/held-jobs.ts";
import { describeJob } from "./operate/job-response.ts";
import { callBeside, findMethod } from "./operate/method-calls.ts";
import { overrideCaseStatus, overrideStatus, stopJob, stopWithParents } from "./operate/steer.ts";
import { answerQuestion } from "./questions/answer.ts";
import { assignQuestion } from "./questions/assign.ts";
import { QuestionNotices } from "./questions/question-notices.ts";
import { receiveMessage } from "./questions/receive-message.ts";
import { ActiveRuns, toApplicant } from "./queue/active-runs.ts";
import { Starts } from "./queue/start.ts";
import { isStorageError, whenWritable } from "./queue/when-writable.ts";
import { RunRecord } from "./replay/run-record.ts";
import type {
  AnswerRequest,
  Deletion,
  DeletionOptions,
  Drained,
  ForkRequest,
  MethodCall,
  QueuePosition,
  Runner,
  SentEvent,
  SentMessage,
  StartRequest,
} from "./runner.ts";
import { type RequestParts, type RunnerParts, refuseWhenClosing } from "./runner-parts.ts";
import { ActiveSchedules } from "./schedules/active-schedules.ts";

/** Makes the part that runs jobs. */
export function createRunner(parts: RunnerParts): Runner {
  return new JobRunner(parts);
}

/** Statuses of jobs that may be running. */
const RUNNING = ["in_progress", "cancelling"] as const;

function paused(): ServiceError {
  return new ServiceError("unavailable", "The service is paused: no agent code runs", {
    detail: "Resume it with: svc resume",
  });
}

class JobRunner implements Runner {
  readonly schedules: ActiveSchedules;
  readonly #parts: RequestParts;
  readonly #runs: ActiveRuns;
  readonly #starts: Starts;
  readonly #notices: QuestionNotices;

  /** Where several instances share the store. */
  readonly #membership: Membership | undefined;
  #isProbed = false;
  readonly #rounds: Rounds | undefined;
  readonly #stopSharing: (() => void) | undefined;

  constructor(parts: RunnerParts) {
    this.#membership = parts.store.isShared ? this.#makeMembership(parts) : undefined;
    const owner = this.#membership && (() => this.#membership!.id);
    const checkLease = this.#membership && (() => this.#membership!.check());
    const isAlive = this.#membership && (() => this.#membership!.isAlive);
    this.#runs = new ActiveRuns({ ...parts, owner, checkLease, isAlive });
    this.#notices = new QuestionNotices({ ...parts, isClosed: () => this.#runs.isClosed });
    this.#parts = { ...parts, runs: this.#runs };
    this.#rounds = this.#membership && new Rounds(this.#parts, this.#membership.times.dead, this.#notices);
    this.#stopSharing = this.#membership && shareJobs(this.#parts, this.#membership);
    this.#starts = new Starts(this.#parts);
    this.schedules = new ActiveSchedules(this.#parts, this.#starts);
    stopWithParents(this.#parts);
  }

  start(slug: string, request: StartRequest): Promise<StoredJob> {
    return this.#starts.start(slug, request);
  }

  ended(jobId: string, milliseconds: number): Promise<StoredJob> {
    return this.#runs.ends.wait(jobId, milliseconds, this.#runs.isRunning(jobId));
  }

  stop(jobId: string, actor?: Actor): Promise<StoredJob> {
    return stopJob(this.#parts, jobId, actor);
  }

  get pausedAgents(): readonly string[] {
    const hosted = this.#parts.agents.list().map(({ slug }) => slug);
    return hosted.filter((slug) => this.#runs.scheduler.isAgentPaused(slug));
  }

  pauseAgent(slug: string, actor: Actor): Promise<void> {
    return this.#setPaused(slug, true, actor);
  }

  resumeAgent(slug: string, actor: Actor): Promise<void> {
    return this.#setPaused(slug, false, actor);
  }

  get drainedUntil(): string | undefined {
    return this.#runs.drainedUntil;
  }

  async drain(milliseconds: number, actor: Actor): Promise<Drained> {
    const until = await this.#parts.settings.drain(milliseconds, actor);
    await this.#runs.readPausedAgents(true);
    const where = { status: RUNNING, wake_at: null, stop_reason: null };
    const { total } = await this.#parts.jobs.list({ where, limit: 1 });
    return { until: until ?? null, running: total };
  }

  async #setPaused(slug: string, isPaused: boolean, actor: Actor): Promise<void> {
    const agent = this.#parts.agents.get(slug);
    await this.#parts.settings.setPaused(agent.slug, isPaused, actor);
    await this.#runs.readPausedAgents(true);
  }

  assign(caseId: string, to: string | null, actor?: Actor): Promise<StoredCase> {
    return assignQuestion(this.#parts, caseId, to, actor);
  }

  answer(jobId: string, caseId: string, request: AnswerRequest, actor?: Actor): Promise<StoredCase> {
    return answerQuestion(this.#parts, { jobId, caseId, request }, actor);
  }

  async receive(name: string, { id, data }: SentEvent): Promise<StoredEvent> {
    refuseWhenClosing(this.#parts);
    const input = { name, event_id: id ?? randomUUID(), data: { ...data } };
    return (await this.#giveEvent((unit) => receiveEvent(unit, input))).event;
  }

  async say(jobId: string, message: SentMessage): Promise<void> {
    refuseWhenClosing(this.#parts);
    await this.#giveEvent((unit) => receiveMessage(unit, jobId, message));
  }

  /** Stores an event, and gives it to the calls that wait for it. */
  async #giveEvent<Received extends { readonly waits: readonly EventWait[] }>(
    store: (unit: Unit) => Promise<Received>,
  ): Promise<Received> {
    const received = await this.#parts.ledger.write(async (unit) => {
      const received = await store(unit);
      for (const { job_id } of received.waits) await wakeJob(unit, job_id);
      return received;
    });
    this.#runs.received(received.waits);
    this.#runs.tell(received.waits.map(({ job_id }) => job_id));
    return received;
  }

  resume(
    jobId: string,
    instructions: Partial<JobInstructions> | undefined,
    actor?: Actor,
  ): Promise<StoredJob> {
    return resumeJob(this.#parts, jobId, instructions, actor);
  }

  retry(jobId: string, from: "last_step" | "start", actor?: Actor): Promise<StoredJob> {
    return retryJob(this.#parts, jobId, from, actor);
  }

  continue(jobId: string, actor?: Actor): Promise<StoredJob> {
    return continueJob(this.#parts, jobId, actor);
  }

  move(jobId: string, version: string, actor?: Actor): Promise<StoredJob> {
    return moveJobTo(this.#parts, jobId, version, actor);
  }

  async calls(jobId: string): Promise<NamedCall[]> {
    await this.#parts.jobs.get(jobId);
    return listCalls(await RunRecord.of(this.#parts.jobs, jobId));
  }

  export(jobId: string, actor?: Actor): Promise<AsyncGenerator<ExportLine, void>> {
    return exportJob(this.#parts, jobId, actor);
  }

  fork(jobId: string, request: ForkRequest, actor?: Actor): Promise<StoredJob> {
    return this.#starts.fork(jobId, request, actor);
  }

  override(jobId: string, status: EntityStatus, actor: Actor): Promise<StoredJob> {
    return overrideStatus(this.#parts, jobId, status, actor);
  }

  overrideCase(caseId: string, status: EntityStatus, actor: Actor): Promise<StoredCase> {
    return overrideCaseStatus(this.#parts, caseId, status, actor);
  }

  remove(jobId: string, actor: Actor, options?: DeletionOptions): Promise<Deletion> {
    return deleteJob(this.#parts, jobId, actor, options);
  }

  restore(jobId: string, actor: Actor): Promise<StoredJob> {
    return restoreDeleted(this.#parts, jobId, actor);
  }

  removeCase(
    caseId: string,
    actor: Actor,
    options?: DeletionOptions,
  ): Promise<Pick<Deletion, "restorableUntil">> {
    return deleteCase(this.#parts, caseId, actor, options);
  }

  restoreCase(caseId: string, actor: Actor): Promise<StoredCase> {
    return restoreDeletedCase(this.#parts, caseId, actor);
  }

  get isPaused(): boolean {
    return this.#runs.scheduler.isPaused;
  }

  unpause(): void {
    if (!this.isPaused) return;
    this.#parts.log.info("the service is no longer paused: jobs run", {
      queued: this.#runs.scheduler.queued,
    });
    this.#runs.scheduler.resume();
  }

  async call(slug: string, call: MethodCall): Promise<unknown> {
    if (this.isPaused) throw paused();
    return callBeside(this.#parts, this.#parts.agents.get(slug), call);
  }

  describe(job: StoredJob): JobResponse {
    return describeJob(job, this.#describeWait(job));
  }

  #describeWait(job: StoredJob): string | undefined {
    const { id } = job;
    if (this.#runs.lacksAgent(job)) return "The job waits for its agent, which no living instance hosts";
    if (stateOf(job) !== "queued") return undefined;
    const { scheduler } = this.#runs;
    if (!job.run_count && this.drainedUntil !== undefined)
      return `The job waits for a deployment: jobs start again at ${this.drainedUntil}, or before`;
    if (!job.run_count && scheduler.isAgentPaused(job.agent_name))
      return "The job waits until its agent is resumed";
    const ahead = scheduler.aheadAtKey(id);
    if (ahead !== undefined)
      return `The job waits for its concurrency key, which other jobs have: ${ahead} before it`;
    const next = scheduler.nextStart(toApplicant(job));
    if (next === undefined) return undefined;
    return `The job waits for the rate limit of its agent: the next one starts at ${new Date(next).toISOString()}`;
  }

  async checkFields(
    slug: string,
    method: string,
    fields: Readonly<Record<string, unknown>>,
  ): Promise<Record<string, string>> {
    const agent = this.#parts.agents.get(slug);
    const checked = await fieldsOf(findMethod(agent, method)).check(fields);
    return checked.ok ? {} : checked.problems;
  }

  position(jobId: string): MaybePromise<QueuePosition | undefined> {
    return this.#membership ? this.#runs.position(jobId) : this.#runs.scheduler.position(jobId);
  }

  runningSteps(jobId: string): BegunEntry[] {
    return this.#runs.find(jobId)?.activity.runningSteps() ?? [];
  }

  get instance(): string | undefined {
    return this.#membership?.id;
  }

  get probe(): "pending" | "done" | undefined {
    return this.#membership && (this.#isProbed ? "done" : "pending");
  }

  load(): { readonly running: number; readonly queued: number } {
    const { running, queued } = this.#runs.scheduler;
    return { running, queued };
  }

  async reconcile(aliveUntil?: string): Promise<void> {
    await this.#runs.readPausedAgents();
    await this.#runs.holdKeys();
    await this.#runs.recallStarts();
    if (this.#membership) {
      await this.#membership.join();
      await this.#runProbe(this.#membership);
      this.#membership.look();
      return;
    }
    await reconcileJobs({ ...this.#parts, aliveUntil });
    this.#runs.wakeDue();
    void this.#notices.look();
  }

  async close(grace: number): Promise<void> {
    this.schedules.close();
    this.#notices.close();
    // It is alive until its jobs are given up.
    this.#membership?.close();
    await this.#runs.close(grace);
    this.#stopSharing?.();
    await this.#membership?.leave().catch((error: unknown) => {
      this.#parts.log.warn("the instance could not be signed off: others wait until it counts as dead", {
        error,
      });
    });
  }

  /** Where the store cannot be written to at the moment, the probe runs once it can. */
  async #runProbe(membership: Membership): Promise<void> {
    const { store, log } = this.#parts;
    const probe = async () => {
      await runProbe(store, membership.id);
      this.#isProbed = true;
    };
    try {
      await probe();
    } catch (error) {
      if (!isStorageError(error)) throw error;
      log.warn("the probe job could not run: this instance is ready once it has", { error });
      const giveUp = (problem: Error) => {
        if (this.#runs.isClosed) throw problem;
      };
      void whenWritable(probe, giveUp).catch((problem: unknown) => {
        if (!this.#runs.isClosed)
          log.error("the probe job has failed: this instance is not ready", { error: problem });
      });
    }
  }

  #makeMembership(parts: RunnerParts): Membership {
    return new Membership({
      store: parts.store,
      log: parts.log,
      times: parts.leaseTimes,
      describe: () => ({
        agents: parts.agents
          .list()
          .flatMap(({ slug }) => parts.agents.versions(slug))
          .map(({ slug, definition }) => `${slug}@${definition.version}`),
        running: this.#runs.scheduler.running,
        places: parts.maxConcurrentJobs,
      }),
      onLost: () => this.#runs.leaveAll(),
      onLook: () => lookAround(this.#parts, this.#membership!, this.#rounds!),
    });
  }
}
