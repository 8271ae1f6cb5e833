import * as v from "valibot";
import { AgentMethodFieldSchema } from "./agent-method-field.ts";
import { CaseNodesSchema } from "./case-node.ts";
import { StartContextSchema } from "./job-context.ts";
import { JsonMapSchema, optional } from "./scalars.ts";

/** A method of an agent, as shown. `method` names its handler; `timeout` is in seconds. */
export const AgentMethodSchema = v.object({
  name: v.string(),
  method: v.string(),
  params: optional(JsonMapSchema),
  fields: optional(v.array(AgentMethodFieldSchema)),
  description: optional(v.string()),
  nodes: optional(CaseNodesSchema),
  timeout: optional(v.number()),
});
export type AgentMethod = v.InferOutput<typeof AgentMethodSchema>;

/** The methods of an agent. */
export const AgentMethodsSchema = v.object({
  job_start: AgentMethodSchema,
  job_stop: optional(AgentMethodSchema),
  job_status: optional(AgentMethodSchema),
  human_answer: optional(AgentMethodSchema),
  chat: optional(AgentMethodSchema),
  custom: optional(v.record(v.string(), AgentMethodSchema)),
});
export type AgentMethods = v.InferOutput<typeof AgentMethodsSchema>;

/** Arguments of a method, passed by name. */
export const AgentMethodParamsSchema = v.object({ params: v.optional(JsonMapSchema, {}) });
export type AgentMethodParams = v.InferOutput<typeof AgentMethodParamsSchema>;

/** What a job is started from. */
export const AgentJobContextBaseSchema = v.object({
  job_context: v.optional(StartContextSchema, {}),
  job_fields: v.optional(JsonMapSchema, {}),
});
