import { generateKeyPairSync } from "node:crypto";

let rsaKey: string | undefined;

/** One for all services of a test process: generating a key takes longer than most tests. */
export function sharedRsaKey(): string {
  rsaKey ??= generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  }).privateKey;
  return rsaKey;
}
