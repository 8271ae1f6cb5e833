import {
  constants,
  createCipheriv,
  createDecipheriv,
  type KeyObject,
  privateDecrypt,
  publicEncrypt,
  randomBytes,
} from "node:crypto";

/**
 * Prefix of the authenticated layout, with the agent's slug if it is for a single agent: `v2.` or
 * `v2.<slug>.`. `.` is not a base64 character, so the plain layout never starts with it.
 */
const V2_PREFIX = /^v2\.(?:([^.]+)\.)?/;
const KEY_BYTES = 32;
const CBC_IV_BYTES = 16;
const GCM_NONCE_BYTES = 12;
const GCM_TAG_BYTES = 16;

/** Envelope version: 1 is supported by older clients, 2 is authenticated. */
export type EnvelopeVersion = 1 | 2;

export interface SealOptions {
  /** @default 2 */
  readonly version?: EnvelopeVersion;
  /** Slug of the only agent that may open it; version 2 only. @default any agent of the service */
  readonly agent?: string | undefined;
}

/** Whether the envelope is authenticated, so that changes are detected. */
export function isAuthenticated(envelope: string): boolean {
  return V2_PREFIX.test(envelope);
}

/**
 * Encrypts text for the holder of the private key. Version 1 is base64( RSA-OAEP(AES key) ‖ IV ‖ AES-256-CBC
 * ). Version 2 is `v2.` (or `v2.<slug>.`) and base64( RSA-OAEP(AES key) ‖ nonce ‖ AES-256-GCM ‖ tag ), with
 * the prefix and the wrapped key authenticated too.
 */
export function seal(text: string, publicKey: KeyObject, { version = 2, agent }: SealOptions = {}): string {
  const key = randomBytes(KEY_BYTES);
  const wrapped = publicEncrypt({ key: publicKey, ...OAEP }, key);
  const plain = Buffer.from(text, "utf8");
  if (version === 1) {
    const iv = randomBytes(CBC_IV_BYTES);
    const cipher = createCipheriv("aes-256-cbc", key, iv);
    return Buffer.concat([wrapped, iv, cipher.update(plain), cipher.final()]).toString("base64");
  }
  const prefix = agent === undefined ? "v2." : `v2.${agent}.`;
  const nonce = randomBytes(GCM_NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key, nonce, { authTagLength: GCM_TAG_BYTES });
  cipher.setAAD(Buffer.concat([Buffer.from(prefix), wrapped]));
  const sealed = Buffer.concat([wrapped, nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
  return prefix + sealed.toString("base64");
}

/** The decrypted text, or `undefined` if `agent` cannot open it: the reason is not revealed. */
export function unseal(envelope: string, privateKey: KeyObject, agent?: string): string | undefined {
  const [prefix = "", boundTo = agent] = V2_PREFIX.exec(envelope) ?? [];
  const bytes = readBase64(envelope.slice(prefix.length));
  const wrappedBytes = (privateKey.asymmetricKeyDetails?.modulusLength ?? 2048) / 8;
  const wrapped = bytes.subarray(0, wrappedBytes);
  const rest = bytes.subarray(wrappedBytes);
  const key = unwrap(wrapped, privateKey);
  try {
    const plain =
      prefix === "" ? openCbc(key, rest) : openGcm(key, Buffer.concat([Buffer.from(prefix), wrapped]), rest);
    if (boundTo !== agent) return undefined;
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(plain);
  } catch {
    return undefined;
  }
}

const OAEP = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha256" };

/**
 * A random key if the key cannot be unwrapped: the work that follows, and its failure, take the same time.
 */
function unwrap(wrapped: Buffer, privateKey: KeyObject): Buffer {
  const random = randomBytes(KEY_BYTES);
  try {
    const key = privateDecrypt({ key: privateKey, ...OAEP }, wrapped);
    return key.length === KEY_BYTES ? key : random;
  } catch {
    return random;
  }
}

function openCbc(key: Buffer, rest: Buffer): Buffer {
  const decipher = createDecipheriv("aes-256-cbc", key, rest.subarray(0, CBC_IV_BYTES));
  return Buffer.concat([decipher.update(rest.subarray(CBC_IV_BYTES)), decipher.final()]);
}

function openGcm(key: Buffer, header: Buffer, rest: Buffer): Buffer {
  const decipher = createDecipheriv("aes-256-gcm", key, rest.subarray(0, GCM_NONCE_BYTES), {
    authTagLength: GCM_TAG_BYTES,
  });
  decipher.setAAD(header);
  decipher.setAuthTag(rest.subarray(-GCM_TAG_BYTES));
  return Buffer.concat([decipher.update(rest.subarray(GCM_NONCE_BYTES, -GCM_TAG_BYTES)), decipher.final()]);
}

/** Node ignores characters that are not base64; a damaged envelope must not count as a shorter one. */
function readBase64(text: string): Buffer {
  const compact = text.replace(/\s/g, "");
  return /^[A-Za-z0-9+/]*={0,2}$/.test(compact) ? Buffer.from(compact, "base64") : Buffer.alloc(0);
}
