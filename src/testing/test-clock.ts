import { type StartTimer, startTimer } from "../core/runs/run/timer.ts";

/** The system's, also where a test gives handlers another time. */
const systemTime = Date.now.bind(Date);

interface Waiting {
  readonly due: number;
  readonly fire: () => void;
  cancel: () => void;
}

/** The time of a service under test: it passes as the system's does, and can be advanced. */
export class TestClock {
  #ahead: number;
  /** In the order in which they were started. */
  readonly #waiting = new Set<Waiting>();

  /** Ahead of the system's time by so many milliseconds. */
  constructor(ahead = 0) {
    this.#ahead = ahead;
  }

  /** Milliseconds ahead of the system's time. */
  get ahead(): number {
    return this.#ahead;
  }

  readonly now = (): Date => new Date(this.#now());

  readonly startTimer: StartTimer = (milliseconds, fn) => {
    const one: Waiting = {
      due: this.#now() + Math.max(milliseconds, 0),
      fire: () => {
        if (!this.#waiting.delete(one)) return;
        one.cancel();
        fn();
      },
      cancel: startTimer(milliseconds, () => one.fire()),
    };
    this.#waiting.add(one);
    return () => {
      this.#waiting.delete(one);
      one.cancel();
    };
  };

  /** When the next timer is due, in milliseconds since 1970; nothing where there is none. */
  get next(): number | undefined {
    return this.#next()?.due;
  }

  /** Goes on to the next timer and lets it fire; where that is due after `until`, to that time. */
  skip(until = Number.POSITIVE_INFINITY): void {
    const next = this.#next();
    const to = Math.min(next?.due ?? until, until);
    if (Number.isFinite(to)) this.#ahead += Math.max(0, Math.ceil(to - this.#now()));
    if (next && next.due <= until) {
      next.fire();
      return;
    }
    // What is left of them passes as the system's time does.
    for (const one of this.#waiting) {
      one.cancel();
      one.cancel = startTimer(one.due - this.#now(), one.fire);
    }
  }

  /** Cancels all timers. */
  stop(): void {
    for (const one of this.#waiting) one.cancel();
    this.#waiting.clear();
  }

  #now(): number {
    return systemTime() + this.#ahead;
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    for (const one of this.#waiting) if (!next || one.due < next.due) next = one;
    return next;
  }
}
