import type { AsyncLocalStorage } from "node:async_hooks";
import type { Reported } from "../../agents/step-report.ts";
import type { StepKind } from "../../models/model-use.ts";
import type { BegunEntry } from "../../models/run-entry.ts";
import type { Place } from "../queue/scheduler.ts";
import type { Call } from "./call.ts";
import type { RunClock } from "./run-clock.ts";
import type { RunPhase } from "./run-phase.ts";
import type { Wait } from "./suspension.ts";

/** A step under way. */
export interface StepUnderWay {
  readonly call: Call;
  readonly name: string;
  readonly attempt: number;
  /** What is set aside for it. */
  readonly cost: number;
  readonly kind?: StepKind | undefined;
  /** What its function has reported; what comes after its record does not count. */
  reported?: Reported;
  /** When its function was called; empty before that. */
  startedAt: string;
  /** Whether what became of it is on its way into the store, and its cost was counted. */
  isRecorded: boolean;
  /** Whether what its function does is known to be done in it, wherever that is; nothing before it was called. */
  isFollowed?: boolean | undefined;
}

/** What an attempt costs, as far as is known. */
export function costOf({ cost, reported }: StepUnderWay): number {
  return reported?.cost ?? cost;
}

/** Gets what a run is doing: a step, its handler (`undefined`), or nothing, as it only waits (`null`). A step waits for the result. */
export type Doing = (what: string | null | undefined) => Promise<void> | undefined;

interface ActivityParts {
  readonly place: Place;
  readonly phase: RunPhase;
  readonly clock: RunClock;
  /** Knows the step in whose function something is done, where that is worth its cost. */
  readonly insides: AsyncLocalStorage<StepUnderWay> | undefined;
  readonly isStrict: boolean;
  readonly follows: boolean;
  /** Called when a step or a write is over. */
  readonly onChange: () => void;
  /** Called when the run only waits, and when it works again. */
  readonly onRest: () => void;
  readonly onWork: () => void;
  /** Is notified what the run is doing, if that must be known after a crash. */
  readonly doing?: Doing | undefined;
}

/**
 * What a run is doing now: its steps, its writes, and its waits. While it only waits, another job may use its
 * slot, and its working time is paused.
 */
export class Activity {
  readonly #parts: ActivityParts;
  readonly #steps = new Set<StepUnderWay>();
  /** The step whose function is being called, until that returns or waits for the first time. */
  #calling: StepUnderWay | undefined;
  readonly #waits = new Set<Wait>();
  #writes = 0;
  #onWritten: (() => void) | undefined;
  /** Reasons that other parts of the run have to keep it busy. */
  #busy = 0;
  #follows: boolean;
  /** Steps that were followed: what a run does may be done in a step of another one, which has started it. */
  readonly #followed = new WeakSet<StepUnderWay>();
  /** Whether a function that was not followed may still run, although its step is over. */
  #isLeftBehind = false;

  constructor(parts: ActivityParts) {
    this.#parts = parts;
    this.#follows = parts.follows;
  }

  /** Steps under way. */
  get steps(): StepUnderWay[] {
    return [...this.#steps];
  }

  /** What its calls wait for outside of this process. */
  get waits(): ReadonlySet<Wait> {
    return this.#waits;
  }

  /** Whether no step is under way, or may be in another process, and nothing is being stored. */
  get isQuiet(): boolean {
    return this.#steps.size === 0 && this.#writes === 0 && this.#busy === 0;
  }

  /** The step in whose function this is called, as far as that is known. */
  get enclosing(): StepUnderWay | undefined {
    if (this.#calling) return this.#calling;
    const step = this.#parts.isStrict ? this.#parts.insides?.getStore() : undefined;
    return step && this.#steps.has(step) ? step : undefined;
  }

  /** Whether this is called in a step's function; nothing where it may be, as such a function runs that is not followed. */
  get isInStep(): boolean | undefined {
    if (this.#calling) return true;
    const step = this.#parts.insides?.getStore();
    if (step && this.#followed.has(step)) return true;
    for (const { isFollowed } of this.#steps) if (isFollowed === false) return undefined;
    return this.#isLeftBehind ? undefined : false;
  }

  /** Follows the functions of steps that are called from now on. */
  follow(): void {
    this.#follows = true;
  }

  get isFollowing(): boolean {
    return this.#follows;
  }

  /** A step is over whose function still runs. */
  leaveBehind({ isFollowed }: StepUnderWay): void {
    if (isFollowed === false) this.#isLeftBehind = true;
  }

  /** Counts a step as in progress until `done`: immediately, or when the run has its slot again and its beginning is noted. */
  begin(step: StepUnderWay): Promise<void> | undefined {
    if (!this.#parts.place.isHeld) return this.#goOn().then(() => this.#beginAgain(step));
    this.#steps.add(step);
    return this.#tellDoing()?.catch((error: unknown) => {
      this.done(step);
      throw error;
    });
  }

  /** The step is over. */
  done(step: StepUnderWay): void {
    this.#steps.delete(step);
    void this.#tellDoing()?.catch(() => {});
    this.#changed();
  }

  /** Calls a step's function: its calls can be distinguished from concurrent ones. */
  inside<I, T>(step: StepUnderWay, fn: (info: I) => T, info: I): T {
    const { insides } = this.#parts;
    this.#calling = step;
    step.isFollowed = this.#follows;
    try {
      if (!this.#follows || !insides) return fn(info);
      this.#followed.add(step);
      return insides.run(step, fn, info);
    } finally {
      this.#calling = undefined;
    }
  }

  /** Counts the run as busy until the result is called. */
  keepBusy(): () => void {
    this.#busy++;
    return () => {
      this.#busy--;
      this.#changed();
    };
  }

  beginWrite(): void {
    this.#writes++;
  }

  endWrite(): void {
    this.#writes--;
    if (this.#writes === 0) this.#onWritten?.();
    this.#changed();
  }

  /** Resolves once nothing is being stored. */
  written(): Promise<void> | undefined {
    if (this.#writes === 0) return undefined;
    return new Promise((resolve) => {
      this.#onWritten = resolve;
    });
  }

  /** Waits for something outside of this process: another job may have this one's place meanwhile. */
  async wait<T>(work: () => Promise<T>, wait: Wait): Promise<T> {
    const { phase } = this.#parts;
    this.#waits.add(wait);
    this.restIfIdle();
    try {
      return await phase.orEnd(work);
    } finally {
      this.#waits.delete(wait);
      if (!phase.isToldToEnd) await this.#goOn();
    }
  }

  /** The steps whose functions run now, as entries of the log would tell it. */
  runningSteps(): BegunEntry[] {
    return this.steps
      .filter(({ call, startedAt }) => call.kind === "step" && startedAt !== "")
      .map(({ call, attempt, startedAt }) => ({
        type: "begun",
        at: startedAt,
        call: "step",
        ...call.fields,
        attempt,
      }));
  }

  /** The step that was started last: which of several ends the process is not known. */
  #tellDoing(): Promise<void> | undefined {
    const { doing } = this.#parts;
    if (!doing) return undefined;
    const call = this.steps.at(-1)?.call;
    return doing(call && (call.kind === "ask" ? `human_answer after ${call.label}` : call.label));
  }

  /** Gives the place up where the run only waits. */
  restIfIdle(): void {
    if (this.#waits.size === 0 || !this.isQuiet) return;
    this.#parts.place.release();
    this.#parts.clock.pause();
    this.#parts.onRest();
    void this.#parts.doing?.(null)?.catch(() => {});
  }

  #changed(): void {
    this.restIfIdle();
    this.#parts.onChange();
  }

  async #beginAgain(step: StepUnderWay): Promise<void> {
    await this.#parts.phase.gate();
    await this.begin(step);
  }

  async #goOn(): Promise<void> {
    const { phase, place, clock } = this.#parts;
    await phase.orEnd(() => place.retake());
    clock.resume();
    this.#parts.onWork();
  }
}
