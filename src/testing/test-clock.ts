import { type StartTimer, startTimer } from "../core/base/timer.ts";

/** The system's functions, even if a test gives handlers another time. */
const systemTime = Date.now.bind(Date);

interface Waiting {
  readonly due: number;
  readonly fire: () => void;
  cancel: () => void;
  /** Whether a job waits for it. */
  readonly isOfJob: boolean;
}

/** The time of a service under test: it passes like the system's, unless it is held, and can be advanced. */
export class TestClock {
  #ahead: number;
  /** The time at which it is held. */
  #held: number | undefined;
  /** In the order in which they were started. */
  readonly #waiting = new Set<Waiting>();

  /** Ahead of the system's time by so many milliseconds. */
  constructor(ahead = 0) {
    this.#ahead = ahead;
  }

  /** Milliseconds ahead of the system's time. */
  get ahead(): number {
    return this.#now() - systemTime();
  }

  readonly now = (): Date => new Date(this.#now());

  readonly startTimer: StartTimer = (milliseconds, fn, purpose) => {
    const one: Waiting = {
      due: this.#now() + Math.max(milliseconds, 0),
      fire: () => {
        if (!this.#waiting.delete(one)) return;
        one.cancel();
        fn();
      },
      cancel: () => {},
      isOfJob: purpose !== "schedule",
    };
    this.#waiting.add(one);
    this.#arm(one);
    return () => {
      this.#waiting.delete(one);
      one.cancel();
    };
  };

  /** When the next timer is due, in milliseconds since 1970; `undefined` if there is none. */
  get next(): number | undefined {
    return this.#next()?.due;
  }

  /** Whether a job waits for a timer. */
  get isAwaited(): boolean {
    return [...this.#waiting].some(({ isOfJob }) => isOfJob);
  }

  /** Stops time until the result is called, so that work in between takes none. */
  hold(): () => void {
    if (this.#held !== undefined) return () => {};
    this.#held = this.#now();
    for (const one of this.#waiting) one.cancel();
    return () => {
      this.#ahead = this.ahead;
      this.#held = undefined;
      for (const one of this.#waiting) this.#arm(one);
    };
  }

  /**
   * Advances to the next timer and fires it; if that is due after `until`, advances to that time. Time must
   * be held.
   */
  skip(until = Number.POSITIVE_INFINITY): void {
    const next = this.#next();
    const to = Math.min(next?.due ?? until, until);
    if (!Number.isFinite(to)) return;
    this.#held = Math.max(this.#now(), to);
    if (next && next.due <= until) next.fire();
  }

  /** Cancels all timers. */
  stop(): void {
    for (const one of this.#waiting) one.cancel();
    this.#waiting.clear();
  }

  #arm(one: Waiting): void {
    if (this.#held === undefined) one.cancel = startTimer(one.due - this.#now(), one.fire);
  }

  #now(): number {
    return this.#held ?? systemTime() + this.#ahead;
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    for (const one of this.#waiting) if (!next || one.due < next.due) next = one;
    return next;
  }
}
