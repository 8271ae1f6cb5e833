import * as v from "valibot";
import { EntityStatusSchema } from "../../models/entity-status.ts";
import { EntityIdSchema } from "../../models/scalars.ts";
import { pageQuery } from "../query.ts";

export const AgentPathSchema = v.object({ slug: v.string() });
export const JobPathSchema = v.object({ id: EntityIdSchema });
export const AgentJobPathSchema = v.object({ slug: v.string(), id: EntityIdSchema });
export const CasePathSchema = v.object({ job_id: EntityIdSchema, case_id: EntityIdSchema });

export const PageQuerySchema = v.object(pageQuery({ max: 1000, default: 100 }));
export const JobsQuerySchema = v.object({
  ...pageQuery({ max: 1000, default: 100 }),
  status: v.optional(EntityStatusSchema),
});
export type JobsQuery = v.InferOutput<typeof JobsQuerySchema>;
