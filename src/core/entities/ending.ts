import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import type { LifecycleEvent } from "../models/lifecycle.ts";

/** How a job or case can end. */
export type Ending = "completed" | "failed" | "cancelled";

type Path = readonly LifecycleEvent[];

/** The edges that lead from a status to an end. What is cancelling can only become cancelled. */
const PATHS: Readonly<Record<Ending, Partial<Record<EntityStatus, Path>>>> = {
  completed: {
    stopped: ["start_work", "successfully_done"],
    in_progress: ["successfully_done"],
    awaiting: ["input_received", "successfully_done"],
    cancelling: ["cancel_confirmed"],
  },
  failed: {
    stopped: ["start_work", "error_encountered"],
    in_progress: ["error_encountered"],
    awaiting: ["timeout_or_error"],
    cancelling: ["cancel_confirmed"],
  },
  cancelled: {
    stopped: ["start_work", "cancel_requested", "cancel_confirmed"],
    in_progress: ["cancel_requested", "cancel_confirmed"],
    awaiting: ["cancel_while_waiting", "cancel_confirmed"],
    cancelling: ["cancel_confirmed"],
  },
};

/** The events that ask something to stop that has not ended, by its status. */
export const TO_CANCELLING = {
  stopped: ["start_work", "cancel_requested"],
  in_progress: ["cancel_requested"],
  awaiting: ["cancel_while_waiting"],
} as const satisfies Partial<Record<EntityStatus, Path>>;

/** The events that bring something from `status` to an end; none if it has ended. */
export function pathTo(ending: Ending, status: EntityStatus): Path {
  return isTerminal(status) ? [] : (PATHS[ending][status] ?? []);
}
