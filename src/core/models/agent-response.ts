import * as v from "valibot";
import { AgentMethodsSchema } from "./agent-method.ts";
import { JsonMapSchema, optional } from "./scalars.ts";

/** An agent as returned over HTTP. */
export const AgentResponseSchema = v.object({
  name: v.string(),
  id: v.string(),
  /** Lower-case words joined by `-`; names the agent in paths. */
  slug: v.string(),
  author: optional(v.string()),
  developer: optional(v.string()),
  maintainer: optional(v.string()),
  editor: optional(v.string()),
  version: v.string(),
  api_path: v.string(),
  description: v.string(),
  tags: optional(v.array(v.string())),
  methods: optional(AgentMethodsSchema),
  parameters_setup: optional(v.array(JsonMapSchema)),
  server_agent_id: optional(v.string()),
  server_agent_status: optional(v.string()),
  server_agent_onboarding_status: optional(v.string()),
  server_encrypted_parameters: optional(v.string()),
});
export type AgentResponse = v.InferOutput<typeof AgentResponseSchema>;
