import type { AsyncLocalStorage } from "node:async_hooks";
import type { BegunEntry } from "../../models/run-entry.ts";
import type { Slot } from "../queue/slot.ts";
import type { RunClock } from "./run-clock.ts";
import type { RunLife } from "./run-life.ts";
import type { StepUnderWay } from "./step-under-way.ts";
import type { Wait } from "./wait.ts";

/** Gets what a run is doing: a step, its handler (`undefined`), or nothing, as it only waits (`null`). A step waits for the result. */
export type Doing = (what: string | null | undefined) => Promise<void> | undefined;

/** What its activity needs of a run. */
interface ActiveRun {
  readonly life: RunLife;
  readonly clock: RunClock;
  /** Its handler waits for `open` calls; nothing while the handler is about to do something. */
  readonly gate: { readonly open: number | undefined };
  readonly parts: {
    readonly slot: Slot;
    /** Knows the step in whose function something is done, where that is worth its cost. */
    readonly insides?: AsyncLocalStorage<StepUnderWay> | undefined;
    readonly isStrict?: boolean | undefined;
    /** Called when the handler has read something, which was not known of it. */
    readonly onRead?: (() => void) | undefined;
    /** Is notified what the run is doing, if that must be known after a crash. */
    readonly doing?: Doing | undefined;
  };
  /** How it leaves memory, where it does. */
  readonly suspension: { resumed(): void } | undefined;
  /** The run only waits. */
  rested(): void;
  /** A step or a write is over. */
  activityChanged(): void;
}

/**
 * What a run is doing now: its steps, its writes, and its waits. While the run only waits, another job may use its
 * slot, and its working time is paused.
 */
export class Activity {
  readonly #run: ActiveRun;
  readonly #steps = new Set<StepUnderWay>();
  /** The step whose function is being called, until that returns or waits for the first time. */
  #calling: StepUnderWay | undefined;
  readonly #waits = new Set<Wait>();
  #writes = 0;
  #onWritten: (() => void) | undefined;
  /** Reasons that other parts of the run have to keep it busy. */
  #busy = 0;
  #follows: boolean;
  /** Whether a function that was not followed may still run, although its step is over. */
  #isLeftBehind = false;

  /** `follows` says whether the functions of steps are followed from the beginning. */
  constructor(run: ActiveRun, follows: boolean) {
    this.#run = run;
    this.#follows = follows;
  }

  /** Steps under way. */
  get steps(): StepUnderWay[] {
    return [...this.#steps];
  }

  /** What the handler's calls wait for outside of this process. */
  get waits(): ReadonlySet<Wait> {
    return this.#waits;
  }

  /** Whether no step is under way, or may be in another process, and nothing is being stored. */
  get isQuiet(): boolean {
    return this.#steps.size === 0 && this.#writes === 0 && this.#busy === 0;
  }

  /** Whether the handler only waits, each of its calls for something outside of the process. */
  get onlyWaits(): boolean {
    return this.#run.life.isLive && this.isQuiet && this.allWait;
  }

  /** Whether each call of the handler waits for something outside of the process. */
  get allWait(): boolean {
    const { size } = this.#waits;
    return size > 0 && this.#run.gate.open === size;
  }

  /** The step in whose function this is called, as far as that is known. */
  get enclosing(): StepUnderWay | undefined {
    if (this.#calling) return this.#calling;
    const { isStrict, insides } = this.#run.parts;
    const step = isStrict ? insides?.getStore() : undefined;
    return step && this.#steps.has(step) ? step : undefined;
  }

  /**
   * Whether the handler reads something in a step's function; nothing where that is not known. To follow steps makes every
   * promise cost more, so that is only done in runs that read.
   */
  get readsInStep(): boolean | undefined {
    const isInStep = this.#isInStep();
    if (!this.#follows) {
      this.#follows = true;
      this.#run.parts.onRead?.();
    }
    return isInStep;
  }

  /** Whether this is called in a step's function; nothing where it may be, as such a function runs that is not followed. */
  #isInStep(): boolean | undefined {
    if (this.#calling) return true;
    // What a run does may be done in a step of another run, which has started its job.
    if (this.#run.parts.insides?.getStore()?.followedBy === this) return true;
    for (const { followedBy } of this.#steps) if (followedBy === null) return undefined;
    return this.#isLeftBehind ? undefined : false;
  }

  /** A step is over whose function still runs. */
  leaveBehind({ followedBy }: StepUnderWay): void {
    if (followedBy === null) this.#isLeftBehind = true;
  }

  /** Counts a step as in progress until `done`: immediately, or when the run has its slot again and its beginning is noted. */
  begin(step: StepUnderWay): Promise<void> | undefined {
    if (!this.#run.parts.slot.isHeld) return this.#resume().then(() => this.#beginAgain(step));
    this.#steps.add(step);
    if (!this.#run.parts.doing) return undefined;
    return this.#noteDoing()?.catch((error: unknown) => {
      this.done(step);
      throw error;
    });
  }

  /** The step is over. */
  done(step: StepUnderWay): void {
    this.#steps.delete(step);
    if (this.#run.parts.doing) void this.#noteDoing()?.catch(() => {});
    this.#changed();
  }

  /** Calls a step's function: the calls that it makes can be distinguished from concurrent ones. */
  inside<I, T>(step: StepUnderWay, fn: (info: I) => T, info: I): T {
    const { insides } = this.#run.parts;
    const follows = this.#follows && insides !== undefined;
    this.#calling = step;
    step.followedBy = follows ? this : null;
    try {
      return follows ? insides.run(step, fn, info) : fn(info);
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

  /**
   * Waits for something durable outside of this process: another job may have this one's slot meanwhile, and the run may
   * leave memory. A unit that stores what is waited for makes the job due (`wakeJob`).
   */
  async wait<T>(
    work: () => Promise<T>,
    { for: what, end, isOpen }: Pick<Wait, "for"> & Pick<Partial<Wait>, "end" | "isOpen">,
  ): Promise<T> {
    const { life } = this.#run;
    const wait: Wait = { for: what, end, since: performance.now(), isOpen };
    this.#waits.add(wait);
    this.restIfIdle();
    try {
      return await life.orEnd(work);
    } finally {
      this.#waits.delete(wait);
      if (!life.isToldToEnd) await this.#resume();
    }
  }

  /** The steps whose functions run now, as entries of the log would report them. */
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

  /** Notes the step that was started last: which of several ends the process is not known. */
  #noteDoing(): Promise<void> | undefined {
    const { doing } = this.#run.parts;
    if (!doing) return undefined;
    const call = this.steps.at(-1)?.call;
    return doing(call && (call.kind === "ask" ? `human_answer after ${call.label}` : call.label));
  }

  /** Gives the slot up where the run only waits. */
  restIfIdle(): void {
    if (this.#waits.size === 0 || !this.isQuiet) return;
    const { clock, parts } = this.#run;
    parts.slot.release();
    clock.pause();
    this.#run.rested();
    void parts.doing?.(null)?.catch(() => {});
  }

  #changed(): void {
    this.restIfIdle();
    this.#run.activityChanged();
  }

  async #beginAgain(step: StepUnderWay): Promise<void> {
    await this.#run.life.whenLive();
    await this.begin(step);
  }

  async #resume(): Promise<void> {
    const { life, clock, parts, suspension } = this.#run;
    await life.orEnd(() => parts.slot.retake());
    clock.resume();
    suspension?.resumed();
  }
}
