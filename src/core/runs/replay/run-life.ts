import { type RunEnd, RunEndedError } from "./run-errors.ts";
import { RUN_MOVES, type RunMove, type RunState } from "./run-state.ts";

/** The state of a run, and how what its handler waits for learns that the run must end. */
export class RunLife {
  /** Changed by `move` alone. */
  readonly state: RunState = "starting";
  #end: RunEnd | undefined;
  #fence: Promise<void> | undefined;
  /** Made when somebody asks for the signal: most handlers never do. */
  #controller: AbortController | undefined;
  #interruptedBy: Error | undefined;
  /** Called with the reason when the run ends: what the handler waits for rejects. */
  readonly #interrupts = new Set<(error: Error) => void>();

  /** Why the run was asked to end. */
  get end(): RunEnd | undefined {
    return this.#end;
  }

  /** Whether nothing that the handler still does counts. */
  get isOver(): boolean {
    return this.state === "over" || this.state === "suspended";
  }

  /** Whether nothing more of the run is stored: its end is, or is on its way into the store. */
  get isSealed(): boolean {
    return this.state === "finishing" || this.isOver;
  }

  /** Whether the handler's calls are let through, and nobody is about to end the run. */
  get isLive(): boolean {
    return this.state === "live" && this.#fence === undefined;
  }

  /** Whether the run was asked to end, or has ended. */
  get isToldToEnd(): boolean {
    return this.#end !== undefined || this.state === "over";
  }

  /** Whether the signal has fired. */
  get isInterrupted(): boolean {
    return this.#interruptedBy !== undefined;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#interruptedBy) this.#controller.abort(this.#interruptedBy);
    }
    return this.#controller.signal;
  }

  /** What calls of the run reject with once it ends. */
  get error(): RunEndedError {
    return new RunEndedError(
      this.#end ?? { to: "cancelled", reason: "stopped", message: "The run has ended: the job is finished" },
    );
  }

  may(move: RunMove): boolean {
    return RUN_MOVES[this.state][move] !== undefined;
  }

  /** Moves the run to another state; throws where the table has no such move. */
  move(move: RunMove): void {
    const to = RUN_MOVES[this.state][move];
    if (to === undefined) throw new Error(`A run that is ${this.state} cannot ${move}`);
    (this as { state: RunState }).state = to;
  }

  /** Asks the run to end. Returns false where it was asked before, or is over: the first reason counts. */
  askToEnd(end: RunEnd): boolean {
    if (this.#end !== undefined || this.isOver) return false;
    this.move("end");
    this.#end = end;
    return true;
  }

  /** The run is over, and `end` is why, where nothing else was before; a suspended one stays suspended. */
  close(end?: RunEnd): void {
    if (this.state === "suspended") return;
    this.move("close");
    this.#end ??= end;
  }

  /** Waits until the handler's next call may continue: indefinitely while the service closes; rejects once the run ends. */
  whenLive(): Promise<void> | undefined {
    if (this.#fence) return this.#fence.then(() => this.whenLive());
    if (this.state === "live") return undefined;
    if (this.state === "frozen") return new Promise(() => {});
    return Promise.reject(this.error);
  }

  /** While somebody decides what becomes of the job: settles once that is stored, or was not. */
  get fence(): Promise<void> | undefined {
    return this.#fence;
  }

  /** Holds the run up until the result is called. */
  raiseFence(): () => void {
    let lift = () => {};
    const fence = new Promise<void>((resolve) => {
      lift = () => {
        if (this.#fence === fence) this.#fence = undefined;
        resolve();
      };
    });
    this.#fence = fence;
    return lift;
  }

  /** Fires the signal and rejects what the handler waits for. */
  interrupt(): Error {
    const { error } = this;
    this.#interruptedBy ??= error;
    if (this.#controller && !this.signal.aborted) this.#controller.abort(error);
    for (const interrupt of [...this.#interrupts]) interrupt(error);
    this.#interrupts.clear();
    return error;
  }

  /** The handler is gone: rejects what it left behind. Most leave nothing: an error costs as much as a step. */
  interruptRest(): () => Error {
    if (this.#interrupts.size === 0) return () => this.error;
    const error = this.interrupt();
    return () => error;
  }

  /** Settles as `work` does, or rejects as soon as the run ends. */
  orEnd<T>(work: () => T | Promise<T>): T | Promise<T> {
    if (this.state === "suspended") return new Promise(() => {});
    if (this.isToldToEnd) return Promise.reject(this.error);
    let pending: T | Promise<T>;
    try {
      pending = work();
    } catch (error) {
      return Promise.reject(this.isToldToEnd ? this.error : error);
    }
    if (!this.isToldToEnd && !isThenable(pending)) return pending;
    return new Promise<T>((resolve, reject) => {
      // The work may have asked it to.
      if (this.isToldToEnd) reject(this.error);
      this.#interrupts.add(reject);
      Promise.resolve(pending)
        .then(resolve, reject)
        .finally(() => this.#interrupts.delete(reject));
    });
  }
}

function isThenable<T>(value: T | Promise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}
