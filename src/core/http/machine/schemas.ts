import * as v from "valibot";
import { LISTED_UPDATES } from "../../entities/cases.ts";
import { EntityStatusSchema } from "../../models/entity-status.ts";
import { StopReasonSchema } from "../../models/job.ts";
import { ShownStateSchema } from "../../models/job-state.ts";
import { EntityIdSchema } from "../../models/scalars.ts";
import { TagSchema } from "../../models/tags.ts";
import { cursorQuery } from "../cursor.ts";
import { pageQuery, wholeNumber } from "../query.ts";

export const AgentPathSchema = v.object({ slug: v.string() });
export const JobPathSchema = v.object({ id: EntityIdSchema });
export const AgentJobPathSchema = v.object({ slug: v.string(), id: EntityIdSchema });
export const CasePathSchema = v.object({ job_id: EntityIdSchema, case_id: EntityIdSchema });

export const CasesQuerySchema = v.object({
  ...pageQuery({ max: 1000, default: 100 }),
  ...cursorQuery,
  /** The newest updates of each case. */
  updates: wholeNumber({ min: 0, max: 1000, default: LISTED_UPDATES }),
});
export const CallsQuerySchema = v.object(pageQuery({ max: 10_000, default: 1000 }));
export const JobsQuerySchema = v.object({
  ...pageQuery({ max: 1000, default: 100 }),
  ...cursorQuery,
  status: v.optional(EntityStatusSchema),
  /** What they do: `running`, `sleeping`, `held` and so on; a status may be several of them. */
  state: v.optional(ShownStateSchema),
  /** Only jobs with this tag; upper and lower case count as one. */
  tag: v.optional(TagSchema),
  /** Who started them. */
  started_by: v.optional(v.string()),
  /** Such as `code_changed`, for jobs that are held. */
  stop_reason: v.optional(StopReasonSchema),
  /** The children of a job. */
  parent_id: v.optional(EntityIdSchema),
  /** Only forks of this job. */
  forked_from: v.optional(EntityIdSchema),
});
export type JobsQuery = v.InferOutput<typeof JobsQuerySchema>;
