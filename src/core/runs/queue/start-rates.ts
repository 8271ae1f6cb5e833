import type { StartTimer } from "../../base/timer.ts";

/** How many jobs may start in any period of so many milliseconds. */
export interface Rate {
  readonly limit: number;
  readonly period: number;
  /** Whether the starts of each key count apart. */
  readonly isKeyed?: boolean;
}

/** Parts an agent's slug from a key. */
const KEYED = "\0";
/** Names that are kept before those are forgotten whose periods are over. */
const FEW = 1000;

/**
 * Counts the starts of jobs by agent, or by agent and key: of any period, no more start than the agent's rate allows. What
 * is counted together has a name.
 */
export class StartRates {
  readonly #rateOf: (agent: string) => Rate | undefined;
  readonly #clock: () => Date;
  readonly #startTimer: StartTimer;
  /** Times of the last starts of each name, at most as many as its limit; the oldest first. */
  readonly #starts = new Map<string, number[]>();
  readonly #timers = new Map<string, { readonly at: number; readonly cancel: () => void }>();
  /** Number of names at which those are forgotten whose periods are over. */
  #most = FEW;

  constructor(parts: {
    readonly rateOf?: ((agent: string) => Rate | undefined) | undefined;
    readonly clock?: (() => Date) | undefined;
    readonly startTimer: StartTimer;
  }) {
    this.#rateOf = parts.rateOf ?? (() => undefined);
    this.#clock = parts.clock ?? (() => new Date());
    this.#startTimer = parts.startTimer;
  }

  /** By what name the starts of jobs of an agent and key are counted; `undefined` if they are not. */
  nameOf(agent: string, key: string | null | undefined): string | undefined {
    const rate = this.#rateOf(agent);
    if (!rate?.isKeyed) return rate && agent;
    return key == null ? undefined : `${agent}${KEYED}${key}`;
  }

  /** The slug in a name. */
  agentOf(name: string): string {
    return name.split(KEYED, 1)[0]!;
  }

  /** Number of names that are known. */
  get size(): number {
    return this.#starts.size;
  }

  /** When the next job of a name may start, in milliseconds since 1970; `undefined` if one may now. */
  nextAt(name: string): number | undefined {
    const rate = this.#rateOf(this.agentOf(name));
    const starts = this.#starts.get(name) ?? [];
    if (!rate || starts.length < rate.limit) return undefined;
    const now = this.#clock().getTime();
    // A clock that was set back must not hold jobs up for longer than a period.
    if (starts.at(-1)! > now) {
      this.set(
        name,
        starts.map((at) => Math.min(at, now)),
      );
    }
    const next = Math.min(starts.at(-rate.limit)!, now) + rate.period;
    return next <= now ? undefined : next;
  }

  /** A job of a name starts, now or at an earlier time that is noted in order. */
  started(name: string, at = this.#clock().getTime()): void {
    const rate = this.#rateOf(this.agentOf(name));
    if (!rate) return;
    const starts = this.#starts.get(name) ?? [];
    starts.push(at);
    this.set(name, starts.length > rate.limit ? starts.slice(-rate.limit) : starts);
  }

  /** The last start did not come about. */
  takeBack(name: string): void {
    this.#starts.get(name)?.pop();
  }

  /** Replaces what is known of the last starts of a name, the oldest first. */
  set(name: string, starts: readonly number[]): void {
    this.#starts.set(name, [...starts]);
    if (this.#starts.size > this.#most) this.#forget();
  }

  /** Calls `fn` once the next job of a name may start. */
  whenFree(name: string, fn: () => void): void {
    const next = this.nextAt(name);
    const before = this.#timers.get(name);
    // The starts may turn out to have been earlier.
    if (next === undefined || (before && before.at <= next)) return;
    before?.cancel();
    const cancel = this.#startTimer(next - this.#clock().getTime(), () => {
      this.#timers.delete(name);
      fn();
    });
    this.#timers.set(name, { at: next, cancel });
  }

  /** There may be a key for each customer: those are forgotten that have not started a job for a period. */
  #forget(): void {
    const now = this.#clock().getTime();
    for (const [name, starts] of this.#starts) {
      const { period = 0 } = this.#rateOf(this.agentOf(name)) ?? {};
      if ((starts.at(-1) ?? 0) + period <= now) this.#starts.delete(name);
    }
    this.#most = Math.max(FEW, 2 * this.#starts.size);
  }

  close(): void {
    for (const { cancel } of this.#timers.values()) cancel();
    this.#timers.clear();
  }
}
