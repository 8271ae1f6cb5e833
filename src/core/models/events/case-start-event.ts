import * as v from "valibot";
import { CaseSchema, type StoredCase } from "../case.ts";

/** A case was opened: it has no updates yet. */
export const CaseStartEventSchema = v.object({
  source: v.object({ job: v.string(), case: v.string() }),
  type: v.literal("agent.case.start"),
  object_type: v.literal("case"),
  details: v.object({
    case_id: CaseSchema.entries.id,
    job_id: CaseSchema.entries.job_id,
    case_ref: v.string(),
    ...v.pick(CaseSchema, ["name", "description", "status", "updates", "total_cost", "final_delivery"])
      .entries,
  }),
});
export type CaseStartEvent = v.InferOutput<typeof CaseStartEventSchema>;

export function caseStartEvent(item: StoredCase): CaseStartEvent {
  return {
    source: { job: item.job_id, case: item.id },
    type: "agent.case.start",
    object_type: "case",
    details: {
      case_id: item.id,
      job_id: item.job_id,
      case_ref: `${item.job_id}-${item.id}`,
      name: item.name,
      description: item.description,
      status: item.status,
      updates: [],
      total_cost: item.total_cost,
      final_delivery: item.final_delivery,
    },
  };
}
