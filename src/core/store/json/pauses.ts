/** Lets other work run after so many steps of a long piece of work. */
export class Pauses {
  readonly #every: number;
  #steps = 0;

  constructor(every: number) {
    this.#every = every;
  }

  /**
   * Counts steps; returns whether a pause is due. A check costs nothing, unlike awaiting a promise at each
   * step.
   */
  isDue(steps: number): boolean {
    this.#steps += steps;
    return this.#steps >= this.#every;
  }

  async take(): Promise<void> {
    this.#steps = 0;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
