import { Mutex } from "../../base/mutex.ts";

/** Lets one transaction at a time read and stage its writes. */
export class Turns extends Mutex {
  readonly #patience: number;
  #abort: (error: Error) => void = () => {};
  #timer: NodeJS.Timeout | undefined;

  /** `patience` is how many milliseconds a transaction may hold up others before it is made to fail. */
  constructor(patience: number) {
    super();
    this.#patience = patience;
  }

  /** Takes the turn, or waits for it: synchronously if it is free. `abort` is called when the holder kept others waiting for too long. */
  take(abort: (error: Error) => void): Promise<void> | undefined {
    const turn = this.enter();
    if (turn === undefined) {
      this.#abort = abort;
      return undefined;
    }
    this.#watch();
    return turn.then(() => {
      this.#abort = abort;
    });
  }

  release(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    this.leave();
    if (this.waiting > 0) this.#watch();
  }

  #watch(): void {
    this.#timer ??= setTimeout(() => {
      this.#abort(new Error(`a transaction blocked other writers for ${this.#patience / 1000} s`));
    }, this.#patience).unref();
  }
}
