/** A process of the test. */
export interface Life {
  /** From 1, in the order of their starts. */
  readonly number: number;
  readonly instance: string;
  /** Which code it has. */
  readonly deploy: number;
  /** When it was started, ISO 8601. */
  readonly from: string;
  /** When and how it was ended, as far as that was noted. */
  ended?: { readonly at: number; readonly how: "kill" | "hand-over" };
}

/** The processes of a test, and what code ran when. */
export class Lives {
  readonly #all: Life[] = [];

  begin(instance: string, deploy: number): Life {
    const life: Life = { number: this.#all.length + 1, instance, deploy, from: new Date().toISOString() };
    this.#all.push(life);
    return life;
  }

  end(instance: string, how: "kill" | "hand-over"): void {
    const life = this.#all.findLast((one) => one.instance === instance);
    if (life) life.ended = { at: Date.now(), how };
  }

  get(number: number): Life | undefined {
    return this.#all[number - 1];
  }

  get first(): Life | undefined {
    return this.#all[0];
  }

  /** The deploys that ran between two times, ISO 8601. An instance has its code until it is started again. */
  deploysBetween(from: string, to: string): ReadonlySet<number> {
    const isThen = (life: Life) => {
      const next = this.#all.find(
        ({ number, instance }) => number > life.number && instance === life.instance,
      );
      return life.from <= to && (next === undefined || next.from >= from);
    };
    return new Set(this.#all.filter(isThen).map(({ deploy }) => deploy));
  }
}
