import { hash, randomBytes } from "node:crypto";

/** How named keys begin. */
export const KEY_PREFIX = "svck_";

/** A new key, which begins with the id of its access: people and scanners recognize one by that. */
export function makeKey(id = randomBytes(6).toString("hex")): { readonly id: string; readonly key: string } {
  return { id, key: `${KEY_PREFIX}${id}_${randomBytes(32).toString("base64url")}` };
}

/** What is stored of a key: its SHA-256, in hex. */
export function digestOf(key: string): string {
  return hash("sha256", key, "hex");
}
