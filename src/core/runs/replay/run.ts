import type { Logger } from "../../base/log.ts";
import type { FileOwner } from "../../entities/job-files.ts";
import type { Spender } from "../../entities/spending.ts";
import { Activity } from "./activity.ts";
import type { Call } from "./call.ts";
import { describe, endOf, finish, mismatchOf } from "./finish.ts";
import { Limits } from "./limits.ts";
import type { Outcome } from "./outcome.ts";
import { Questions } from "./questions.ts";
import { Rehearsal, type Rehearsed } from "./rehearsal.ts";
import { ReplayGate } from "./replay-gate.ts";
import { RunClock } from "./run-clock.ts";
import type { RunEnd } from "./run-errors.ts";
import { RunLedger } from "./run-ledger.ts";
import { RunLife } from "./run-life.ts";
import type { RunParts } from "./run-parts.ts";
import type { RunRecord } from "./run-record.ts";
import { silenced } from "./silenced.ts";
import type { StepUnderWay } from "./step-under-way.ts";
import { Suspension } from "./suspension.ts";

/**
 * One run of a job's handler: lets its calls through, ends it, and stores what becomes of it. `RunState` tells what it
 * can be; it has its parts once its record is read.
 */
export class Run {
  readonly parts: RunParts;
  readonly jobId: string;
  readonly life = new RunLife();
  record!: RunRecord;
  limits!: Limits;
  gate!: ReplayGate;
  activity!: Activity;
  ledger!: RunLedger;
  /** Cases that have not ended. */
  openCases!: Set<string>;
  /** Steps that were in progress when the run was asked to end. */
  cutShort: StepUnderWay[] = [];
  #log: Logger | undefined = undefined;
  #handlerLog: Logger | undefined = undefined;
  /** Absent where the run has no limit of time, and nothing was set for later. */
  #clock: RunClock | undefined = undefined;
  #suspension: Suspension | undefined = undefined;
  #questions: Questions | undefined = undefined;
  #taken: Map<string, Call | undefined> | undefined = undefined;
  #rehearsal: Rehearsal | undefined = undefined;
  /** What its stop does besides: it is waited for, as long as the handler is. */
  #cleanUp: Promise<unknown> | undefined = undefined;
  #force: () => void = () => {};
  #quiet: Promise<void> | undefined = undefined;
  #onQuiet: (() => void) | undefined = undefined;

  constructor(parts: RunParts) {
    this.parts = parts;
    this.jobId = parts.jobId;
  }

  /** Most runs log nothing. */
  get log(): Logger {
    this.#log ??= this.parts.openLog();
    return this.#log;
  }

  /** The same for the handler, whose lines of former runs are not repeated. */
  get handlerLog(): Logger {
    this.#handlerLog ??= silenced(this.log, () => this.gate.isSilent);
    return this.#handlerLog;
  }

  get clock(): RunClock {
    this.#clock ??= new RunClock(this);
    return this.#clock;
  }

  /** Most runs never only wait. */
  get suspension(): Suspension | undefined {
    const times = this.#suspension ? undefined : this.parts.suspension?.();
    if (times) this.#suspension = new Suspension(this, times);
    return this.#suspension;
  }

  /** Who spends what the run costs. */
  get spender(): Spender {
    const { agent, account, isBudgeted } = this.parts;
    return { jobId: this.jobId, agent, workspace: isBudgeted ? account.workspace_id : undefined };
  }

  /** Whose its files are. */
  get owner(): FileOwner {
    const { agent, account, access = null } = this.parts;
    return { id: this.jobId, workspace: account.workspace_id, agent, access };
  }

  /** Most handlers ask none. */
  get questions(): Questions {
    this.#questions ??= new Questions(this);
    return this.#questions;
  }

  /** Stored events that calls of the job were given. */
  get taken(): Map<string, Call | undefined> {
    this.#taken ??= new Map([...this.record.events].map((event) => [event, undefined]));
    return this.#taken;
  }

  get signal(): AbortSignal {
    return this.life.signal;
  }

  /** Whether the signal has fired. */
  get isInterrupted(): boolean {
    return this.life.isInterrupted;
  }

  get isOver(): boolean {
    return this.life.isOver;
  }

  /** Whether its record is being read. */
  get isStarting(): boolean {
    return this.life.state === "starting";
  }

  /** Whether nothing more of this run is stored: its end is, or is on its way into the store. */
  get isSealed(): boolean {
    return this.life.isSealed;
  }

  /** What the job has cost so far; nothing while its record is being read. */
  get spent(): number | undefined {
    return this.isStarting ? undefined : this.limits?.spent;
  }

  /** Whether the handler only waits, each of its calls for something outside of the process. */
  get onlyWaits(): boolean {
    return this.life.isLive && this.activity.onlyWaits;
  }

  get isRehearsal(): boolean {
    return this.#rehearsal !== undefined;
  }

  /** Runs the handler to its end and stores the outcome, unless the run is over before. */
  async execute(record: RunRecord, handler: () => unknown): Promise<void> {
    this.#open(record);
    this.life.move("begin");
    this.#questions?.begin();
    const forced = new Promise<Outcome>((resolve) => {
      this.#force = () => resolve({ kind: "left" });
    });
    if (this.parts.timeout !== undefined || this.limits.timeLeft() !== undefined) this.clock.start();
    const outcome = await Promise.race([outcomeOf(handler), forced]);
    this.gate.stop();
    if (this.#cleanUp) await Promise.race([this.#cleanUp, forced]);
    try {
      if (!this.isOver) await finish(this, outcome);
    } catch (error) {
      // Somebody took the job from this run meanwhile: what becomes of it is stored.
      if (!this.isOver) throw error;
    } finally {
      this.leave();
    }
  }

  /** Shows whether a handler fits the record: see `Rehearsal`. */
  rehearse(
    record: RunRecord,
    handler: () => unknown,
    ...limits: [milliseconds: number, answers?: () => Promise<void>]
  ): Promise<Rehearsed> {
    this.#rehearsal = new Rehearsal(this);
    this.#open(record);
    this.life.move("rehearse");
    return this.#rehearsal.run(outcomeOf(handler), ...limits);
  }

  /** Lets a call begin that is not recorded: past the gate, behind the replay, within the limit of time. */
  enter(call: Call): Promise<void> | undefined {
    if (this.#rehearsal) return this.#rehearsal.never(call);
    const before = this.life.whenLive() ?? this.gate.live(call);
    if (before) return before.then(() => this.enter(call));
    this.limits.stopAt(this.limits.duration());
    return undefined;
  }

  /** Waits for the turn of a call whose end is stored; a former run may have been about to end by a limit that it reached. */
  delivered(call: Call): Promise<void> | undefined {
    const turn = this.gate.delivered(call, undefined);
    return call.ends ? this.#endBy(call.ends, turn) : turn;
  }

  async #endBy(limit: RunEnd, turn: Promise<void> | undefined): Promise<void> {
    await turn;
    this.limits.stopAt(limit);
  }

  /**
   * Whether a step without a cost would start immediately that the handler calls in its present turn, before any other call.
   * Nothing else can happen in a turn, so it may start in another process without asking again.
   */
  get letsStepsBegin(): boolean {
    if (!this.life.isLive || !this.gate.isLive || this.record.isOld || !this.parts.slot.isHeld) return false;
    return this.limits.reserve(0, "") === undefined && this.limits.duration() === undefined;
  }

  /** Counts a step as in progress whose function has started in another process, also if the run was asked to end since then. */
  joins(step: StepUnderWay): Promise<void> | undefined {
    const waiting = this.activity.begin(step);
    if (this.life.end && !this.isSealed) this.cutShort.push(step);
    return waiting;
  }

  /** Tells the run to end; the first reason counts. `cleanUp` is waited for, as long as the handler is. */
  end(end: RunEnd, cleanUp?: () => Promise<unknown>): void {
    const isFinishing = this.isSealed;
    if (!this.life.askToEnd(end)) return;
    this.#rehearsal?.judged();
    if (!isFinishing) this.cutShort = this.activity.steps;
    this.#interrupt();
    this.#cleanUp = cleanUp?.();
    const late = (): void => {
      this.log.warn("the handler did not finish in time and was abandoned", { reason: end.reason });
      this.#force();
    };
    this.clock.after(this.parts.stopGrace, late, "running");
  }

  /**
   * Somebody decides what becomes of the job: nothing of this run is stored until the result is called, with the end that
   * it has where they took the job from it. Then the handler is left behind.
   */
  fence(): (taken?: RunEnd) => void {
    const lift = this.life.raiseFence();
    return (taken) => {
      if (taken) this.abandon(taken);
      lift();
    };
  }

  /** Leaves the handler behind; nothing that it still does is stored. */
  abandon(end: RunEnd): void {
    const { isStarting } = this;
    if (!this.life.may("close")) return;
    this.life.close(end);
    if (isStarting) this.#questions?.turned();
    else {
      this.#interrupt();
      this.#force();
    }
  }

  /** Lets no further call through; resolves once no step is under way and nothing is being stored. */
  freeze(): Promise<void> {
    if (this.life.may("freeze")) this.life.move("freeze");
    this.#quiet ??= new Promise((resolve) => {
      this.#onQuiet = resolve;
    });
    this.activityChanged();
    return this.#quiet;
  }

  /** A step or a write is over. */
  activityChanged(): void {
    if (!this.#onQuiet) return;
    const isQuiet = this.life.state === "frozen" && this.activity.isQuiet;
    if (isQuiet || this.isOver || this.isStarting) this.#onQuiet();
  }

  /** The run only waits. */
  rested(): void {
    if (!this.isOver) this.suspension?.rested();
    this.#questions?.turned();
  }

  /** All that is recorded was given back, and the handler waits for something that is not. */
  replayed(): void {
    this.#rehearsal?.judged();
  }

  /** The handler makes `found` where the record has `expected`, or does not make what was made before that. */
  mismatched(expected: Call, found: Call | undefined): void {
    this.end(mismatchOf(this, expected, { call: found }));
  }

  endOf(outcome: Outcome, expected: Call | undefined): RunEnd | undefined {
    return endOf(this, outcome, expected);
  }

  describe(error: unknown): string {
    return describe(this, error);
  }

  /** It is stored that the job is suspended. */
  left(): void {
    this.#force();
    this.leave();
  }

  /** Nothing is left running of this run but what the handler itself may still do. */
  leave(): void {
    if (this.life.state !== "over") this.life.close();
    this.#clock?.stop();
    this.#suspension?.stop();
    if (this.life.state === "suspended") this.gate.stop();
    else this.gate.refuse(this.life.interruptRest());
    this.parts.slot.leave();
    this.activityChanged();
    this.#questions?.turned();
  }

  #open(record: RunRecord): void {
    const { isStrict, isIsolated, mayRead } = this.parts;
    this.record = record;
    this.openCases = new Set(record.openCases());
    this.limits = new Limits(this);
    this.ledger = new RunLedger(this);
    this.activity = new Activity(this, isStrict || (!isIsolated && (mayRead || record.hasReads)) || false);
    this.gate = new ReplayGate(this);
  }

  #interrupt(): void {
    const error = this.life.interrupt();
    this.gate.refuse(() => error);
  }
}

async function outcomeOf(handler: () => unknown): Promise<Outcome> {
  try {
    return { kind: "returned", value: await call(handler) };
  } catch (error) {
    return { kind: "threw", error };
  }
}

async function call<T>(fn: () => T | Promise<T>): Promise<T> {
  return fn();
}
