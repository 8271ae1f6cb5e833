import type { EntityStatus } from "./entity-status.ts";

/** Events that move a Job or Case; each is exactly one edge. */
export const LIFECYCLE = {
  start_work: ["stopped", "in_progress"],
  successfully_done: ["in_progress", "completed"],
  awaiting_on_input: ["in_progress", "awaiting"],
  cancel_requested: ["in_progress", "cancelling"],
  error_encountered: ["in_progress", "failed"],
  timeout_or_error: ["awaiting", "failed"],
  input_received: ["awaiting", "in_progress"],
  cancel_while_waiting: ["awaiting", "cancelling"],
  cancel_confirmed: ["cancelling", "cancelled"],
} as const satisfies Record<string, readonly [from: EntityStatus, to: EntityStatus]>;

export type LifecycleEvent = keyof typeof LIFECYCLE;

/** The status after `event`, or `undefined` if the event is not an edge from `status`. */
export function nextStatus(status: EntityStatus, event: LifecycleEvent): EntityStatus | undefined {
  const [from, to] = LIFECYCLE[event];
  return from === status ? to : undefined;
}
