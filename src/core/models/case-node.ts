import * as v from "valibot";
import { optional } from "./scalars.ts";

/** Kind of node in a case's plan. */
export const CaseNodeTypeSchema = v.picklist([
  "chat",
  "trigger",
  "notification",
  "status_update",
  "intermediary_delivery",
  "human_in_the_loop",
  "deliverable",
  "validation",
  "delivery",
  "error",
  "warning",
  "info",
]);

/** A node that a method's cases pass through; `factory` exists only in code and is never returned. */
export const CaseNodeSchema = v.object({
  name: v.string(),
  type: CaseNodeTypeSchema,
  description: optional(v.string()),
  can_be_confirmed: v.optional(v.boolean(), false),
});
export type CaseNode = v.InferOutput<typeof CaseNodeSchema>;

/** The nodes of a method's cases, in order. */
export const CaseNodesSchema = v.object({ nodes: v.optional(v.array(CaseNodeSchema), []) });
export type CaseNodes = v.InferOutput<typeof CaseNodesSchema>;
