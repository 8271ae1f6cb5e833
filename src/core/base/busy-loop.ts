/** Milliseconds of work without a pause, after which requests and timers have their turn. */
const MOST = 10;
/** The clock is read once in so many calls. */
const SKIPPED = 8;

/** Knows whether this process works without a turn of the event loop, in which requests are received. */
class BusyLoop {
  /** When this was first asked in the present turn. */
  #since: number | undefined;
  #calls = 0;

  /** Whether the present turn has taken some time since this was first asked in it. */
  get keepsOthersWaiting(): boolean {
    if (++this.#calls % SKIPPED !== 0) return false;
    const now = performance.now();
    if (this.#since !== undefined) return now - this.#since > MOST;
    this.#since = now;
    setImmediate(this.#forget);
    return false;
  }

  readonly #forget = (): void => {
    this.#since = undefined;
  };
}

/** One for the process, as the loop is the process's. */
export const busyLoop = new BusyLoop();
