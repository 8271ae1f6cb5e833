import * as v from "valibot";
import { JsonMapSchema, optional, TimestampSchema } from "./scalars.ts";

/** One entry in a case's history. `index` counts from 1 without gap or repeat. */
export const CaseNodeUpdateSchema = v.object({
  index: optional(v.pipe(v.number(), v.integer(), v.minValue(1))),
  cost: optional(v.pipe(v.number(), v.finite())),
  name: optional(v.string()),
  payload: optional(JsonMapSchema),
  is_final: v.optional(v.boolean(), false),
  error: optional(v.string()),
  /** When it was stored. */
  created_at: optional(TimestampSchema),
});
export type CaseNodeUpdate = v.InferOutput<typeof CaseNodeUpdateSchema>;
/** What an agent passes; the rest is filled in. */
export type CaseNodeUpdateInput = Partial<Omit<CaseNodeUpdate, "index" | "created_at">> & {
  /** Marks the update as a warning, which ends the job if its instructions say `stop_on_warning`. */
  warning?: boolean;
};
