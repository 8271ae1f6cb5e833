import * as v from "valibot";
import { defineRoute, type RouteDefinition } from "../route.ts";
import type { MachineParts } from "./parts.ts";

const tag = "Access";

const KeySchema = v.object({
  kty: v.literal("EC"),
  crv: v.literal("P-256"),
  x: v.string(),
  y: v.string(),
  /** Its name: RFC 7638. */
  kid: v.string(),
  alg: v.literal("ES256"),
  use: v.literal("sig"),
});

/** The keys that verify what the service has signed. */
export function signingKeyRoutes({ prefix, signing }: MachineParts): RouteDefinition[] {
  return [
    defineRoute({
      method: "GET",
      path: `${prefix}/access/signing-keys`,
      auth: "session",
      needs: "manage",
      summary: "The public keys that verify what the service has signed",
      description:
        "A JSON Web Key Set: the present one is the first; former ones verify what they have signed.",
      tag,
      responses: { 200: { description: "The keys", schema: v.object({ keys: v.array(KeySchema) }) } },
      handler: async () => ({ keys: (await signing.verifying()) as v.InferOutput<typeof KeySchema>[] }),
    }),
    defineRoute({
      method: "POST",
      path: `${prefix}/access/signing-keys`,
      auth: "session",
      needs: "manage",
      summary: "Replace the key that the service signs with",
      description:
        "Makes another key, with which the service signs from now on. Signatures of former keys can still be verified.",
      tag,
      responses: { 200: { description: "The new public key", schema: KeySchema } },
      stored: true,
      handler: async ({ caller }) => (await signing.rotate(caller)) as v.InferOutput<typeof KeySchema>,
    }),
  ];
}
