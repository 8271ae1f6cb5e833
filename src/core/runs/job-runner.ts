import * as v from "valibot";
import { type CheckedFields, describeProblems, type Fields, fieldsOf, readFields } from "../agents/fields.ts";
import { refuseUndeclared } from "../agents/parameters.ts";
import type { HostedAgent } from "../agents/registry.ts";
import type { AuditEvent, AuditLog } from "../audit/audit-log.ts";
import { type Actor, nameOf } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { answerCase, endCases, overrideCase, removeCaseOfJob, reopenCase } from "../entities/cases.ts";
import {
  caseIdsOf,
  changeJob,
  createJob,
  endJob,
  jobNotFound,
  moveJob,
  type NewJob,
  removeCasesOf,
  removeJob,
  sameRequest,
} from "../entities/jobs.ts";
import type { Unit } from "../entities/ledger.ts";
import type { StoredCase } from "../models/case.ts";
import type { CaseUpdateRequest } from "../models/case-update-request.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import type { StopReason, StoredJob } from "../models/job.ts";
import { type JobInstructions, JobInstructionsSchema } from "../models/job-instructions.ts";
import type { JobResponse } from "../models/job-response.ts";
import { JOB_OVERRIDES } from "../models/overrides.ts";
import type { BegunEntry, MarkEntry } from "../models/run-entry.ts";
import { ActiveRuns, type ActiveRunsParts } from "./active-runs.ts";
import { callMethod, checkRequired, openParameters, openSent, toHandlerContext } from "./handler-context.ts";
import { JobEnds } from "./job-ends.ts";
import { describeJob } from "./job-response.ts";
import { callBeside, findMethod } from "./method-calls.ts";
import { endCancelled, type ReconcileParts, reconcileJobs } from "./reconcile.ts";
import { clean } from "./run/limits.ts";
import { recordedCost } from "./run/recorded-cost.ts";
import type { Run } from "./run/run.ts";
import type { RunEnd } from "./run/run-errors.ts";
import { RunRecord } from "./run/run-record.ts";
import type { MethodCall, QueuePosition, Runner, StartRequest } from "./runner.ts";
import type { Place } from "./scheduler.ts";
import { fingerprintOf, toNewJob, withJobId } from "./start-request.ts";
import { LEAVES_RUN, storeOverride } from "./store-override.ts";

export interface RunnerParts extends ActiveRunsParts {
  readonly audit: AuditLog;
  readonly maxQueuedJobs: number;
}

const STOPPED: RunEnd = { to: "cancelled", reason: "stopped", message: "The job was stopped" };
const CLOSING: RunEnd = {
  to: "cancelled",
  reason: "interrupted",
  message: "The service is closing: the job goes on at its next start",
};
/** Ends that raised limits can undo. */
const LIMITS: readonly (StopReason | null)[] = [
  "max_cases",
  "max_cost",
  "max_duration",
  "stop_on_error",
  "stop_on_warning",
  "timeout",
];

/** Makes the part that runs jobs. */
export function createRunner(parts: RunnerParts): Runner {
  return new JobRunner(parts);
}

class JobRunner implements Runner {
  readonly #parts: RunnerParts;
  readonly #runs: ActiveRuns;
  readonly #ends: JobEnds;
  /** Starts under way by their `Idempotency-Key`. */
  readonly #starting = new Map<string, Promise<StoredJob>>();
  #isClosing = false;

  constructor(parts: RunnerParts) {
    this.#parts = parts;
    this.#runs = new ActiveRuns(parts);
    this.#ends = new JobEnds(parts.jobs, parts.hooks);
  }

  start(slug: string, request: StartRequest): Promise<StoredJob> {
    const key = request.idempotencyKey;
    return key === undefined ? this.#start(slug, request) : this.#startInTurn(slug, request, key);
  }

  ended(jobId: string, milliseconds: number): Promise<StoredJob> {
    return this.#ends.wait(jobId, milliseconds, this.#runs.isRunning(jobId));
  }

  async stop(jobId: string, actor?: Actor): Promise<StoredJob> {
    const by = actor && nameOf(actor);
    const { jobs, agents } = this.#parts;
    const cost = await this.#costIfIdle(jobId);
    const { job, run } = await this.#write(jobId, async (unit, run) => {
      const current = await unit.tx.get("Job", jobId);
      if (!current || isTerminal(current.status) || current.status === "cancelling") return { job: current };
      await this.#note(unit, actor, { action: "job.stop", target: asJob(jobId), before: current.status });
      if (!run || run.isOver) return { job: await this.#cancel(unit, current, { by, cost }) };
      if (current.status === "stopped") await moveJob(unit, jobId, "start_work", {}, by);
      const event = current.status === "awaiting" ? "cancel_while_waiting" : "cancel_requested";
      return { job: await moveJob(unit, jobId, event, { open_questions: 0 }, by), run };
    });
    if (!job) return jobs.get(jobId);
    this.#runs.scheduler.callOff(jobId);
    run?.end(STOPPED, () => this.#cleanUp(job, agents.find(job.agent_name)));
    return job;
  }

  async answer(
    jobId: string,
    caseId: string,
    request: CaseUpdateRequest,
    actor?: Actor,
  ): Promise<StoredCase> {
    const by = actor && nameOf(actor);
    const { ledger, jobs, cases } = this.#parts;
    await jobs.get(jobId);
    for (;;) {
      const seen = await cases.ofJob(jobId, caseId);
      // A schema may take its time: nothing is kept waiting for it.
      const live = this.#liveFields(seen);
      const verdict = await this.#checkAnswer(seen, request.answer);
      const next = await ledger.write(async (unit) => {
        const [item, job] = [await unit.tx.get("Case", seen.id), await unit.tx.get("Job", jobId)];
        const question = item?.question;
        if (item && question && job) {
          assertAwaits(item, job, new Date(unit.now));
          if (question.id !== seen.question?.id || this.#liveFields(item) !== live) return undefined;
          if (verdict?.ok === false) throw invalidAnswer(item, verdict.problems);
        }
        const answer = { answer: request.answer, message: request.message, ...(by !== undefined && { by }) };
        const next = await answerCase(unit, seen.id, answer);
        await this.#note(unit, actor, { action: "case.answer", target: asCase(seen.id) });
        const place = { case_id: seen.id, question_id: question!.id };
        unit.afterwards((seq) =>
          this.#runs.answered(jobId, { type: "answer", at: unit.now, ...place, ...answer }, seq),
        );
        return next;
      });
      if (next) return next;
    }
  }

  async resume(
    jobId: string,
    instructions: Partial<JobInstructions> | undefined,
    actor?: Actor,
  ): Promise<StoredJob> {
    const job = await this.#parts.jobs.get(jobId);
    if (job.status !== "failed" || !LIMITS.includes(job.stop_reason)) {
      throw new ServiceError("invalid_transition", `Job "${jobId}" is ${job.status}, and no limit ended it`, {
        detail:
          'Only a job that a limit ended can go on under raised limits; "retry" runs a failed one again.',
      });
    }
    const merged = { ...job.job_context.job_instructions, ...instructions };
    const job_context = { ...job.job_context, job_instructions: v.parse(JobInstructionsSchema, merged) };
    return this.#again(job, "limits_raised", { job_context }, actor);
  }

  async retry(jobId: string, from: "last_step" | "start", actor?: Actor): Promise<StoredJob> {
    const job = await this.#parts.jobs.get(jobId);
    if (job.status !== "failed" && job.status !== "cancelled") {
      throw new ServiceError(
        "invalid_transition",
        `Job "${jobId}" is ${job.status}: there is nothing to retry`,
        {
          detail: `The current status is "${job.status}"; only a failed or cancelled job can be run again.`,
        },
      );
    }
    return this.#again(job, from === "start" ? "restarted" : "retried", {}, actor);
  }

  async override(jobId: string, status: EntityStatus, actor: Actor): Promise<StoredJob> {
    const { jobs, agents } = this.#parts;
    const record = RunRecord.read((await jobs.log(jobId)).map(({ entry }) => entry));
    const message = `The job was set to ${status} by an operator`;
    const end: RunEnd = { to: status === "failed" ? "failed" : "cancelled", reason: "overridden", message };
    const decide = async (unit: Unit, found: Run | undefined) => {
      const before = await unit.tx.get("Job", jobId);
      if (!before) throw jobNotFound(jobId);
      const note = {
        action: "job.status",
        target: asJob(jobId),
        before: before.status,
        after: status,
      } as const;
      await this.#note(unit, actor, note);
      const effect = JOB_OVERRIDES[before.status][status];
      // A run whose end is stored, or about to be, is none any more.
      const live = found?.isOver || isTerminal(before.status) ? undefined : found;
      const total_cost = live?.limits.spent ?? clean(record.spent);
      const job = await storeOverride(unit, before, {
        ...{ status, by: nameOf(actor), effect, message, record, total_cost },
        isRunning: live !== undefined,
      });
      return { value: { job, effect, live }, take: LEAVES_RUN.has(effect) };
    };
    const { job, effect, live } = await this.#takeFrom(jobId, end, decide);
    if (effect === "is stopped") {
      const agent = agents.find(job.agent_name);
      this.#runs.scheduler.callOff(jobId);
      if (live) live.end(STOPPED, () => this.#cleanUp(job, agent));
      else void endCancelled(this.#reconcileParts(), job, agent);
    }
    const isIdle = !live && this.position(jobId) === undefined;
    if (effect === "is taken up" || effect === "is retried" || (effect === "goes on" && isIdle)) {
      this.#runs.queue(job, effect === "is retried" || job.run_count === 0 ? "start" : "resume");
    }
    return job;
  }

  async overrideCase(caseId: string, status: EntityStatus, actor: Actor): Promise<StoredCase> {
    const item = await this.#parts.ledger.write(async (unit) => {
      const before = (await unit.tx.get("Case", caseId))?.status;
      const changed = await overrideCase(unit, caseId, status, nameOf(actor));
      await this.#note(unit, actor, { action: "case.status", target: asCase(caseId), before, after: status });
      return changed;
    });
    const run = this.#runs.find(item.job_id);
    if (!item.question) {
      await run?.withdraw(item.id, `Case "${item.id}" was set to ${status} by an operator`);
    }
    return item;
  }

  remove(jobId: string, actor: Actor): Promise<number> {
    const end: RunEnd = { to: "cancelled", reason: "overridden", message: "The job was deleted" };
    return this.#takeFrom(jobId, end, async (unit) => {
      const job = await unit.tx.get("Job", jobId);
      const cases = await removeJob(unit, jobId, nameOf(actor));
      const before = job && { status: job.status, agent: job.agent_name, name: job.name, cases };
      await this.#note(unit, actor, { action: "job.delete", target: asJob(jobId), before });
      return { value: cases, take: true };
    });
  }

  async removeCase(caseId: string, actor: Actor): Promise<void> {
    const { job_id } = await this.#parts.ledger.write(async (unit) => {
      const removed = await removeCaseOfJob(unit, caseId, nameOf(actor));
      const { status, job_id: job, name } = removed;
      const before = { status, job, name };
      await this.#note(unit, actor, { action: "case.delete", target: asCase(caseId), before });
      return removed;
    });
    await this.#runs.find(job_id)?.withdraw(caseId, `Case "${caseId}" was deleted`);
  }

  async call(slug: string, call: MethodCall): Promise<unknown> {
    return callBeside(this.#parts, this.#parts.agents.get(slug), call);
  }

  describe(job: StoredJob): JobResponse {
    return describeJob(job);
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

  position(jobId: string): QueuePosition | undefined {
    return this.#runs.scheduler.position(jobId);
  }

  runningSteps(jobId: string): BegunEntry[] {
    return this.#runs.find(jobId)?.runningSteps() ?? [];
  }

  load(): { readonly running: number; readonly queued: number } {
    const { running, queued } = this.#runs.scheduler;
    return { running, queued };
  }

  async reconcile(aliveUntil?: string): Promise<void> {
    await reconcileJobs({ ...this.#reconcileParts(), aliveUntil });
  }

  async close(grace: number): Promise<void> {
    this.#isClosing = true;
    this.#runs.scheduler.close();
    const runs = this.#runs.list();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, grace * 1000);
    });
    await Promise.race([Promise.all(runs.map((run) => run.freeze())), late]);
    clearTimeout(timer);
    for (const run of runs) run.abandon(CLOSING);
  }

  /** One at a time for each key: the second finds what the first has stored. */
  async #startInTurn(slug: string, request: StartRequest, key: string): Promise<StoredJob> {
    if (this.#isClosing) throw closing();
    const agent = this.#parts.agents.get(slug);
    const before = this.#starting.get(key);
    const own = (before ?? Promise.resolve())
      .catch(() => {})
      .then(() => this.#startOnce(agent, request, key));
    this.#starting.set(key, own);
    try {
      return await own;
    } finally {
      if (this.#starting.get(key) === own) this.#starting.delete(key);
    }
  }

  async #startOnce(agent: HostedAgent, request: StartRequest, key: string): Promise<StoredJob> {
    const { items } = await this.#parts.jobs.list({ where: { idempotency_key: key }, limit: 1 });
    const before = items[0];
    if (!before) return this.#start(agent.slug, request);
    return sameRequest(before, {
      id: before.id,
      agent_name: agent.slug,
      // A client that repeats its request may well make a new id for the job each time.
      fingerprint: fingerprintOf(agent.slug, withJobId(request, before.id)),
    });
  }

  async #start(slug: string, request: StartRequest): Promise<StoredJob> {
    if (this.#isClosing) throw closing();
    const { jobs, ledger, maxQueuedJobs } = this.#parts;
    const agent = this.#parts.agents.get(slug);
    const sent = openSent(this.#parts, agent, request.encrypted_agent_parameters);
    const values = await openParameters(this.#parts, agent, sent);
    const made = toNewJob(agent, request, Object.keys(values));
    const input = made instanceof Promise ? await made : made;
    // A repeated request is answered also where there is no room for a new one.
    const before = await jobs.find(input.id);
    if (before) return sameRequest(before, input);
    refuseUndeclared(agent, sent);
    checkRequired(agent, values);
    const { scheduler } = this.#runs;
    const applicant = { jobId: input.id, agent: agent.slug, workspace: request.job_context.workspace_id };
    const place = scheduler.tryTake(applicant);
    if (!place && scheduler.queued >= maxQueuedJobs)
      throw queueIsFull(scheduler.queued, scheduler.retryAfter());
    if (place) return this.#runs.beginning(input.id, () => this.#startIn(place, agent, { input, values }));
    const { job, created } = await ledger.write((unit) => createJob(unit, input));
    if (created) this.#runs.queue(job, "start");
    return job;
  }

  /** Stores a job together with the beginning of its run, and runs it. */
  async #startIn(
    place: Place,
    agent: HostedAgent,
    { input, values }: { input: NewJob; values: Record<string, string> },
  ): Promise<StoredJob> {
    try {
      const { job, created } = await this.#parts.ledger.write((unit) =>
        createJob(unit, input, { begin: true }),
      );
      if (created) this.#runs.launch(job, agent, place, { values });
      else place.release();
      return job;
    } catch (error) {
      place.release();
      throw error;
    }
  }

  /** The agent's own schema may ask for more than the form can say. */
  #liveFields({ id, job_id }: StoredCase): Fields | undefined {
    return this.#runs.find(job_id)?.questions.fieldsOf(id);
  }

  #checkAnswer(
    item: StoredCase,
    answer: Readonly<Record<string, unknown>>,
  ): MaybePromise<CheckedFields | undefined> {
    if (!item.question) return undefined;
    return (this.#liveFields(item) ?? readFields(item.question.fields)).check(answer);
  }

  #reconcileParts(): ReconcileParts {
    return {
      ...this.#parts,
      queue: (job, kind) => this.#runs.queue(job, kind),
      cleanUp: (job, agent) => this.#cleanUp(job, agent),
      isClosed: () => this.#isClosing,
    };
  }

  /** What a job has cost that no run is here for, by its log. */
  async #costIfIdle(jobId: string): Promise<number | undefined> {
    return this.#runs.find(jobId) ? undefined : recordedCost(this.#parts.jobs, jobId);
  }

  /** Stores a change of a job that may take it away from its run: nothing that the run still does is stored then. */
  async #takeFrom<T>(
    jobId: string,
    end: RunEnd,
    work: (unit: Unit, run: Run | undefined) => Promise<{ value: T; take: boolean }>,
  ): Promise<T> {
    let taken: Run | undefined;
    let unfence = () => {};
    try {
      const { value, take } = await this.#write(jobId, async (unit, run) => {
        const done = await work(unit, run);
        taken = done.take ? run : undefined;
        if (taken) unfence = taken.fence();
        return done;
      });
      if (take) this.#runs.scheduler.callOff(jobId);
      taken?.abandon(end);
      return value;
    } catch (error) {
      unfence();
      throw error;
    }
  }

  /** Stores a change of a job together with a look at its run: none is begun in between. */
  async #write<T>(jobId: string, work: (unit: Unit, run: Run | undefined) => Promise<T>): Promise<T> {
    for (;;) {
      await this.#runs.settled(jobId);
      let isBeginning = false;
      const value = await this.#parts.ledger.write(async (unit) => {
        isBeginning = this.#runs.isBeginning(jobId);
        return isBeginning ? undefined : work(unit, this.#runs.find(jobId));
      });
      if (!isBeginning) return value as T;
    }
  }

  async #cancel(
    unit: Unit,
    job: StoredJob,
    { by, cost = job.total_cost }: { by?: string; cost?: number },
  ): Promise<StoredJob> {
    await endCases(unit, await caseIdsOf(unit.tx, job.id), {
      to: "cancelled",
      error: STOPPED.message,
      name: "cancelled",
    });
    const patch = () => ({ stop_reason: STOPPED.reason, error: STOPPED.message, total_cost: cost });
    return endJob(unit, job.id, "cancelled", patch, by);
  }

  async #cleanUp(job: StoredJob, agent: HostedAgent | undefined): Promise<void> {
    const method = agent?.definition.methods.job_stop;
    if (!agent || !method) return;
    try {
      const context = await toHandlerContext(this.#parts, agent, job);
      const shown = await this.#parts.jobs.show(job);
      await callMethod("job_stop", method, (signal) => ({ ...context, signal, job: shown }));
    } catch (error) {
      this.#parts.log.error("job_stop failed; the job is cancelled all the same", { job_id: job.id, error });
    }
  }

  /** Queues a job that has ended once more. */
  async #again(
    job: StoredJob,
    mark: MarkEntry["mark"],
    patch: Partial<Pick<StoredJob, "job_context">>,
    actor?: Actor,
  ): Promise<StoredJob> {
    const by = actor && nameOf(actor);
    const { jobs, ledger, agents } = this.#parts;
    if (this.#isClosing) throw closing();
    agents.get(job.agent_name);
    const record = RunRecord.read((await jobs.log(job.id)).map(({ entry }) => entry));
    record.forgetFailures();
    const fromStart = mark === "restarted";
    const next = await ledger.write(async (unit) => {
      const current = await unit.tx.get("Job", job.id);
      if (current && !isTerminal(current.status))
        throw new ServiceError("invalid_transition", `Job "${job.id}" is ${current.status} already`);
      const action = mark === "limits_raised" ? "job.resume" : "job.retry";
      const after =
        mark === "limits_raised"
          ? patch.job_context?.job_instructions
          : { from: fromStart ? "start" : "last_step" };
      await this.#note(unit, actor, { action, target: asJob(job.id), before: job.status, after });
      if (fromStart) await removeCasesOf(unit, job.id, by);
      if (!fromStart) for (const id of record.openCases()) await reopenCase(unit, id, by);
      await unit.record(job.id, { type: "mark", mark, by: by ?? "api" });
      return changeJob(
        unit,
        job.id,
        (one) => ({
          ...one,
          ...patch,
          status: "stopped",
          finished_at: null,
          error: null,
          stop_reason: null,
          open_questions: 0,
          ...(fromStart && { case_count: 0, total_cost: 0, result: null }),
        }),
        by,
      );
    });
    this.#runs.queue(next, "start");
    return next;
  }

  /** Adds a line to the audit log with a change that somebody asked for. */
  async #note(unit: Unit, by: Actor | undefined, event: Omit<AuditEvent, "by">): Promise<void> {
    if (by !== undefined) await this.#parts.audit.write(unit, { by, ...event });
  }
}

const asJob = (id: string) => ({ kind: "job", id });
const asCase = (id: string) => ({ kind: "case", id });

function closing(): ServiceError {
  return new ServiceError("unavailable", "The service is closing", {
    detail: "Try again once it has started again.",
    headers: { "Retry-After": "5" },
  });
}

function queueIsFull(queued: number, seconds: number): ServiceError {
  return new ServiceError("rate_limited", `${queued} jobs wait already`, {
    detail: `Try again in ${seconds} s.`,
    headers: { "Retry-After": String(seconds) },
  });
}

function assertAwaits(item: StoredCase, job: StoredJob, now: Date): void {
  if (isTerminal(job.status) || job.status === "cancelling") {
    throw notAwaiting(item, `its job is ${job.status}`);
  }
  const deadline = item.question?.deadline;
  if (deadline && Date.parse(deadline) <= now.getTime())
    throw notAwaiting(item, `its deadline was ${deadline}`);
}

function invalidAnswer(item: StoredCase, problems: Readonly<Record<string, string>>): ServiceError {
  return new ServiceError("invalid_parameters", `The answer to case "${item.id}" is not valid`, {
    detail: `${describeProblems(problems)}.`,
  });
}

function notAwaiting(item: StoredCase, why: string): ServiceError {
  return new ServiceError("invalid_transition", `Case "${item.id}" takes no answer any more: ${why}`, {
    detail: `The current status is "${item.status}".`,
  });
}
