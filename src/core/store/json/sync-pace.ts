/** Milliseconds: if a sync takes less, a single writer blocks for it. */
const QUICK = 1;
/** If it takes less than this, passing it on costs more than to block, however many others would run meanwhile. */
const INSTANT = 0.1;
/** Groups of many writers from one try to block for a sync to the next: twice as many after each that took longer. */
const [FIRST, LAST] = [16, 4096];
/** The weight of a new measurement in the average. */
const WEIGHT = 1 / 4;

/**
 * Whether the disk has recently been so fast that passing a sync to another thread and back would take longer
 * than the sync itself. One that is slow now and then does not count for much.
 */
export class SyncPace {
  #average = Number.POSITIVE_INFINITY;
  /** Whether the last one that blocked was instant. */
  isInstant = false;
  #pause = FIRST;
  #untilTry = FIRST;

  /** Whether to block for the next sync although others could run meanwhile. */
  takesInstant(): boolean {
    if (this.isInstant) return true;
    if (--this.#untilTry > 0) return false;
    this.#untilTry = this.#pause;
    return true;
  }

  get isQuick(): boolean {
    return this.#average < QUICK;
  }

  /** Notes how many milliseconds a sync took. */
  note(milliseconds: number, { onTheSpot }: { onTheSpot: boolean }): void {
    if (onTheSpot) {
      this.isInstant = milliseconds < INSTANT;
      this.#pause = this.isInstant ? FIRST : Math.min(this.#pause * 2, LAST);
    }
    // About half of a sync in another thread is the way there and back.
    const own = onTheSpot ? milliseconds : milliseconds / 2;
    this.#average = Number.isFinite(this.#average) ? this.#average + (own - this.#average) * WEIGHT : own;
  }
}
