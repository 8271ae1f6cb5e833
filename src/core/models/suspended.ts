import * as v from "valibot";
import { TimestampSchema } from "./scalars.ts";

/** Why a job is not in memory: it only waits, for a time, an answer, or something else that is stored. */
export const SuspendedSchema = v.object({
  at: TimestampSchema,
  /** When it resumes by itself; null where it waits for something that has no deadline. */
  wake_at: v.nullable(TimestampSchema),
});
export type Suspended = v.InferOutput<typeof SuspendedSchema>;

/** What is shown of it. Jobs of earlier versions do not have it. */
export function toSuspended(suspended: Suspended | null | undefined): Suspended | null {
  return suspended ? { at: suspended.at, wake_at: suspended.wake_at } : null;
}
