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

/**
 * The decrypted text, or `undefined` if `agent` cannot open it: the reason is not revealed. The envelope may be for any of
 * these keys.
 */
export function unseal(
  envelope: string,
  privateKeys: readonly KeyObject[],
  agent?: string,
): string | undefined {
  const [prefix = "", boundTo = agent] = V2_PREFIX.exec(envelope) ?? [];
  const { key, wrapped, rest } = unwrap(readBase64(envelope.slice(prefix.length)), privateKeys);
  try {
    const plain =
      prefix === "" ? openCbc(key, rest) : openGcm(key, Buffer.concat([Buffer.from(prefix), wrapped]), rest);
    if (boundTo !== agent) return undefined;
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(plain);
  } catch {
    return undefined;
  }
}

/** For which key an envelope is: the present one, a former one, with the same text for the present one, or neither. */
export type Renewal =
  | { readonly of: "present" | "neither" }
  | { readonly of: "former"; readonly envelope: string };

/** Encrypts the text of an envelope that is for one of the `former` keys for the present one. */
export function renew(
  envelope: string,
  present: { readonly privateKey: KeyObject; readonly publicKey: KeyObject },
  former: readonly KeyObject[],
): Renewal {
  const [prefix = "", agent] = V2_PREFIX.exec(envelope) ?? [];
  const bytes = readBase64(envelope.slice(prefix.length));
  if (isWrappedFor(bytes, [present.privateKey])) return { of: "present" };
  const text = isWrappedFor(bytes, former) ? unseal(envelope, former, agent) : undefined;
  if (text === undefined) return { of: "neither" };
  return { of: "former", envelope: seal(text, present.publicKey, { agent }) };
}

const OAEP = { padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: "sha256" };

/**
 * The key of an envelope; a random one if no key unwraps it: the work that follows, and its failure, take the same time.
 * So does the search, as all keys are tried.
 */
function unwrap(bytes: Buffer, privateKeys: readonly KeyObject[]) {
  const tried = privateKeys.map((privateKey) => {
    const size = (privateKey.asymmetricKeyDetails?.modulusLength ?? 2048) / 8;
    const [wrapped, rest] = [bytes.subarray(0, size), bytes.subarray(size)];
    return { key: unwrapOne(wrapped, privateKey), wrapped, rest };
  });
  const found = tried.find(({ key }) => key !== undefined) ?? tried[0]!;
  return { ...found, key: found.key ?? randomBytes(KEY_BYTES) };
}

function isWrappedFor(bytes: Buffer, privateKeys: readonly KeyObject[]): boolean {
  return privateKeys.some((privateKey) => {
    const size = (privateKey.asymmetricKeyDetails?.modulusLength ?? 2048) / 8;
    return unwrapOne(bytes.subarray(0, size), privateKey) !== undefined;
  });
}

function unwrapOne(wrapped: Buffer, privateKey: KeyObject): Buffer | undefined {
  try {
    const key = privateDecrypt({ key: privateKey, ...OAEP }, wrapped);
    return key.length === KEY_BYTES ? key : undefined;
  } catch {
    return undefined;
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
