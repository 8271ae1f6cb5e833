import type { Unit } from "../../entities/ledger.ts";
import type { WaitsFor } from "../../models/suspended.ts";

/** When a wait is over. */
export interface WaitEnd {
  /** By the time of day, in milliseconds since 1970. */
  readonly at: number;
  /** Milliseconds after which it is over in any case; absent where it lasts until the clock shows that time. */
  readonly left?: number | undefined;
}

/** What a wait is for: a job that has several waits for the first of these. */
export const WAITS_FOR = [
  "message",
  "event",
  "child",
  "answer",
  "time",
] as const satisfies readonly WaitsFor[];

/** Something outside of the process that a call of the handler waits for. */
export interface Wait {
  readonly for: WaitsFor;
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
