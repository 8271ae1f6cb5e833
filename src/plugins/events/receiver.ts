import type { TargetHealth } from "../../core/delivery/control-system.ts";
import { Breaker, type BreakerOptions } from "./breaker.ts";

/** What receives messages, with the state of their deliveries. */
export class Receiver {
  readonly breaker: Breaker;
  /** Lanes that wait for the pause to end. */
  readonly parked = new Set<string>();
  /** Stops the timer of the pause. */
  stopTimer: (() => void) | undefined;

  constructor(options: BreakerOptions) {
    this.breaker = new Breaker(options);
  }

  health(): Pick<TargetHealth, "state" | "failures_in_a_row" | "retry_at"> {
    const { failures, pausedUntil } = this.breaker;
    const working = failures > 0 ? "failing" : "ok";
    return {
      state: pausedUntil === undefined ? working : "paused",
      failures_in_a_row: failures,
      retry_at: pausedUntil === undefined ? null : new Date(pausedUntil).toISOString(),
    };
  }
}
