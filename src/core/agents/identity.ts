import { createHash } from "node:crypto";

const DNS_NAMESPACE = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
const URL_NAMESPACE = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";
const BASE57 = "23456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/** Digits that 128 bits need in base 57. */
const ID_LENGTH = 22;

/** Lower-case words joined by `-`; accents are removed. */
export function toSlug(name: string): string {
  return name
    .normalize("NFKD")
    .replace(/[\u0300-\u036f]/g, "")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "");
}

/** An agent's id: the UUIDv5 of its name (RFC 9562 section 5.5) written in base 57. */
export function toAgentId(name: string): string {
  const namespace = /^https?:\/\/[^/\s]+/i.test(name) ? URL_NAMESPACE : DNS_NAMESPACE;
  const digest = createHash("sha1")
    .update(Buffer.from(namespace.replaceAll("-", ""), "hex"))
    .update(name)
    .digest();
  digest[6] = (digest[6]! & 0x0f) | 0x50;
  digest[8] = (digest[8]! & 0x3f) | 0x80;
  let rest = BigInt(`0x${digest.subarray(0, 16).toString("hex")}`);
  let id = "";
  for (let digit = 0; digit < ID_LENGTH; digit++) {
    id = BASE57[Number(rest % 57n)] + id;
    rest /= 57n;
  }
  return id;
}
