import { createHmac } from "node:crypto";

/** Bytes of a signing key, as the Standard Webhooks specification asks: 24 to 64. */
const SHORTEST_KEY = 24;
const LONGEST_KEY = 64;

/** Reads a secret such as `whsec_MfKQ…`; throws if it is invalid. */
export function readSecret(secret: string, name: string): Buffer {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (secret.startsWith("whsec_") && key.length >= SHORTEST_KEY && key.length <= LONGEST_KEY) return key;
  throw new Error(
    `The secret of webhook "${name}" must be whsec_ followed by the base64 of 24 to 64 random bytes. Generate one: node -e "console.log('whsec_' + crypto.randomBytes(32).toString('base64'))"`,
  );
}

/** Headers according to the Standard Webhooks specification: HMAC-SHA256 of id, time and body. */
export function signedHeaders(id: string, now: Date, body: string, key: Buffer): Record<string, string> {
  const timestamp = Math.floor(now.getTime() / 1000);
  const signature = createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64");
  return {
    "webhook-id": id,
    "webhook-timestamp": String(timestamp),
    "webhook-signature": `v1,${signature}`,
  };
}
