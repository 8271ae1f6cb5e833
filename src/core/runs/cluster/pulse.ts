interface PulseParts {
  /** Stores a sign of life; rejects where the store cannot. */
  readonly give: () => Promise<void>;
  /** Milliseconds between two signs of life, and before one that failed is repeated. */
  readonly beat: number;
  readonly retry: number;
  /** Called with the first failure after a success. */
  readonly onFailure: (error: unknown) => void;
}

/** Signs of life, one after another: one that fails is repeated right away, until one is stored. */
export class Pulse {
  readonly #parts: PulseParts;
  #timer: NodeJS.Timeout | undefined;
  /** What is under way; it does not reject. */
  #giving: Promise<void> | undefined;
  #isFailing = false;
  #isOver = false;

  constructor(parts: PulseParts) {
    this.#parts = parts;
  }

  /** Resolves with the first one; the others follow. */
  async start(): Promise<void> {
    await this.#parts.give();
    this.#wait(this.#parts.beat);
  }

  /** Gives no more, once the present one is over. */
  async stop(): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#timer);
    await this.#giving;
  }

  #wait(milliseconds: number): void {
    if (this.#isOver) return;
    this.#timer = setTimeout(() => {
      this.#giving = this.#next();
    }, milliseconds).unref();
  }

  async #next(): Promise<void> {
    const { give, beat, retry, onFailure } = this.#parts;
    try {
      await give();
      this.#isFailing = false;
      this.#wait(beat);
    } catch (error) {
      if (!this.#isOver && !this.#isFailing) onFailure(error);
      this.#isFailing = true;
      this.#wait(retry);
    }
  }
}
