import * as v from "valibot";
import { TimestampSchema } from "./scalars.ts";

/** What a job waits for: a time, an answer, an event, a message of its chat, or the end of a child. */
export const WaitsForSchema = v.picklist(["time", "answer", "event", "message", "child"]);
export type WaitsFor = v.InferOutput<typeof WaitsForSchema>;

/** Why a job is not in memory: it only waits, for a time, an answer, or something else that is stored. */
export const SuspendedSchema = v.object({
  at: TimestampSchema,
  /** When it resumes by itself; null where it waits for something that has no deadline. */
  wake_at: v.nullable(TimestampSchema),
  /** Absent where an earlier version had it leave memory. */
  waits_for: v.optional(WaitsForSchema),
});
export type Suspended = v.InferOutput<typeof SuspendedSchema>;

/** What is shown of it. Jobs of earlier versions do not have it. */
export function toSuspended(suspended: Suspended | null | undefined): Suspended | null {
  if (!suspended) return null;
  const { at, wake_at, waits_for } = suspended;
  return { at, wake_at, ...(waits_for && { waits_for }) };
}
