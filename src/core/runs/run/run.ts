import type { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../../base/error-text.ts";
import { isServiceError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { endCases } from "../../entities/cases.ts";
import { endJob } from "../../entities/jobs.ts";
import type { Ledger, Unit } from "../../entities/ledger.ts";
import type { AccountRef } from "../../models/account.ts";
import type { JobInstructions } from "../../models/job-instructions.ts";
import type { BegunEntry } from "../../models/run-entry.ts";
import type { Place } from "../scheduler.ts";
import type { Call } from "./call.ts";
import { Deliveries } from "./deliveries.ts";
import { Limits } from "./limits.ts";
import { type Outcome, toEnding } from "./outcome.ts";
import { Questions } from "./questions.ts";
import { type RunEnd, RunEndedError } from "./run-errors.ts";
import type { RunRecord } from "./run-record.ts";
import { startTimer } from "./timer.ts";

export interface RunParts {
  readonly jobId: string;
  /** Which of the job's runs this is, from 1. */
  readonly epoch: number;
  readonly record: RunRecord;
  readonly instructions: JobInstructions | null;
  readonly account: AccountRef;
  readonly place: Place;
  readonly ledger: Ledger;
  readonly log: Logger;
  readonly clock: () => Date;
  /** Takes secrets out of errors before they are stored. */
  readonly redact: (text: string) => string;
  /** Milliseconds that the handler gets to end by itself once the run must end. */
  readonly stopGrace: number;
  /** Milliseconds that the handler may work; time in which it only waits does not count. */
  readonly timeout: number | undefined;
  /** Knows the step in whose function something is done, where that is worth its cost. */
  readonly insides: AsyncLocalStorage<StepUnderWay> | undefined;
}

/** A step under way. */
export interface StepUnderWay {
  readonly call: Call;
  readonly name: string;
  readonly attempt: number;
  readonly cost: number;
  /** When its function was called; empty before that. */
  startedAt: string;
  /** Whether what became of it is on its way into the store, and its cost was counted. */
  isRecorded: boolean;
}

/**
 * Where a run stands: `live`; `ending`, when a limit or a stop has told it to; `frozen`, while the service closes;
 * `over`, when nothing that the handler still does counts any more.
 */
type Phase = "live" | "ending" | "frozen" | "over";

/** One run of a job's handler: lets its calls through, ends it, and stores what becomes of it. */
export class Run {
  readonly parts: RunParts;
  readonly limits: Limits;
  readonly deliveries: Deliveries;
  #questions: Questions | undefined;
  /** Cases that have not ended. */
  readonly openCases: Set<string>;
  readonly #underWay = new Set<StepUnderWay>();
  /** The step whose function is being called, until that returns or waits for the first time. */
  #calling: StepUnderWay | undefined;
  /** Steps that were under way when the run was told to end, or its handler ended without them. */
  #cutShort: StepUnderWay[] = [];
  /** Made when somebody asks for the signal: most handlers never do. */
  #controller: AbortController | undefined;
  #interruptedBy: Error | undefined;
  /** Called with the reason when the run ends: what the handler waits for rejects. */
  readonly #interrupts = new Set<(error: Error) => void>();
  readonly #timers = new Set<() => void>();
  #phase: Phase = "live";
  #isFinishing = false;
  #isSealed = false;
  #end: RunEnd | undefined;
  #cleanUp: Promise<unknown> | undefined;
  #force: () => void = () => {};
  #waits = 0;
  #writes = 0;
  #onQuiet: (() => void) | undefined;
  #workedBefore = 0;
  #workingSince: number | undefined;
  #stopTimeout: (() => void) | undefined;

  constructor(parts: RunParts) {
    this.parts = parts;
    this.limits = new Limits(parts.instructions, parts.record, parts.clock);
    this.openCases = new Set(parts.record.openCases());
    this.deliveries = new Deliveries({
      recorded: parts.record.ended,
      open: parts.record.open(),
      begun: parts.record.begun(),
      isRetried: parts.record.isRetried,
      isStrict: parts.insides !== undefined,
      log: parts.log,
      onMismatch: (expected, found) => this.end(mismatch(expected, found)),
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
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#interruptedBy) this.#controller.abort(this.#interruptedBy);
    }
    return this.#controller.signal;
  }

  /** Whether the signal has fired. */
  get isInterrupted(): boolean {
    return this.#interruptedBy !== undefined;
  }

  get isOver(): boolean {
    return this.#phase === "over";
  }

  /** Whether nothing more of this run is stored: its end is, or is on its way into the store. */
  get isSealed(): boolean {
    return this.#isSealed || this.#phase === "over";
  }

  /** Whether the job's end is yet to be stored, by this run or by whoever takes the job from it. */
  get isEndAhead(): boolean {
    return this.#phase !== "over" && !this.#isFinishing;
  }

  /** Runs the handler to its end and stores the outcome, unless the run is over before. */
  async execute(handler: () => unknown): Promise<void> {
    const forced = new Promise<Outcome>((resolve) => {
      this.#force = () => resolve({ kind: "left" });
    });
    this.#watchDuration();
    this.#resumeTimeout();
    const settled = call(handler).then(
      (value): Outcome => ({ kind: "returned", value }),
      (error: unknown): Outcome => ({ kind: "threw", error }),
    );
    const outcome = await Promise.race([settled, forced]);
    this.deliveries.stop();
    if (this.#cleanUp) await Promise.race([this.#cleanUp, forced]);
    try {
      if (!this.isOver) await this.#finish(outcome);
    } finally {
      this.#leave();
    }
  }

  /** Waits until the handler's next call may go on: for ever while the service closes; rejects once the run ends. */
  gate(): Promise<void> | undefined {
    if (this.#phase === "live") return undefined;
    if (this.#phase === "frozen") return new Promise(() => {});
    return Promise.reject(this.#endedError());
  }

  /** Lets a call begin that is not recorded: past the gate, behind the replay, within the limit of time. */
  enter(call: Call): Promise<void> | undefined {
    const before = this.gate() ?? this.deliveries.live(call);
    if (before) return before.then(() => this.enter(call));
    this.stopAt(this.limits.duration());
    return undefined;
  }

  /** Waits for the turn of a call whose end is stored. */
  delivered(call: Call): Promise<void> | undefined {
    return this.deliveries.delivered(call, undefined);
  }

  /** Ends the run where there is a reason to, by throwing. */
  stopAt(end: RunEnd | undefined): void {
    if (!end) return;
    this.end(end);
    throw this.#endedError();
  }

  /** Tells the run to end; the first reason counts. `cleanUp` is waited for, as long as the handler is. */
  end(end: RunEnd, cleanUp?: () => Promise<unknown>): void {
    if (this.#phase === "ending" || this.#phase === "over") return;
    this.#end = end;
    this.#phase = "ending";
    this.#cutShort = [...this.#underWay];
    this.#interrupt();
    this.#cleanUp = cleanUp?.();
    this.#after(this.parts.stopGrace, () => {
      this.parts.log.warn("the handler did not end in time and was left behind", { reason: end.reason });
      this.#force();
    });
  }

  /** From now on nothing of this run is stored: someone else has decided what becomes of the job. */
  fence(): () => void {
    const before = this.#phase;
    this.#phase = "over";
    return () => {
      this.#phase = before;
    };
  }

  /** Leaves the handler behind, after `fence`. */
  abandon(end: RunEnd): void {
    this.#phase = "over";
    this.#end ??= end;
    this.#interrupt();
    this.#force();
  }

  /** Lets no further call through; resolves once no step is under way and nothing is being stored. */
  freeze(): Promise<void> {
    if (this.#phase === "live") this.#phase = "frozen";
    return new Promise((resolve) => {
      this.#onQuiet = resolve;
      this.#tellIfQuiet();
    });
  }

  /** Stores something of this run. While the store cannot write, it waits: the next attempt may succeed. */
  async write<T>(work: (unit: Unit) => Promise<T>): Promise<T> {
    this.#writes++;
    // What was let through before the end goes with it, also where the store has to be asked again.
    let isLetThrough = false;
    try {
      for (let pause = 100; ; pause = Math.min(pause * 2, 5000)) {
        try {
          return await this.parts.ledger.write((unit) => {
            if (this.#phase === "over" || (this.#isSealed && !isLetThrough)) throw this.#endedError();
            isLetThrough = true;
            return work(unit);
          });
        } catch (error) {
          if (!isServiceError(error) || error.type !== "storage_error") throw error;
          if (this.#phase === "over") throw this.#endedError();
          this.parts.log.warn("the store cannot write; the run waits", { error: error.message });
          await delay(pause, undefined, { ref: false });
        }
      }
    } finally {
      this.#writes--;
      this.#restIfIdle();
      this.#tellIfQuiet();
    }
  }

  /** Settles as `work` does, or rejects as soon as the run ends. */
  orEnd<T>(work: () => T | Promise<T>): T | Promise<T> {
    if (this.#isToldToEnd) return Promise.reject(this.#endedError());
    let pending: T | Promise<T>;
    try {
      pending = work();
    } catch (error) {
      return Promise.reject(this.#isToldToEnd ? this.#endedError() : error);
    }
    if (!this.#isToldToEnd && !isThenable(pending)) return pending;
    return new Promise<T>((resolve, reject) => {
      // The work may have told it to.
      if (this.#isToldToEnd) reject(this.#endedError());
      this.#interrupts.add(reject);
      Promise.resolve(pending)
        .then(resolve, reject)
        .finally(() => this.#interrupts.delete(reject));
    });
  }

  /** Waits for something outside of this process: another job may have this one's place meanwhile. */
  async wait<T>(work: () => Promise<T>): Promise<T> {
    this.#waits++;
    this.#restIfIdle();
    try {
      return await this.orEnd(work);
    } finally {
      this.#waits--;
      if (this.#phase === "live" || this.#phase === "frozen") await this.#goOn();
    }
  }

  /** The steps whose functions run now, as entries of the log would tell it. */
  runningSteps(): BegunEntry[] {
    return [...this.#underWay]
      .filter(({ call, startedAt }) => call.kind === "step" && startedAt !== "")
      .map(({ call, attempt, startedAt }) => ({
        type: "begun",
        at: startedAt,
        call: "step",
        ...call.fields,
        attempt,
      }));
  }

  /** Counts a step as under way until `done`: at once, or when the run has its place again. */
  begin(step: StepUnderWay): Promise<void> | undefined {
    if (!this.parts.place.isHeld) return this.#goOn().then(() => this.#beginAgain(step));
    this.#underWay.add(step);
    return undefined;
  }

  /** The step is over. */
  done(step: StepUnderWay): void {
    this.#underWay.delete(step);
    this.#restIfIdle();
    this.#tellIfQuiet();
  }

  /** Calls a step's function: what it calls of the run can be told from what is called beside it. */
  inside<I, T>(step: StepUnderWay, fn: (info: I) => T, info: I): T {
    const { insides } = this.parts;
    this.#calling = step;
    try {
      return insides ? insides.run(step, fn, info) : fn(info);
    } finally {
      this.#calling = undefined;
    }
  }

  /** The step in whose function this is called, as far as that is known. */
  get enclosing(): StepUnderWay | undefined {
    if (this.#calling) return this.#calling;
    const step = this.parts.insides?.getStore();
    return step && this.#underWay.has(step) ? step : undefined;
  }

  /** Counts the cost of a step once, together with its record: the end of the run may be stored right behind it. */
  account(step: StepUnderWay): void {
    if (step.isRecorded) return;
    step.isRecorded = true;
    this.limits.settle(step.cost);
  }

  /** A timer of this run, called off when the run is over. */
  after(milliseconds: number, fn: () => void): () => void {
    return this.#after(milliseconds, fn);
  }

  /** An operator has taken a case's question away: the handler is told so, unless the run ends first. */
  async withdraw(caseId: string, message: string): Promise<void> {
    await this.questions.withdraw(caseId, message).catch((error: unknown) => {
      if (!this.isSealed) throw error;
    });
  }

  async #finish(outcome: Outcome): Promise<void> {
    this.#isFinishing = true;
    const { parts } = this;
    const { ahead, passedOver } = this.deliveries.notMade();
    if (passedOver.length > 0) {
      const calls = passedOver.slice(0, 20).map(({ label }) => label);
      parts.log.warn("the handler no longer makes calls that are recorded", { calls });
    }
    const ending = toEnding(outcome, this.#end, { redact: parts.redact, leftOver: ahead[0] });
    if (!this.#end && this.#underWay.size > 0) {
      this.#cutShort = [...this.#underWay];
      const steps = this.#cutShort.map(({ name }) => name);
      parts.log.warn("the handler ended before steps that it had begun", { steps });
    }
    let cutShort: StepUnderWay[] | undefined;
    await this.write(async (unit) => {
      this.#isSealed = true;
      // Results that were on their way when the run was told to end are recorded by now.
      cutShort ??= this.#cutShort.filter((step) => !step.isRecorded);
      for (const step of cutShort) {
        const { call, attempt, cost } = step;
        const error = "The run ended before it did";
        await unit.record(parts.jobId, {
          type: "attempt",
          ...call.fields,
          ...(call.kind === "ask" && { call: call.kind }),
          ...{ attempt, error },
          ...(cost > 0 && { cost }),
        });
        // It was spent, whatever the step was about to give.
        this.account(step);
      }
      await endCases(unit, this.openCases, ending.cases);
      await endJob(unit, parts.jobId, ending.to, (job) => ({
        total_cost: this.limits.spent,
        ...ending.patch(job),
      }));
    });
    this.#phase = "over";
    if (ending.to !== "completed") {
      parts.log.warn(`job ${ending.to}`, { reason: ending.reason, problem: ending.message });
    }
  }

  /** Nothing is left running of this run but what the handler itself may still do. */
  #leave(): void {
    this.#phase = "over";
    for (const stop of this.#timers) stop();
    this.#timers.clear();
    this.#stopTimeout?.();
    // Calls that the handler left behind without waiting for them.
    if (this.#interrupts.size > 0) this.#interrupt();
    else this.deliveries.refuse(this.#endedError());
    this.parts.place.leave();
    this.#tellIfQuiet();
  }

  get #isToldToEnd(): boolean {
    return this.#phase === "ending" || this.#phase === "over";
  }

  #interrupt(): void {
    const error = this.#endedError();
    this.#interruptedBy ??= error;
    if (this.#controller && !this.signal.aborted) this.#controller.abort(error);
    for (const interrupt of [...this.#interrupts]) interrupt(error);
    this.#interrupts.clear();
    this.deliveries.refuse(error);
  }

  #endedError(): RunEndedError {
    return new RunEndedError(
      this.#end ?? { to: "cancelled", reason: "stopped", message: "The run is over: the job has ended" },
    );
  }

  #tellIfQuiet(): void {
    if (this.#phase === "live" || this.#phase === "ending") return;
    if (this.#phase === "frozen" && (this.#underWay.size > 0 || this.#writes > 0)) return;
    this.#onQuiet?.();
  }

  #restIfIdle(): void {
    if (this.#waits === 0 || this.#underWay.size > 0 || this.#writes > 0) return;
    this.parts.place.release();
    this.#pauseTimeout();
  }

  async #beginAgain(step: StepUnderWay): Promise<void> {
    await this.gate();
    await this.begin(step);
  }

  async #goOn(): Promise<void> {
    await this.orEnd(() => this.parts.place.retake());
    this.#resumeTimeout();
  }

  #watchDuration(): void {
    const left = this.limits.timeLeft();
    if (left === undefined) return;
    this.#after(left, () => {
      const end = this.limits.duration();
      // The clock may be behind the timer by a moment.
      return end ? this.end(end) : this.#watchDuration();
    });
  }

  #resumeTimeout(): void {
    const { timeout } = this.parts;
    if (timeout === undefined || this.#workingSince !== undefined) return;
    this.#workingSince = performance.now();
    this.#stopTimeout = startTimer(timeout - this.#workedBefore, () => {
      const message = `The job has worked for ${timeout / 1000} s, the time limit of its method`;
      this.end({ to: "failed", reason: "timeout", message });
    });
  }

  #pauseTimeout(): void {
    if (this.#workingSince === undefined) return;
    this.#stopTimeout?.();
    this.#workedBefore += performance.now() - this.#workingSince;
    this.#workingSince = undefined;
  }

  #after(milliseconds: number, fn: () => void): () => void {
    const stop = startTimer(milliseconds, () => {
      this.#timers.delete(stop);
      try {
        fn();
      } catch (error) {
        this.parts.log.error("a timer of the run failed", { error: messageOf(error) });
      }
    });
    this.#timers.add(stop);
    return () => {
      this.#timers.delete(stop);
      stop();
    };
  }
}

function mismatch(expected: Call, found: Call | undefined): RunEnd {
  const now = found ? `now makes ${found.label}` : "has not made the calls of that name before it";
  const message = `The record goes on with ${expected.label}, and the handler ${now}: it must make the same calls in the same order, and none inside a step's function. Retry the job from the start, or bring the former code back`;
  return { to: "failed", reason: "nondeterministic", message };
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

async function call<T>(fn: () => T | Promise<T>): Promise<T> {
  return fn();
}
