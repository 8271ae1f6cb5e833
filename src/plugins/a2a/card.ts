import { createHash, createPrivateKey, createPublicKey, type JsonWebKey, type KeyObject } from "node:crypto";
import type * as Sdk from "@a2a-js/sdk";
import type { HostedAgent } from "../../core/agents/registry.ts";
import { toJsonSchema } from "../../core/agents/to-json-schema.ts";

/** Signs cards with an RSA key. */
export class CardSigner {
  readonly #key: KeyObject;
  readonly #sdk: typeof Sdk;
  /** The key that verifies the signatures. */
  readonly jwk: JsonWebKey & { readonly kid: string };

  constructor(sdk: typeof Sdk, pem: string) {
    this.#sdk = sdk;
    this.#key = createPrivateKey(pem);
    const { e, kty, n } = createPublicKey(this.#key).export({ format: "jwk" });
    // RFC 7638.
    const kid = createHash("sha256").update(JSON.stringify({ e, kty, n })).digest("base64url");
    this.jwk = { ...{ kty, n, e, kid }, alg: "PS256", use: "sig" } as never;
  }

  sign(card: Sdk.AgentCard, jku: string): Promise<Sdk.AgentCard> {
    const header = { alg: "PS256", kid: this.jwk.kid, typ: "JOSE", jku };
    return this.#sdk.generateAgentCardSignature(this.#key, header)(card);
  }
}

/** The card of an agent; `base` is the URL of its endpoint. */
export function toCard(sdk: typeof Sdk, { slug, definition }: HostedAgent, base: string): Sdk.AgentCard {
  const { job_start } = definition.methods;
  const description = job_start.description ?? definition.description ?? `Runs the agent ${definition.name}.`;
  const modes = ["application/json", "text/plain"];
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
    defaultInputModes: modes,
    defaultOutputModes: modes,
    skills: [{ id: slug, name: definition.name, description, tags: [...(definition.tags ?? [])] }],
    signatures: [],
  });
}
