import * as v from "valibot";
import type { RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";

const accessRoute = routesOf({ auth: "session", tag: "Access", needs: "manage" });

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
    accessRoute({
      method: "GET",
      path: `${prefix}/access/signing-keys`,
      summary: "The public keys that verify what the service has signed",
      description:
        "A JSON Web Key Set: the present one is the first; former ones verify what they have signed.",
      responses: { 200: { description: "The keys", schema: v.object({ keys: v.array(KeySchema) }) } },
      handler: async () => ({ keys: (await signing.verifying()) as v.InferOutput<typeof KeySchema>[] }),
    }),
    accessRoute({
      method: "POST",
      path: `${prefix}/access/signing-keys`,
      summary: "Replace the key that the service signs with",
      description:
        "Makes another key, with which the service signs from now on. Signatures of former keys can still be verified.",
      responses: { 200: { description: "The new public key", schema: KeySchema } },
      stored: true,
      handler: async ({ caller }) => (await signing.rotate(caller)) as v.InferOutput<typeof KeySchema>,
    }),
  ];
}
