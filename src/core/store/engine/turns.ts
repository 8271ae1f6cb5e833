/** Lets one transaction at a time read and stage its writes; the others wait in order. */
export class Turns {
  readonly #patience: number;
  #holder: ((error: Error) => void) | undefined;
  #waiting: (() => void)[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** `patience` is how many milliseconds a transaction may hold up others before it is made to fail. */
  constructor(patience: number) {
    this.#patience = patience;
  }

  get idle(): boolean {
    return this.#holder === undefined;
  }

  /** Takes the turn, or waits for it: synchronously if it is free. `abort` is called when the holder kept others waiting for too long. */
  take(abort: (error: Error) => void): Promise<void> | undefined {
    if (this.#holder === undefined) {
      this.#holder = abort;
      return undefined;
    }
    this.#watch();
    return new Promise<void>((resolve) => this.#waiting.push(resolve)).then(() => {
      this.#holder = abort;
    });
  }

  release(): void {
    if (this.#timer !== undefined) clearTimeout(this.#timer);
    this.#timer = undefined;
    const next = this.#waiting.shift();
    if (next === undefined) {
      this.#holder = undefined;
      return;
    }
    // The turn passes on without a moment in which a newcomer could slip in.
    next();
    if (this.#waiting.length > 0) this.#watch();
  }

  #watch(): void {
    this.#timer ??= setTimeout(() => {
      this.#holder?.(new Error(`a transaction blocked other writers for ${this.#patience / 1000} s`));
    }, this.#patience).unref();
  }
}
