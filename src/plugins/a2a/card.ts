import { createHash, createPrivateKey, createPublicKey } from "node:crypto";
import type * as Sdk from "@a2a-js/sdk";
import type { SigningKeys, SigningPair } from "../../core/access/signing-keys.ts";
import { fieldsOf } from "../../core/agents/fields.ts";
import type { HostedAgent } from "../../core/agents/registry.ts";
import { toJsonSchema } from "../../core/agents/to-json-schema.ts";

/** Signs the cards: with the service's own key, or with one that is given. */
export type CardKeys = Pick<SigningKeys, "present" | "verifying">;

/** An RSA key, PEM, that signs the cards. */
export function cardKeysOf(pem: string): CardKeys {
  const privateKey = createPrivateKey(pem);
  const { e, kty, n } = createPublicKey(privateKey).export({ format: "jwk" });
  // RFC 7638.
  const kid = createHash("sha256").update(JSON.stringify({ e, kty, n })).digest("base64url");
  const jwk = { kty, n, e, kid, alg: "PS256", use: "sig" } as SigningPair["jwk"];
  return { present: async () => ({ privateKey, jwk }), verifying: async () => [jwk] };
}

export function signCard(
  sdk: typeof Sdk,
  card: Sdk.AgentCard,
  { privateKey, jwk: { alg, kid } }: SigningPair,
  jku: string,
): Promise<Sdk.AgentCard> {
  return sdk.generateAgentCardSignature(privateKey, { alg, kid, typ: "JOSE", jku })(card);
}

/** The card of an agent; `base` is the URL of its endpoint. */
export function toCard(sdk: typeof Sdk, { slug, definition }: HostedAgent, base: string): Sdk.AgentCard {
  const { job_start } = definition.methods;
  const description = job_start.description ?? definition.description ?? `Runs the agent ${definition.name}.`;
  const modes = ["application/json", "text/plain"];
  const takesFiles = definition.chats || fieldsOf(job_start).hasFiles;
  return sdk.AgentCard.fromJSON({
    name: definition.name,
    description: definition.description ?? description,
    version: definition.version,
    supportedInterfaces: ["JSONRPC", "HTTP+JSON"].map((protocolBinding) => ({
      url: base,
      protocolBinding,
      protocolVersion: "1.0",
    })),
    capabilities: {
      streaming: true,
      pushNotifications: true,
      extendedAgentCard: false,
      extensions: [
        {
          uri: "urn:agent-control-service:fields",
          description: "Fields of the data part that starts a task",
          required: false,
          params: { skill: slug, schema: toJsonSchema(job_start.fields) },
        },
      ],
    },
    securitySchemes: {
      key: { apiKeySecurityScheme: { location: "header", name: "X-API-Key" } },
      bearer: { httpAuthSecurityScheme: { scheme: "Bearer" } },
    },
    securityRequirements: [{ schemes: { key: { list: [] } } }, { schemes: { bearer: { list: [] } } }],
    defaultInputModes: takesFiles ? [...modes, "*/*"] : modes,
    defaultOutputModes: modes,
    skills: [
      {
        ...{ id: slug, name: definition.name, description, tags: [...(definition.tags ?? [])] },
        examples: definition.prompts?.map(({ text }) => text),
      },
    ],
    signatures: [],
  });
}
