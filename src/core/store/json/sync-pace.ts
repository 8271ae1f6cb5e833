/** Milliseconds: if a sync takes less, a single writer blocks for it. */
const QUICK = 1;
/** The weight of a new measurement in the average. */
const WEIGHT = 1 / 4;

/**
 * Whether the disk has recently been so fast that passing a sync to another thread and back would take longer
 * than the sync itself. One that is slow now and then does not count for much.
 */
export class SyncPace {
  #average = Number.POSITIVE_INFINITY;

  get isQuick(): boolean {
    return this.#average < QUICK;
  }

  /** Notes how many milliseconds a sync took. */
  note(milliseconds: number, { onTheSpot }: { onTheSpot: boolean }): void {
    // About half of a sync in another thread is the way there and back.
    const own = onTheSpot ? milliseconds : milliseconds / 2;
    this.#average = Number.isFinite(this.#average) ? this.#average + (own - this.#average) * WEIGHT : own;
  }
}
