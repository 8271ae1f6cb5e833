import * as v from "valibot";
import { type AgentResponse, AgentResponseSchema } from "../agent-response.ts";

export interface ServerRegisterEvent {
  readonly source: { readonly server: string };
  readonly type: "server.register";
  readonly object_type: "server";
  readonly details: {
    readonly url: string;
    readonly uri: string;
    readonly api_version: string;
    readonly environment: string;
    readonly public_key: string;
    readonly docs: string;
    readonly agents: AgentResponse[];
  };
}

/** The server is listening. */
export const ServerRegisterEventSchema: v.GenericSchema<unknown, ServerRegisterEvent> = v.object({
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
