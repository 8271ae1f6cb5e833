/** A place in a line. */
export interface Place {
  /** Resolves when all before have left; missing if there is nobody. */
  readonly isFirst: Promise<void> | undefined;
  leave(): void;
}

/** A line in which everyone waits for those who came before. */
export class Line {
  #last: Promise<void> | undefined;
  /** Number of those in it. */
  length = 0;
  #whenEmpty: (() => void)[] = [];

  enter(): Place {
    const isFirst = this.#last;
    let go = () => {};
    const left = new Promise<void>((resolve) => {
      go = resolve;
    });
    const both = isFirst === undefined ? left : isFirst.then(() => left);
    this.#last = both;
    this.length++;
    let isIn = true;
    return {
      isFirst,
      leave: () => {
        if (!isIn) return;
        isIn = false;
        this.length--;
        go();
        if (this.#last === both && isFirst === undefined) this.#last = undefined;
        if (this.length > 0) return;
        this.#last = undefined;
        for (const resolve of this.#whenEmpty.splice(0)) resolve();
      },
    };
  }

  async empty(): Promise<void> {
    if (this.length > 0) await new Promise<void>((resolve) => this.#whenEmpty.push(resolve));
  }
}
