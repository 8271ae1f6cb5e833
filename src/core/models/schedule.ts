import * as v from "valibot";
import { EntityStatusSchema } from "./entity-status.ts";
import { JsonMapSchema, TimestampSchema } from "./scalars.ts";

/** What happens at a planned time while an earlier job of the schedule has not ended. */
export const OVERLAPS = ["allow", "queue", "skip", "cancel"] as const;

/** A planned time that is decided. */
const DecidedTimeSchema = v.object({
  at: TimestampSchema,
  /** `skipped` because an earlier job had not ended, `missed` because it was too late for it. */
  outcome: v.picklist(["started", "skipped", "missed"]),
  decided_at: TimestampSchema,
});

/** What is known of a schedule besides its definition, as stored. */
export interface ScheduleState {
  readonly id: string;
  /** What its times were computed from; null while the service has no schedule of this id. */
  readonly pattern: string | null;
  /** Planned times up to this one are decided, or are no longer to be; ISO 8601. */
  readonly decided_until: string;
  readonly is_paused: boolean;
  readonly last: v.InferOutput<typeof DecidedTimeSchema> | null;
  /** The last job that it started. */
  readonly last_job_id: string | null;
}

/** A schedule, as returned over HTTP. */
export const ScheduleSchema = v.object({
  id: v.string(),
  /** Slug of the agent. */
  agent: v.string(),
  cron: v.string(),
  timezone: v.string(),
  fields: JsonMapSchema,
  overlap: v.picklist(OVERLAPS),
  catch_up: v.string(),
  /** Whether a person has paused it. */
  paused: v.boolean(),
  /** The next planned time that is not decided; in the past while its job cannot start. */
  next: v.nullable(TimestampSchema),
  last: v.nullable(DecidedTimeSchema),
  /** The last job that it started; null where that was deleted. */
  last_job: v.nullable(v.object({ id: v.string(), status: EntityStatusSchema })),
  /** Why the job of a time that is due does not start. */
  problem: v.nullable(v.string()),
});
export type Schedule = v.InferOutput<typeof ScheduleSchema>;
