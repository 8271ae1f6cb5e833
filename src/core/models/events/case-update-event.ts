import * as v from "valibot";
import type { StoredCase } from "../case.ts";
import { type CaseNodeUpdate, CaseNodeUpdateSchema } from "../case-node-update.ts";

/**
 * Progress of a case: an update, a question, an answer or its end. Indexes count from 1 without gap or
 * repeat.
 */
export const CaseUpdateEventSchema = v.object({
  source: v.object({ job: v.string(), case: v.string() }),
  type: v.literal("agent.case.update"),
  object_type: v.literal("case"),
  details: v.object({
    index: v.pipe(v.number(), v.integer(), v.minValue(1)),
    ...v.pick(CaseNodeUpdateSchema, ["name", "error", "cost", "payload", "is_final"]).entries,
  }),
});
export type CaseUpdateEvent = v.InferOutput<typeof CaseUpdateEventSchema>;

export function caseUpdateEvent(item: StoredCase, update: CaseNodeUpdate): CaseUpdateEvent {
  return {
    source: { job: item.job_id, case: item.id },
    type: "agent.case.update",
    object_type: "case",
    details: {
      index: update.index ?? item.update_count,
      name: update.name,
      error: update.error,
      cost: update.cost,
      payload: update.payload,
      is_final: update.is_final,
    },
  };
}
