import * as v from "valibot";
import { type AgentResponse, AgentResponseSchema } from "../agent-response.ts";

const schema = v.object({
  source: v.object({ agent: v.string() }),
  type: v.literal("agent.register"),
  object_type: v.literal("agent"),
  details: v.object({ ...AgentResponseSchema.entries, polling: v.boolean() }),
});
export type AgentRegisterEvent = v.InferOutput<typeof schema>;

/** An agent is available. */
export const AgentRegisterEventSchema: v.GenericSchema<unknown, AgentRegisterEvent> = schema;

export function agentRegisterEvent(agent: AgentResponse): AgentRegisterEvent {
  return {
    source: { agent: agent.slug },
    type: "agent.register",
    object_type: "agent",
    details: { ...agent, polling: false },
  };
}
