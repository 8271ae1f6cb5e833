import * as v from "valibot";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

const tag = "Encryption";

const EncryptQuerySchema = v.pipe(
  v.object({ version: v.optional(v.picklist(["1", "2"]), "2"), agent: v.optional(v.string()) }),
  v.check(({ version, agent }) => version === "2" || agent === undefined, "agent requires version 2"),
);

/** The service's public key, encryption for clients that have none of their own, and the end of a pause. */
export function utilRoutes({ prefix, agents, parameters, runner }: MachineParts): RouteDefinition[] {
  return [
    defineRoute({
      method: "POST",
      path: `${prefix}/utils/resume`,
      auth: "key",
      summary: "End the pause of a service that was started paused",
      description: "Accepted jobs run, and unfinished ones resume.",
      tag: "Jobs",
      responses: {
        200: {
          description: "How many jobs wait",
          schema: v.object({ paused: v.boolean(), queued: v.number() }),
        },
      },
      handler: () => {
        const { queued } = runner.load();
        runner.unpause();
        return { paused: runner.isPaused, queued };
      },
    }),
    defineRoute({
      method: "GET",
      path: `${prefix}/utils/public_key`,
      auth: "key",
      summary: "The public key for agent parameters",
      tag,
      responses: { 200: { description: "PEM (SPKI)", schema: v.string() } },
      handler: () => parameters.publicKeyPem(),
    }),
    defineRoute({
      method: "POST",
      path: `${prefix}/utils/encrypt`,
      auth: "key",
      summary: "Encrypt agent parameters",
      description:
        "Takes the text to encrypt: JSON, a list of `{name, value}` or a map of name to value. The envelope is authenticated; with `agent`, no other agent can open it. `version=1` gives the older layout without authentication, for clients that need it.",
      tag,
      query: EncryptQuerySchema,
      body: v.string(),
      responses: { 200: { description: "For `encrypted_agent_parameters`", schema: v.string() } },
      handler: ({ query, body }) => {
        const agent = query.agent === undefined ? undefined : agents.get(query.agent).slug;
        return parameters.encrypt(body, { version: query.version === "1" ? 1 : 2, agent });
      },
    }),
  ];
}
