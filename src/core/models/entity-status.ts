import * as v from "valibot";

/** Status of a Job or Case. */
export const EntityStatusSchema = v.picklist([
  "stopped",
  "in_progress",
  "cancelling",
  "awaiting",
  "completed",
  "failed",
  "cancelled",
]);
export type EntityStatus = v.InferOutput<typeof EntityStatusSchema>;

/** Statuses counted as running in statistics. */
export const RUNNING: readonly EntityStatus[] = ["in_progress", "cancelling", "awaiting"];
/** Statuses counted as failed in statistics. */
export const FAILED: readonly EntityStatus[] = ["failed", "cancelled"];
/** Statuses that end an entity. */
export const TERMINAL: readonly EntityStatus[] = ["completed", "failed", "cancelled"];

/** Whether a status is final: only an operator's override can change it. */
export function isTerminal(status: EntityStatus): boolean {
  return TERMINAL.includes(status);
}
