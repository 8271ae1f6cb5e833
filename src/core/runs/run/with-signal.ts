import type { Run } from "./run.ts";

/**
 * What a handler or a step receives together with the signal of its run, which is created on first use. A
 * property of its own, as in a plain object, so that copies have it; but one getter for all: each object with
 * a getter of its own is a new kind of object to V8, which slows down its readers.
 */
export class WithSignal {
  declare readonly signal: AbortSignal;
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
    Object.defineProperty(this, "signal", WithSignal.#property);
  }

  static readonly #property: PropertyDescriptor & ThisType<WithSignal> = {
    enumerable: true,
    get() {
      return this.#run.signal;
    },
  };
}
