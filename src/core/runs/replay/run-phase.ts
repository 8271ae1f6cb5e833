import { type RunEnd, RunEndedError } from "./run-errors.ts";

/**
 * Phase of a run: `live`; `ending`, after a limit or a stop; `frozen`, while the service closes; `over`, when
 * nothing that the handler still does counts; `suspended`, when the run has left memory: nothing happens any longer for
 * what is left of the handler, because it must not mistake that for the end of the job.
 */
type Phase = "live" | "ending" | "frozen" | "over" | "suspended";

/** The phase of a run, and how pending waits of its handler learn that the run must end. */
export class RunPhase {
  #phase: Phase = "live";
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

  get isOver(): boolean {
    return this.#phase === "over" || this.#phase === "suspended";
  }

  get isSuspended(): boolean {
    return this.#phase === "suspended";
  }

  /** Whether the handler's calls are let through, and nobody is about to end the run. */
  get isLive(): boolean {
    return this.#phase === "live" && this.#fence === undefined;
  }

  get isFrozen(): boolean {
    return this.#phase === "frozen";
  }

  /** Whether the run was asked to end, or has ended. */
  get isToldToEnd(): boolean {
    return this.#phase === "ending" || this.#phase === "over";
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

  /**
   * Waits until the handler's next call may continue: indefinitely while the service closes; rejects once the
   * run ends.
   */
  gate(): Promise<void> | undefined {
    if (this.#fence) return this.#fence.then(() => this.gate());
    if (this.#phase === "live") return undefined;
    if (this.#phase === "frozen") return new Promise(() => {});
    return Promise.reject(this.error);
  }

  /** Tells the run to end: the first reason counts. Says whether this was the first. */
  tellToEnd(end: RunEnd): boolean {
    if (this.isToldToEnd || this.isSuspended) return false;
    this.#end = end;
    this.#phase = "ending";
    return true;
  }

  /** Lets no further call through. */
  freeze(): void {
    if (this.#phase === "live") this.#phase = "frozen";
  }

  /** The run has left memory. */
  suspend(): void {
    this.#phase = "suspended";
  }

  /** The run is over, and `end` is why, where nothing else was before. */
  close(end?: RunEnd): void {
    if (this.isSuspended) return;
    this.#phase = "over";
    this.#end ??= end;
  }

  /** While somebody decides what becomes of the job: settles once that is stored, or was not. */
  get fence(): Promise<void> | undefined {
    return this.#fence;
  }

  /** Holds the run up until the result is called. */
  raiseFence(): () => void {
    let lift = () => {};
    this.#fence = new Promise((resolve) => {
      lift = () => {
        this.#fence = undefined;
        resolve();
      };
    });
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
    if (this.isSuspended) return new Promise(() => {});
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
