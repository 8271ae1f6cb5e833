/** Width of the time part: base 36 milliseconds until the year 5188. */
const TIME_WIDTH = 9;
const COUNT_WIDTH = 4;
const MOST_PER_MILLISECOND = 36 ** COUNT_WIDTH;

/**
 * Creates ids that sort in creation order, even if the clock is set back. `unique` distinguishes two services
 * with one control system.
 */
export class MessageIds {
  readonly #clock: () => Date;
  readonly #unique: () => string;
  #time = 0;
  #count = 0;

  constructor(clock: () => Date, unique: () => string) {
    this.#clock = clock;
    this.#unique = unique;
  }

  /** Makes all later ids sort after this one, such as the newest of an earlier process. */
  follow(id: string): void {
    const time = timeOf(id);
    if (time !== null) this.#time = Math.max(this.#time, time + 1);
  }

  next(): string {
    const now = this.#clock().getTime();
    if (now > this.#time) {
      this.#time = now;
      this.#count = 0;
    } else if (++this.#count >= MOST_PER_MILLISECOND) {
      this.#time++;
      this.#count = 0;
    }
    const time = this.#time.toString(36).padStart(TIME_WIDTH, "0");
    return `${time}${this.#count.toString(36).padStart(COUNT_WIDTH, "0")}-${this.#unique()}`;
  }
}

/** The milliseconds in an id. */
export function timeOf(id: string): number | null {
  const time = Number.parseInt(id.slice(0, TIME_WIDTH), 36);
  return Number.isFinite(time) ? time : null;
}
