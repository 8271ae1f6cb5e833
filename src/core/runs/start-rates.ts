import { type StartTimer, startTimer as systemTimer } from "./run/timer.ts";

/** How many jobs may start in any period of so many milliseconds. */
export interface Rate {
  readonly limit: number;
  readonly period: number;
}

/** Counts the starts of jobs by agent: of any period, no more start than the agent's rate allows. */
export class StartRates {
  readonly #rateOf: (agent: string) => Rate | undefined;
  readonly #clock: () => Date;
  readonly #startTimer: StartTimer;
  /** Times of the last starts of each agent, at most as many as its limit; the oldest first. */
  readonly #starts = new Map<string, number[]>();
  readonly #timers = new Map<string, () => void>();

  constructor(parts: {
    readonly rateOf?: ((agent: string) => Rate | undefined) | undefined;
    readonly clock?: (() => Date) | undefined;
    readonly startTimer?: StartTimer | undefined;
  }) {
    this.#rateOf = parts.rateOf ?? (() => undefined);
    this.#clock = parts.clock ?? (() => new Date());
    this.#startTimer = parts.startTimer ?? systemTimer;
  }

  has(agent: string): boolean {
    return this.#rateOf(agent) !== undefined;
  }

  /** When the next job of an agent may start, in milliseconds since 1970; `undefined` if one may now. */
  nextAt(agent: string): number | undefined {
    const rate = this.#rateOf(agent);
    const starts = this.#starts.get(agent) ?? [];
    if (!rate || starts.length < rate.limit) return undefined;
    const now = this.#clock().getTime();
    // A clock that was set back must not hold jobs up for longer than a period.
    const next = Math.min(starts.at(-rate.limit)! + rate.period, now + rate.period);
    return next <= now ? undefined : next;
  }

  /** A job of an agent starts, now or at an earlier time that is noted in order. */
  started(agent: string, at = this.#clock().getTime()): void {
    const rate = this.#rateOf(agent);
    if (!rate) return;
    const starts = this.#starts.get(agent) ?? [];
    starts.push(at);
    this.#starts.set(agent, starts.length > rate.limit ? starts.slice(-rate.limit) : starts);
  }

  /** The last start did not come about. */
  takeBack(agent: string): void {
    this.#starts.get(agent)?.pop();
  }

  /** Replaces what is known of the last starts of an agent's jobs, the oldest first. */
  set(agent: string, starts: readonly number[]): void {
    this.#starts.set(agent, [...starts]);
  }

  /** Calls `fn` once the next job of an agent may start. */
  whenFree(agent: string, fn: () => void): void {
    const next = this.nextAt(agent);
    if (next === undefined || this.#timers.has(agent)) return;
    const cancel = this.#startTimer(next - this.#clock().getTime(), () => {
      this.#timers.delete(agent);
      fn();
    });
    this.#timers.set(agent, cancel);
  }

  close(): void {
    for (const cancel of this.#timers.values()) cancel();
    this.#timers.clear();
  }
}
