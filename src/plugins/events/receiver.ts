import type { TargetHealth } from "../../core/delivery/control-system.ts";
import type { DeliveryTarget } from "../../core/delivery/events.ts";
import { Breaker, type BreakerOptions } from "./breaker.ts";

/** A target with the state of its deliveries. */
export class Receiver {
  readonly target: DeliveryTarget;
  readonly breaker: Breaker;
  /** Lanes that wait for the pause to end. */
  readonly parked = new Set<string>();
  delivered = 0;
  lastError: string | undefined;
  timer: NodeJS.Timeout | undefined;

  constructor(target: DeliveryTarget, options: BreakerOptions) {
    this.target = target;
    this.breaker = new Breaker(options);
  }

  health(): TargetHealth {
    const { failures, pausedUntil } = this.breaker;
    const working = failures > 0 ? "failing" : "ok";
    return {
      name: this.target.name,
      state: pausedUntil === undefined ? working : "paused",
      delivered: this.delivered,
      failures_in_a_row: failures,
      last_error: this.lastError ?? null,
      retry_at: pausedUntil === undefined ? null : new Date(pausedUntil).toISOString(),
    };
  }
}
