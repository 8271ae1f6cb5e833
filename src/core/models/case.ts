import * as v from "valibot";
import { AccountRefSchema } from "./account.ts";
import { CaseNodeUpdateSchema } from "./case-node-update.ts";
import { EntityStatusSchema } from "./entity-status.ts";
import { QuestionSchema } from "./question.ts";
import { EntityIdSchema, JsonMapSchema, NameSchema, optional, TimestampSchema } from "./scalars.ts";

/** One item of work inside a job. */
export const CaseSchema = v.object({
  id: EntityIdSchema,
  job_id: EntityIdSchema,
  /** The id set by the agent, unique in its job. Equals `id` unless another job's case had that id first. */
  ref: EntityIdSchema,
  name: NameSchema,
  account: AccountRefSchema,
  description: v.string(),
  status: EntityStatusSchema,
  /** Its history, oldest first; a list of cases holds the newest updates of each. */
  updates: v.optional(v.array(CaseNodeUpdateSchema), []),
  /** Number of all its updates. */
  update_count: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0)), 0),
  total_cost: v.optional(v.number(), 0),
  final_delivery: optional(JsonMapSchema),
  finished_at: optional(TimestampSchema),
  created_at: TimestampSchema,
  updated_at: TimestampSchema,
  /** The question that waits for a person, while the status is `awaiting`. */
  question: optional(QuestionSchema),
});
export type Case = v.InferOutput<typeof CaseSchema>;

/**
 * A case as stored. Its updates are in the log `CaseUpdate` under its id: here they would be rewritten with
 * each update.
 */
export interface StoredCase extends Omit<Case, "updates"> {
  /** The latest error among its updates. */
  last_error: string | null;
}
