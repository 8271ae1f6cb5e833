import type { Unit } from "../../entities/ledger.ts";

/** Milliseconds after which a run that could not leave memory tries again at the earliest. */
const AGAIN = 20;

/** When a wait is over. */
export interface WaitEnd {
  /** By the time of day, in milliseconds since 1970. */
  readonly at: number;
  /** Milliseconds after which it is over in any case; absent where it lasts until the clock shows that time. */
  readonly left?: number | undefined;
}

/** Something outside of the process that a call of the handler waits for. */
export interface Wait {
  /** When the run must be in memory again; nothing where time does not end the wait. */
  readonly end: WaitEnd | undefined;
  /** When the call began to wait, by a clock that nobody sets. */
  readonly since: number;
  /** Whether what it waits for has not been stored yet, asked inside the unit that would have the run leave memory. */
  readonly isOpen: ((unit: Unit) => Promise<boolean>) | undefined;
}

/** Milliseconds that are left of a wait: setting the clock back makes none longer. */
export function leftOf({ end, since }: Wait, now: number): number | undefined {
  if (!end) return undefined;
  const left = end.left === undefined ? Number.POSITIVE_INFINITY : end.left + since - performance.now();
  return Math.min(end.at - now, left);
}

/** What a suspension needs of the run. */
interface WaitingRun {
  /** Whether the handler only waits, each of its calls for something outside of the process. */
  readonly onlyWaits: boolean;
  /** Milliseconds until the run must be in memory again. */
  timeLeft(): number;
  after(milliseconds: number, fn: () => void, purpose: "running"): () => void;
}

interface SuspensionParts {
  readonly run: WaitingRun;
  /** Milliseconds that the run only waits before it leaves memory; it must have to wait that long again. */
  readonly after: number;
  /** Has the run leave memory, if it still only waits. */
  readonly suspend: () => Promise<unknown>;
}

/** Has a run leave memory once it has only waited for some time, and will do so for some time more. */
export class Suspension {
  readonly #parts: SuspensionParts;
  #disarm: (() => void) | undefined;
  #isOver = false;

  constructor(parts: SuspensionParts) {
    this.#parts = parts;
  }

  /** The run only waits. */
  rested(): void {
    const { run, after } = this.#parts;
    // Where a wait ends sooner, the run rests again after it.
    if (!this.#disarm && !this.#isOver && run.timeLeft() > after) this.#arm(after);
  }

  /** The run works. */
  resumed(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }

  /** The run is over, or has left memory. */
  stop(): void {
    this.#isOver = true;
    this.resumed();
  }

  /** Whether the run is to leave memory now. */
  get isDue(): boolean {
    const { run, after } = this.#parts;
    return run.onlyWaits && run.timeLeft() > after;
  }

  #arm(milliseconds: number): void {
    this.#disarm = this.#parts.run.after(milliseconds, () => void this.#try(), "running");
  }

  async #try(): Promise<void> {
    if (this.isDue) await this.#parts.suspend();
    // It is in memory still, unless its timers are stopped: what it waits for may end soon, or another part of it works.
    if (this.#disarm) this.#arm(Math.max(this.#parts.after, AGAIN));
  }
}
