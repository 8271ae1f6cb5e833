import type { AsyncLocalStorage } from "node:async_hooks";
import { LONGEST_MESSAGE, messageOf, shorten } from "../../base/error-text.ts";
import type { Logger } from "../../base/log.ts";
import type { StartTimer, TimerPurpose } from "../../base/timer.ts";
import { holdJob, suspendJob } from "../../entities/jobs.ts";
import { isRefusal, type Ledger, type Unit } from "../../entities/ledger.ts";
import type { AccountRef } from "../../models/account.ts";
import type { Code } from "../../models/job.ts";
import type { JobInstructions } from "../../models/job-instructions.ts";
import { isIn, may } from "../../models/job-state.ts";
import type { CallEntry } from "../../models/run-entry.ts";
import { FencedError, type TransactionOptions } from "../../store/store.ts";
import type { Emissions, Emitter } from "../emissions/emissions.ts";
import type { Place } from "../queue/scheduler.ts";
import { whenWritable } from "../queue/when-writable.ts";
import { Activity, costOf, type Doing, type StepUnderWay } from "./activity.ts";
import type { Call } from "./call.ts";
import { Deliveries } from "./deliveries.ts";
import { Limits, type Told } from "./limits.ts";
import { type Found, toMismatch } from "./mismatch.ts";
import { type EndingOf, type JobEnd, type Outcome, toEnding } from "./outcome.ts";
import { Questions } from "./questions.ts";
import { RunClock } from "./run-clock.ts";
import { HeldError, type RunEnd } from "./run-errors.ts";
import { RunPhase } from "./run-phase.ts";
import type { RunRecord } from "./run-record.ts";
import { storeEnd } from "./store-end.ts";
import { leftOf, Suspension, type Wait, type WaitEnd } from "./suspension.ts";

export interface RunParts {
  readonly jobId: string;
  /** Slug of its agent. */
  readonly agent: string;
  /** Which of the job's runs this is, from 1. */
  readonly epoch: number;
  readonly record: RunRecord;
  readonly instructions: JobInstructions | null;
  readonly account: AccountRef;
  readonly place: Place;
  readonly ledger: Ledger;
  readonly log: Logger;
  readonly clock: () => Date;
  readonly startTimer: StartTimer;
  /** Takes secrets out of errors before they are stored. */
  readonly redact: (text: string) => string;
  /** Milliseconds that the handler gets to end by itself once the run must end. */
  readonly stopGrace: number;
  /** Milliseconds that the handler may work; time in which it only waits does not count. */
  readonly timeout: number | undefined;
  /** Knows the step in whose function something is done, where that is worth its cost. */
  readonly insides?: AsyncLocalStorage<StepUnderWay> | undefined;
  /** Whether calls inside of steps are found wherever they are made. */
  readonly isStrict?: boolean | undefined;
  /** Whether it is known from the beginning that the handler may read the job or a case. */
  readonly mayRead?: boolean | undefined;
  /** Called when it has read one, which was not known. */
  readonly onRead?: (() => void) | undefined;
  /** The agent's version and the fingerprint of its code. */
  readonly code: Code;
  /** Milliseconds that a rehearsal waits for a recorded call; a run that is none has what it needs. */
  readonly patience?: number;
  /** How the run leaves memory while it only waits; where this is absent, it stays. */
  readonly suspension?: {
    /** Milliseconds that it only waits before, and that are left of its wait then. */
    readonly after: number;
    /** Calls `suspend` while nobody else changes the job. */
    readonly suspend: (run: Run) => Promise<unknown>;
  };
  /** Milliseconds that the handler had worked before it left memory. @default 0 */
  readonly worked?: number | undefined;
  /** Where instances share a store: takes the answers that were stored since the record was read. */
  readonly readAnswers?: (() => Promise<void>) | undefined;
  /** The time up to which its waits are over, in milliseconds since 1970, where the clock was set back meanwhile. */
  readonly wokenAt?: number | undefined;
  /** Called before a step begins: abandons the run where another instance may have claimed its job by now. */
  readonly checkLease?: (() => void) | undefined;
  /** Is notified what the run is doing, if that must be known after a crash. */
  readonly doing?: Doing | undefined;
  /** Gets what steps emit; absent where none of them runs. */
  readonly emissions?: Emissions;
}

/**
 * The result of a rehearsal: why the run would not continue; `undefined` if it would, `"unsure"` if that is
 * not known.
 */
export interface Rehearsed {
  readonly end: RunEnd | "unsure" | undefined;
  /** Lines of calls that the handler does not make. */
  readonly notMade: readonly number[];
  /** Recorded calls that it continues without. */
  readonly skipped: readonly Call[];
  /** The first recorded call that it did not make in time, where that leaves the end unsure. */
  readonly missing: Call | undefined;
  /** Why the handler failed before it had made all recorded calls; absent if it did not. */
  readonly failed?: string;
  /** What the handler has returned; absent if it has not. */
  readonly returned?: { readonly value: unknown };
  /** Calls that it waits for, of which no end is recorded. */
  readonly next: readonly Call[];
  /** Line of the log up to which it was given the ends of its calls. */
  readonly line: number;
}

/** Why a run ends whose job another one has by now, also one of another process. */
export const SUPERSEDED: RunEnd = {
  to: "cancelled",
  reason: "interrupted",
  message: "The run has ended: the job was taken from it",
};

/** What a unit gives that was held up. */
const NOTHING = Promise.resolve(undefined as never);

/** One run of a job's handler: lets its calls through, ends it, and stores what becomes of it. */
export class Run {
  readonly parts: RunParts;
  readonly limits: Limits;
  readonly deliveries: Deliveries;
  readonly activity: Activity;
  /** Cases that have not ended. */
  readonly openCases: Set<string>;
  /** Stored events that calls of the job were given. */
  readonly taken = new Map<string, Call | undefined>();
  readonly #phase = new RunPhase();
  readonly #clock: RunClock;
  readonly #suspension: Suspension | undefined;
  #questions: Questions | undefined;
  /** Steps that were in progress when the run was asked to end, or when its handler ended without them. */
  #cutShort: StepUnderWay[] = [];
  /** Those of them whose results had not been stored when the run's end was. */
  #unrecorded: StepUnderWay[] | undefined;
  readonly #fenced: TransactionOptions;
  #isFinishing = false;
  #isSealed = false;
  /** The limit that was reached by what is stored: it counts also where the handler has just finished. */
  #limit: RunEnd | undefined;
  #isBegunElsewhere = false;
  #cleanUp: Promise<unknown> | undefined;
  #force: () => void = () => {};
  #onJudged: (() => void) | undefined;
  /** What `changed` answered, to be stored with the next write: before anything that follows from it. */
  readonly #answers = new Map<string, boolean>();
  /** Settles when the write that stores them has ended; others wait for it. */
  #answering: Promise<void> | undefined;
  #onQuiet: (() => void) | undefined;
  readonly #onTurn: (() => void)[] = [];
  /** In a rehearsal: the calls that the handler has made and that are not recorded. */
  readonly #neverBegun = new Set<Call>();

  constructor(parts: RunParts) {
    this.parts = parts;
    const { log, timeout, place, insides, record, startTimer, doing, suspension, worked } = parts;
    const { isStrict = false, mayRead = false } = parts;
    this.#fenced = { fence: { job: parts.jobId, epoch: parts.epoch } };
    const end = (reason: RunEnd) => this.end(reason);
    this.limits = new Limits(parts.instructions, record, parts.clock);
    this.openCases = new Set(record.openCases());
    for (const event of record.events) this.taken.set(event, undefined);
    this.#clock = new RunClock({ log, timeout, worked, limits: this.limits, startTimer, end });
    this.#suspension =
      suspension &&
      new Suspension({ run: this, after: suspension.after, suspend: () => suspension.suspend(this) });
    const onChange = () => this.#tellIfQuiet();
    const [phase, clock] = [this.#phase, this.#clock];
    const onRest = () => {
      this.#suspension?.rested();
      this.turned();
    };
    const onWork = () => this.#suspension?.resumed();
    const follows = isStrict || mayRead;
    this.activity = new Activity({
      ...{ place, insides, isStrict, follows, phase, clock, onChange, onRest, onWork, doing },
    });
    this.deliveries = new Deliveries({
      recorded: record.ended,
      open: record.open(),
      begun: record.begun(),
      loose: record.loose,
      isRetried: record.isRetried,
      isStrict,
      log,
      patience: parts.patience,
      onTurnEnd: () => this.activity.restIfIdle(),
      onReplayed: () => this.#onJudged?.(),
      onMismatch: (expected, found) => end(this.#mismatch(expected, { call: found })),
    });
  }

  get questions(): Questions {
    this.#questions ??= new Questions(this);
    return this.#questions;
  }

  get jobId(): string {
    return this.parts.jobId;
  }

  get signal(): AbortSignal {
    return this.#phase.signal;
  }

  /** Whether the signal has fired. */
  get isInterrupted(): boolean {
    return this.#phase.isInterrupted;
  }

  get isOver(): boolean {
    return this.#phase.isOver;
  }

  /** Whether nothing more of this run is stored: its end is, or is on its way into the store. */
  get isSealed(): boolean {
    return this.#isSealed || this.isOver;
  }

  /** Whether the job's end must still be stored, by this run or by the next owner of the job. */
  get isEndAhead(): boolean {
    return !this.isOver && !this.#isFinishing;
  }

  /** Runs the handler to its end and stores the outcome, unless the run is over before. */
  async execute(handler: () => unknown): Promise<void> {
    const forced = new Promise<Outcome>((resolve) => {
      this.#force = () => resolve({ kind: "left" });
    });
    this.#clock.start();
    const settled = call(handler).then(
      (value): Outcome => ({ kind: "returned", value }),
      (error: unknown): Outcome => ({ kind: "threw", error }),
    );
    const outcome = await Promise.race([settled, forced]);
    this.deliveries.stop();
    if (this.#cleanUp) await Promise.race([this.#cleanUp, forced]);
    try {
      if (!this.isOver) await this.#finish(outcome);
    } catch (error) {
      // Somebody took the job from this run meanwhile: what becomes of it is stored.
      if (!this.isOver) throw error;
    } finally {
      this.#leave();
    }
  }

  /**
   * Gives the record to a handler without doing anything: nothing is run that is not recorded, nothing is stored. Takes
   * at most so many milliseconds, and as long as `answers` does, which resolves once the process of the handler has
   * answered or ended.
   */
  async rehearse(
    handler: () => unknown,
    milliseconds: number,
    answers?: () => Promise<void>,
  ): Promise<Rehearsed> {
    let isLate = false;
    const judged = new Promise<Outcome>((resolve) => {
      this.#onJudged = () => resolve({ kind: "left" });
      if (Number.isFinite(milliseconds))
        this.after(milliseconds, () => {
          isLate = true;
          resolve({ kind: "left" });
        });
    });
    const settled = call(handler).then(
      (value): Outcome => ({ kind: "returned", value }),
      (error: unknown): Outcome => ({ kind: "threw", error }),
    );
    const outcome = await Promise.race([judged, settled]);
    if (outcome.kind === "left" && !this.#phase.end) await answers?.();
    const { line } = this.deliveries;
    const next = [...this.#neverBegun].filter(({ isDue }) => !isDue);
    const { ahead, passedOver, open } = this.deliveries.notMade();
    const missing = ahead[0] ?? (isLate ? open[0] : undefined);
    const unsure = missing && "unsure";
    const end = this.#endOf(outcome) ?? (outcome.kind === "left" ? unsure : failure(outcome));
    this.#phase.close({ to: "cancelled", reason: "stopped", message: "The rehearsal is over" });
    this.#interrupt();
    this.#leave();
    return {
      ...{ end, next, line, notMade: [...passedOver, ...ahead].map((call) => call.line) },
      ...{ skipped: passedOver, missing: end === "unsure" ? missing : undefined },
      ...(outcome.kind === "threw" && ahead.length > 0 && { failed: this.#describe(outcome.error) }),
      ...(outcome.kind === "returned" && { returned: { value: outcome.value } }),
    };
  }

  get isRehearsal(): boolean {
    return this.#onJudged !== undefined;
  }

  /** Lets a call begin that is not recorded: past the gate, behind the replay, within the limit of time. */
  enter(call: Call): Promise<void> | undefined {
    if (this.#onJudged) return this.#never(call);
    const before = this.#phase.gate() ?? this.deliveries.live(call);
    if (before) return before.then(() => this.enter(call));
    this.stopAt(this.limits.duration());
    return undefined;
  }

  /**
   * Whether a step without a cost would start immediately that the handler calls in its present turn, before any other call.
   * Nothing else can happen in a turn, so it may start in another process without asking again.
   */
  get letsStepsBegin(): boolean {
    const { record, place } = this.parts;
    if (this.#onJudged || this.#isFinishing || this.isSealed || !this.#phase.isLive) return false;
    if (!this.deliveries.isLive || record.isOld || !place.isHeld) return false;
    return this.limits.reserve(0, "") === undefined && this.limits.duration() === undefined;
  }

  /** Makes the call of a step whose function has started in another process. */
  begunElsewhere<T>(call: () => T): T {
    this.#isBegunElsewhere = true;
    try {
      return call();
    } finally {
      this.#isBegunElsewhere = false;
    }
  }

  get isBegunElsewhere(): boolean {
    return this.#isBegunElsewhere;
  }

  /** Counts a step as in progress whose function has started in another process, also if the run was asked to end since then. */
  joins(step: StepUnderWay): Promise<void> | undefined {
    const waiting = this.activity.begin(step);
    if (this.#phase.end && !this.isSealed) this.#cutShort.push(step);
    return waiting;
  }

  /** For an attempt of a step. */
  emitterOf({ call, attempt }: StepUnderWay): Emitter | undefined {
    const { emissions, jobId, epoch } = this.parts;
    return emissions?.attempt(jobId, () => {
      const { case_id, name, key, position } = call.fields;
      return { run: epoch, case_id, name, key, position, attempt };
    });
  }

  /** Whether the job takes the new way of a change of the code. */
  changed(name: string): boolean {
    const { changes } = this.parts.record;
    const known = changes.get(name);
    if (known !== undefined) return known;
    const is = this.deliveries.isBehindRecord;
    changes.set(name, is);
    this.#answers.set(name, is);
    return is;
  }

  /**
   * Whether the handler reads something in a step's function; nothing where that is not known. To follow steps makes every
   * promise cost more, so that is only done in runs that read.
   */
  get readsInStep(): boolean | undefined {
    const { isInStep, isFollowing } = this.activity;
    if (!isFollowing) {
      this.activity.follow();
      this.parts.onRead?.();
    }
    return isInStep;
  }

  /** Waits for the turn of a call whose end is stored. */
  delivered(call: Call): Promise<void> | undefined {
    const turn = this.deliveries.delivered(call, undefined);
    return call.ends ? this.#endBy(call.ends, turn) : turn;
  }

  /**
   * The limit that is reached by what a call stores in this unit, for its entry: it ends the run as soon as that is stored,
   * and each later run that is given the entry, until the job's end is stored. `cost` is not counted yet.
   */
  limitBy(unit: Unit, call: Call, told: Told): Pick<CallEntry, "ends"> {
    unit.afterwards(() => {
      // Others may have spent something meanwhile.
      call.ends = this.limits.reachedBy(told);
      if (!call.ends) return;
      this.#limit ??= call.ends;
      this.end(call.ends);
    });
    const end = this.limits.reachedBy(told);
    return end ? { ends: { reason: end.reason, message: end.message } } : {};
  }

  /** Ends the run where there is a reason to, by throwing. */
  stopAt(end: RunEnd | undefined): void {
    if (!end) return;
    this.end(end);
    throw this.#phase.error;
  }

  /** A former run was about to end by this limit. */
  async #endBy(limit: RunEnd, turn: Promise<void> | undefined): Promise<void> {
    await turn;
    this.stopAt(limit);
  }

  /** Tells the run to end; the first reason counts. `cleanUp` is waited for, as long as the handler is. */
  end(end: RunEnd, cleanUp?: () => Promise<unknown>): void {
    if (!this.#phase.tellToEnd(end)) return;
    this.#onJudged?.();
    this.#cutShort = this.activity.steps;
    this.#interrupt();
    this.#cleanUp = cleanUp?.();
    const late = (): void => {
      this.parts.log.warn("the handler did not finish in time and was abandoned", { reason: end.reason });
      this.#force();
    };
    this.after(this.parts.stopGrace, late, "running");
  }

  /**
   * Somebody decides what becomes of the job: nothing of this run is stored until the result is called, with the end that
   * it has where they took the job from it. Then the handler is left behind.
   */
  fence(): (taken?: RunEnd) => void {
    const lift = this.#phase.raiseFence();
    return (taken) => {
      if (taken) this.abandon(taken);
      lift();
    };
  }

  /** Whether the handler only waits, each of its calls for something outside of the process. */
  get onlyWaits(): boolean {
    return this.#phase.isLive && this.activity.isQuiet && this.#allWait;
  }

  /** Resolves once the handler waits with a question of this case, or only waits, or the run is over. */
  async untilAsked(caseId: string): Promise<void> {
    while (!this.isOver && !this.onlyWaits && !this.questions.fieldsOf(caseId))
      await new Promise<void>((resolve) => this.#onTurn.push(resolve));
  }

  /** A question is open, or the run only waits, or is over. */
  turned(): void {
    for (const resolve of this.#onTurn.splice(0)) resolve();
  }

  get #allWait(): boolean {
    const { size } = this.activity.waits;
    return size > 0 && this.deliveries.open === size;
  }

  /** Milliseconds until a wait is over, or the job has taken as long as it may. */
  timeLeft(): number {
    return this.#nextEnd()?.left ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Leaves memory, if the run still only waits: stores that the job is suspended, calls `onGone` as soon as it is, and
   * forgets the handler, which does not notice. Nothing else of the run is stored meanwhile.
   */
  async suspend(onGone: () => void): Promise<void> {
    if (!this.#suspension?.isDue) return;
    const lift = this.#phase.raiseFence();
    this.activity.beginWrite();
    try {
      await this.parts.ledger.write(async (unit) => {
        if (!(await this.#storeSuspension(unit))) return;
        unit.afterwards(() => {
          this.#phase.suspend();
          onGone();
          this.#force();
          this.#leave();
        });
      }, this.#fenced);
    } catch (error) {
      if (error instanceof FencedError) this.abandon(SUPERSEDED);
      this.parts.log.warn("the job stays in memory: it could not be stored that it is suspended", { error });
    } finally {
      this.activity.endWrite();
      if (!this.#phase.isSuspended) lift();
    }
  }

  /** Leaves the handler behind; nothing that it still does is stored. */
  abandon(end: RunEnd): void {
    if (this.#phase.isSuspended) return;
    this.#phase.close(end);
    this.#interrupt();
    this.#force();
  }

  /** Lets no further call through; resolves once no step is under way and nothing is being stored. */
  freeze(): Promise<void> {
    this.#phase.freeze();
    return new Promise((resolve) => {
      this.#onQuiet = resolve;
      this.#tellIfQuiet();
    });
  }

  /**
   * Stores something of this run, unless its end is about to be stored. While the store cannot write, it waits: the next
   * attempt may succeed. The store may run `work` again: see `Ledger.write`.
   */
  write<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    return this.#isSealed ? Promise.reject(this.#phase.error) : this.#store(work);
  }

  async #store<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    let fence: Promise<void> | undefined;
    let answered: (() => void) | undefined;
    const guarded = (unit: Unit): Promise<T> => {
      // Once the run has left memory, it is never lifted.
      fence = this.#phase.fence;
      if (fence) return NOTHING;
      if (this.isOver) throw this.#phase.error;
      return answered ? this.#recordAnswers(unit).then(() => work(unit)) : work(unit);
    };
    this.activity.beginWrite();
    try {
      while (this.#answers.size > 0 && this.#answering) await this.#answering;
      if (this.#answers.size > 0) {
        this.#answering = new Promise((resolve) => {
          answered = resolve;
        });
      }
      for (;;) {
        const value = await whenWritable(
          () => this.parts.ledger.write(guarded, this.#fenced),
          ({ message }) => {
            if (this.isOver && !this.#phase.isSuspended) throw this.#phase.error;
            this.parts.log.warn("the store cannot write; the run waits", { error: message });
          },
        );
        if (!fence) return value;
        await fence;
      }
    } catch (error) {
      if (error instanceof FencedError) await this.#superseded();
      // What a plugin refuses is not recorded: a handler that continued after it could not be replayed.
      if (isRefusal(error) && !this.#isFinishing) this.end(refused(error));
      throw error;
    } finally {
      if (answered) {
        this.#answering = undefined;
        answered();
      }
      this.activity.endWrite();
    }
  }

  /** The job has another run, or is gone: this one ends without a trace. */
  async #superseded(): Promise<never> {
    // Where it was taken in this process, that says why.
    await this.#phase.fence;
    if (!this.isOver) this.parts.log.info("the run has ended: another one has the job");
    this.abandon(SUPERSEDED);
    throw this.#phase.error;
  }

  /** Reads something for a call. While the store does not answer, it waits: the next attempt may succeed. */
  read<T>(work: () => Promise<T>): Promise<T> {
    return whenWritable(work, ({ message }) => {
      if (this.isOver) throw this.#phase.error;
      this.parts.log.warn("the store cannot be read; the run waits", { error: message });
    });
  }

  /** Settles as `work` does, or rejects as soon as the run ends. */
  orEnd<T>(work: () => T | Promise<T>): T | Promise<T> {
    return this.#phase.orEnd(work);
  }

  /**
   * Waits for something durable outside of this process: another job may have this one's place meanwhile, and the run may
   * leave memory. `end` is when it must be back. A unit that stores what is waited for makes the job due (`wakeJob`);
   * `isOpen` says inside a unit that this is not stored yet.
   */
  wait<T>(work: () => Promise<T>, end?: WaitEnd, isOpen?: Wait["isOpen"]): Promise<T> {
    return this.activity.wait(work, { end, since: performance.now(), isOpen });
  }

  /** Counts the cost of a step once, when its record is stored, or its end without one. */
  account(step: StepUnderWay): void {
    if (step.isRecorded) return;
    step.isRecorded = true;
    this.limits.settle(step.cost, costOf(step));
  }

  /** Calls `fn` later, unless the run is over before; the result cancels it. */
  after(milliseconds: number, fn: () => void, purpose?: TimerPurpose): () => void {
    return this.#clock.after(milliseconds, fn, purpose);
  }

  async #finish(outcome: Outcome): Promise<void> {
    this.#isFinishing = true;
    const { log, redact } = this.parts;
    const { passedOver } = this.deliveries.notMade();
    if (passedOver.length > 0) {
      const calls = passedOver.slice(0, 20).map(({ label }) => label);
      log.warn("the handler no longer makes calls that are recorded", { calls });
    }
    const judged = this.#endOf(outcome);
    // What was to be stored before the end is stored before it; nothing follows.
    this.#isSealed = true;
    await this.activity.written();
    const end = judged ?? this.#limit;
    if (end?.held) return this.#hold(end, end.held);
    if (!end && outcome.kind === "threw" && outcome.error instanceof HeldError)
      return this.#hold({ to: "failed", reason: "unreadable_parameters", message: outcome.error.message });
    const ending = toEnding(outcome, end, redact);
    const { steps } = this.activity;
    if (!end && steps.length > 0) {
      this.#cutShort = steps;
      log.warn("the handler ended before steps that it had started", {
        steps: steps.map(({ name }) => name),
      });
    }
    const stored = await this.#storeEnd(ending).catch((error: unknown) => {
      if (!isRefusal(error)) throw error;
      return this.#storeEnd(toEnding({ kind: "threw", error }, undefined, redact));
    });
    this.#phase.close();
    if (stored && stored.to !== "completed") {
      log.warn(`job ${stored.to}`, { reason: stored.reason, problem: stored.message });
    }
  }

  /** Gives back how the job has ended. */
  async #storeEnd(endingOf: EndingOf): Promise<JobEnd | undefined> {
    // Results that were being written when the run was asked to end are recorded by now.
    this.#unrecorded ??= this.#cutShort.filter((step) => !step.isRecorded);
    const cutShort = this.#unrecorded;
    return this.#store((unit) => {
      const { openCases, limits } = this;
      const account = (step: StepUnderWay) => this.account(step);
      return storeEnd(unit, {
        ...{ jobId: this.jobId, agent: this.parts.agent, endingOf, cutShort, account },
        ...{ openCases, limits },
      });
    });
  }

  /**
   * Why the run ends, other than by its handler's result: it was asked to, or the handler skipped recorded
   * calls.
   */
  #endOf(outcome: Outcome): RunEnd | undefined {
    const expected = this.deliveries.notMade().ahead[0];
    if (this.#phase.end || !expected || outcome.kind === "left") return this.#phase.end;
    if (outcome.kind === "returned") return this.#mismatch(expected, { ended: {} });
    // It may have failed for a reason of its own, where it is the code that made the record.
    const end = this.#mismatch(expected, { ended: { error: this.#describe(outcome.error) } });
    return end.held && end;
  }

  #mismatch(expected: Call, found: Found): RunEnd {
    const { record, code } = this.parts;
    return toMismatch(expected, found, { record, code });
  }

  #describe(error: unknown): string {
    return shorten(this.parts.redact(messageOf(error)), LONGEST_MESSAGE);
  }

  async #recordAnswers(unit: Unit): Promise<void> {
    const stored = [...this.#answers];
    for (const [name, is] of stored)
      await unit.record(this.jobId, { type: "mark", mark: "changed", name, is });
    unit.afterwards(() => {
      for (const [name] of stored) this.#answers.delete(name);
    });
  }

  /** The job does not end: it waits for code that fits its record, for the key of its parameters, or for a person. */
  async #hold(end: RunEnd, held?: NonNullable<RunEnd["held"]>): Promise<void> {
    const { jobId, log, redact } = this.parts;
    // Nothing followed from them.
    this.#answers.clear();
    const isHeld = await this.#store(async (unit) => {
      const job = await unit.tx.get("Job", jobId);
      if (!job || !may(job, "hold")) return false;
      const isCutShort = this.#cutShort.length > 0;
      const { message: error } = end;
      if (isCutShort) await unit.record(jobId, { type: "mark", mark: "interrupted", message: error });
      const reason = held ? "code_changed" : "unreadable_parameters";
      await holdJob(unit, jobId, { reason, error, ...(held && { held }), total_cost: this.limits.spent });
      return true;
    });
    if (!isHeld) await this.#storeEnd(toEnding({ kind: "left" }, undefined, redact));
    this.#phase.close();
    const why = held ? "its record does not fit the code" : "its parameters cannot be read";
    log.warn(`the job is held: ${why}`, { problem: end.message });
  }

  /** In a rehearsal no call begins: it waits until that is over. */
  #never(call: Call): Promise<void> {
    this.#neverBegun.add(call);
    const pending = this.deliveries.live(call) ?? Promise.resolve();
    return pending.then(() => this.orEnd(() => new Promise<void>(() => {})));
  }

  /** When the run has something to do by itself. */
  #nextEnd(): { readonly left: number; readonly at: number } | undefined {
    const now = this.parts.clock().getTime();
    let next: { readonly left: number; readonly at: number } | undefined;
    const consider = (left: number | undefined, at: number | undefined): void => {
      if (left !== undefined && (!next || left < next.left)) next = { left, at: at ?? now + left };
    };
    for (const wait of this.activity.waits) consider(leftOf(wait, now), wait.end?.at);
    consider(this.limits.timeLeft(), undefined);
    return next;
  }

  /** Resolves with whether it stores that: not if something has come that the run does not know of yet. */
  async #storeSuspension(unit: Unit): Promise<boolean> {
    const job = await unit.tx.get("Job", this.jobId);
    if (
      this.#isFinishing ||
      !job ||
      !isIn(job, "running", "waiting", "suspended") ||
      job.run_count !== this.parts.epoch
    )
      return false;
    for (const { isOpen } of this.activity.waits) if (isOpen && !(await isOpen(unit))) return false;
    // A wait may have ended since the suspension was due.
    if (!this.#allWait) return false;
    if (this.#answers.size > 0) await this.#recordAnswers(unit);
    const next = this.#nextEnd();
    const wake = next && this.parts.clock().getTime() + next.left;
    const wake_at = wake === undefined ? null : new Date(wake).toISOString();
    // The clock was set back since the wait began.
    const reached = next && next.at - wake! > 1000 ? new Date(next.at).toISOString() : undefined;
    const { worked } = this.#clock;
    await suspendJob(
      unit,
      this.jobId,
      { wake_at, ...(reached !== undefined && { reached }), ...(worked !== undefined && { worked }) },
      this.limits.spent,
    );
    return true;
  }

  /** Nothing is left running of this run but what the handler itself may still do. */
  #leave(): void {
    this.#phase.close();
    this.#clock.stop();
    this.#suspension?.stop();
    if (this.#phase.isSuspended) this.deliveries.stop();
    else this.deliveries.refuse(this.#phase.interruptRest());
    this.parts.place.leave();
    this.#tellIfQuiet();
    this.turned();
  }

  #interrupt(): void {
    const error = this.#phase.interrupt();
    this.deliveries.refuse(() => error);
  }

  #tellIfQuiet(): void {
    if (this.isOver || (this.#phase.isFrozen && this.activity.isQuiet)) this.#onQuiet?.();
  }
}

function refused(error: Error): RunEnd {
  return { to: "failed", reason: "error", message: messageOf(error) };
}

/** How a job would end that the handler ends in a rehearsal. */
function failure(outcome: Outcome): RunEnd | undefined {
  return outcome.kind === "threw" ? refused(outcome.error as Error) : undefined;
}

async function call<T>(fn: () => T | Promise<T>): Promise<T> {
  return fn();
}
