/** Lets one at a time do something, in the order in which they entered. */
export class Mutex {
  #isHeld = false;
  readonly #waiting: (() => void)[] = [];
  readonly #onIdle: (() => void)[] = [];

  get isIdle(): boolean {
    return !this.#isHeld;
  }

  /** How many have entered whose turn has not come. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Enters; the result resolves when all who entered before have left, and is undefined if nobody has. */
  enter(): Promise<void> | undefined {
    if (this.#isHeld) return new Promise((resolve) => this.#waiting.push(resolve));
    this.#isHeld = true;
    return undefined;
  }

  /** Leaves, once for each time of entering; with what `enter` returned, also before its turn. */
  leave(turn?: Promise<void>): void {
    if (turn) {
      void turn.then(() => this.leave());
      return;
    }
    const next = this.#waiting.shift();
    if (next) {
      // Without a moment in which a newcomer could slip in.
      next();
      return;
    }
    this.#isHeld = false;
    for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    await this.enter();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }

  /** Resolves once nobody is in it. */
  async idle(): Promise<void> {
    if (this.#isHeld) await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }
}
