import { hash, randomBytes } from "node:crypto";

/** A new key, which begins with the id of its access: people and scanners recognize one by that. */
export function makeKey(id = randomBytes(6).toString("hex")): { readonly id: string; readonly key: string } {
  return { id, key: `svck_${id}_${randomBytes(32).toString("base64url")}` };
}

/** What is stored of a key: its SHA-256, in hex. */
export function digestOf(key: string): string {
  return hash("sha256", key, "hex");
}
