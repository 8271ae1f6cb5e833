import * as v from "valibot";
import { AgentResponseSchema } from "../agent-response.ts";

/** The server is listening. */
export const ServerRegisterEventSchema = v.object({
  source: v.object({ server: v.string() }),
  type: v.literal("server.register"),
  object_type: v.literal("server"),
  details: v.object({
    url: v.string(),
    uri: v.string(),
    api_version: v.string(),
    environment: v.string(),
    public_key: v.string(),
    docs: v.string(),
    agents: v.array(AgentResponseSchema),
  }),
});
export type ServerRegisterEvent = v.InferOutput<typeof ServerRegisterEventSchema>;

export function serverRegisterEvent(
  id: string,
  details: Omit<ServerRegisterEvent["details"], "uri" | "docs">,
): ServerRegisterEvent {
  const uri = `server:${id}`;
  return {
    source: { server: uri },
    type: "server.register",
    object_type: "server",
    details: { ...details, uri, docs: `${details.url}/docs` },
  };
}
