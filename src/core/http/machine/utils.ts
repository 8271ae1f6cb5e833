import * as v from "valibot";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

const tag = "Encryption";

/** The service's public key, and encryption for clients that have none of their own. */
export function utilRoutes({ prefix, parameters }: MachineParts): RouteDefinition[] {
  return [
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
      description: "Takes the text to encrypt: JSON, a list of `{name, value}` or a map of name to value.",
      tag,
      body: v.string(),
      responses: { 200: { description: "Base64, for `encrypted_agent_parameters`", schema: v.string() } },
      handler: ({ body }) => parameters.encrypt(body),
    }),
  ];
}
