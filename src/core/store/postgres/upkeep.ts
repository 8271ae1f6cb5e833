import type { IndexValues } from "./index-values.ts";
import type { TalliedTables } from "./tallied-tables.ts";

/** As many searches for what older code has written are between two for hours that are over. */
const TALLY = 12;

interface UpkeepParts {
  readonly indexValues: IndexValues;
  readonly tallied: TalliedTables;
  /** Milliseconds between two searches. */
  readonly every: number;
}

/** Looks again and again for what older code has written, and for hours that are over. */
export class Upkeep {
  readonly #parts: UpkeepParts;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(parts: UpkeepParts) {
    this.#parts = parts;
  }

  /** Brings everything up to date. */
  async update(): Promise<void> {
    await this.#parts.indexValues.update();
    await this.#parts.tallied.read();
  }

  /** Looks for more from now on. */
  watch(looks = 0): void {
    this.#timer = setTimeout(() => {
      // What keeps it from looking is reported where it matters; it looks again.
      void this.#look(looks)
        .catch(() => {})
        .finally(() => !this.#isStopped && this.watch(looks + 1));
    }, this.#parts.every).unref();
  }

  async #look(looks: number): Promise<void> {
    if (looks % TALLY === 0) await this.#parts.tallied.count();
    await this.#parts.indexValues.updateOlder();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }
}
