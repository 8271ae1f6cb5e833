import { createPublicKey, sign, verify } from "node:crypto";
import * as v from "valibot";
import { TimestampSchema } from "../models/scalars.ts";
import { nameOfKey, type SigningPair } from "./signing-keys.ts";

const Base64Schema = v.pipe(v.string(), v.regex(/^[\w-]+$/, "must be base64url"));

/** The end of the audit log at a time, signed by the service. One that was kept shows whether lines up to it are missing. */
export const CheckpointSchema = v.object({
  /** The newest line, `LINE:HASH`. */
  line: v.pipe(v.string(), v.regex(/^\d{1,15}:[\w-]{43}$/, "must be LINE:HASH")),
  at: TimestampSchema,
  /** The public key, P-256, whose name is `kid`: RFC 7638. */
  key: v.object({ kid: Base64Schema, x: Base64Schema, y: Base64Schema }),
  /** ES256 over the line and the time. */
  signature: Base64Schema,
});
export type Checkpoint = v.InferOutput<typeof CheckpointSchema>;

/** The last line of an export. */
export const CheckpointLineSchema = v.object({ checkpoint: CheckpointSchema });

/** Signs the end of the audit log. */
export function makeCheckpoint(
  { privateKey, jwk: { kid, x = "", y = "" } }: SigningPair,
  { line, at }: Pick<Checkpoint, "line" | "at">,
): Checkpoint {
  const key = { key: privateKey, dsaEncoding: "ieee-p1363" } as const;
  const signature = sign("sha256", textOf({ line, at }), key).toString("base64url");
  return { line, at, key: { kid, x, y }, signature };
}

/** Whether the key that a checkpoint names has signed it, and has that name. */
export function isSigned({ line, at, key: { kid, x, y }, signature }: Checkpoint): boolean {
  if (nameOfKey({ x, y }) !== kid) return false;
  try {
    const key = createPublicKey({ key: { kty: "EC", crv: "P-256", x, y }, format: "jwk" });
    const bytes = Buffer.from(signature, "base64url");
    return verify("sha256", textOf({ line, at }), { key, dsaEncoding: "ieee-p1363" }, bytes);
  } catch {
    return false;
  }
}

/** With its purpose: a signature for something else is none for this. */
function textOf({ line, at }: Pick<Checkpoint, "line" | "at">): Buffer {
  return Buffer.from(`svc audit checkpoint 1\n${line}\n${at}`);
}
