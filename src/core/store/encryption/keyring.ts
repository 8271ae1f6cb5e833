import {
  createCipheriv,
  createDecipheriv,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  randomFillSync,
} from "node:crypto";
import { ServiceError } from "../../base/errors.ts";

/** In place of the first key: what is written from then on is not encrypted. */
export const OFF = "off";

/** Bytes of a key. */
const KEY = 32;
/** A random key has more different bytes; one that somebody typed or that is a pattern has fewer. */
const DIFFERENT = 12;

/** What a sealed value begins with: its version, the id of its key, a salt, a nonce. The ciphertext and its tag follow. */
const VERSION = 1;
const AT = { id: 1, salt: 5, nonce: 21, text: 33 };
const NONCE = AT.text - AT.nonce;
const TAG = 16;

/** Values that are sealed with one derived key: far fewer than those after which random nonces of 96 bits could repeat. */
const MOST = 2 ** 28;
/** Derived keys that are kept: each start of a writer has its own. */
const KEPT = 1000;

/** What is bound to a sealed value, such as the name of its table and its id: it opens nowhere else. */
export type Place = readonly (string | number)[];

/** What a list of keys must be, for messages. */
export const ENCRYPTION_RULE =
  "must have different keys of 32 random bytes each, in base64 or hexadecimal, separated by commas; the first one may be off. A new key: openssl rand -base64 32";

/** Whether texts are keys, each another one, the first of which may be `off`. */
export function areEncryptionKeys(texts: readonly string[]): boolean {
  const keys = (texts[0] === OFF ? texts.slice(1) : texts).map(readEncryptionKey);
  const ids = new Set(keys.map((key) => key && idOfKey(key)));
  return keys.length > 0 && !ids.has(undefined) && ids.size === keys.length;
}

/** The 32 bytes of a key in base64 (of either alphabet) or hexadecimal; `undefined` if a text is not that. */
export function readEncryptionKey(text: string): Buffer | undefined {
  const bytes = /^[0-9a-f]{64}$/i.test(text)
    ? Buffer.from(text, "hex")
    : /^[A-Za-z0-9+/_-]{43}=?$/.test(text)
      ? Buffer.from(text, "base64")
      : undefined;
  return bytes?.length === KEY && new Set(bytes).size >= DIFFERENT ? bytes : undefined;
}

/** Names a key in stored values, messages and logs: 8 hexadecimal digits, from which nothing of the key follows. */
export function idOfKey(key: Buffer): string {
  return Buffer.from(hkdfSync("sha256", key, "", "agent-control-service: id of a key", 4)).toString("hex");
}

/**
 * The keys that a store is encrypted with: the first one seals, all open. Values are sealed with AES-256-GCM, with keys that
 * are derived from it: a new one for each start of a process and every 268 million values, so that no number of values has
 * to be watched.
 */
export class Keyring {
  readonly #keys = new Map<string, Buffer>();
  readonly #derived = new Map<string, KeyObject>();
  readonly #first: string | undefined;
  #current: { readonly key: KeyObject; readonly head: Buffer; left: number } | undefined;
  /** Random bytes for the next nonces: each call for them costs more than it needs. */
  readonly #random = Buffer.alloc(NONCE * 256);
  #used = this.#random.length;

  /** The texts of keys; `off` as the first one has none seal. None at all opens and seals nothing. */
  constructor(texts: readonly string[] = []) {
    for (const text of texts) {
      const key = text === OFF ? undefined : readEncryptionKey(text);
      if (key) this.#keys.set(idOfKey(key), key);
    }
    [this.#first] = texts[0] === OFF ? [] : this.#keys.keys();
  }

  /** The id of the key that seals; `undefined` where nothing is sealed. */
  get sealsWith(): string | undefined {
    return this.#first;
  }

  /** What no output may have: the keys as they were given, and in the other forms. */
  get secrets(): string[] {
    return [...this.#keys.values()].flatMap((key) =>
      (["base64", "base64url", "hex"] as const).map((form) => key.toString(form)),
    );
  }

  /** Whether there is no key at all. */
  get isEmpty(): boolean {
    return this.#keys.size === 0;
  }

  has(id: string): boolean {
    return this.#keys.has(id);
  }

  /** Seals bytes for a place, with the first key. */
  seal(bytes: Uint8Array | string, place: Place): Buffer {
    const { key, head } = this.#next();
    const nonce = this.#nonce();
    const cipher = createCipheriv("aes-256-gcm", key, nonce);
    cipher.setAAD(bound(head, place));
    const text = typeof bytes === "string" ? cipher.update(bytes, "utf8") : cipher.update(bytes);
    return Buffer.concat([head, nonce, text, cipher.final(), cipher.getAuthTag()]);
  }

  /** The bytes of a sealed value. Throws, with `what` in the message, if its key is missing or it is not as it was sealed there. */
  open(sealed: Buffer, place: Place, what: string): Buffer {
    if (sealed.length < AT.text + TAG || sealed[0] !== VERSION) throw damaged(what);
    const id = sealed.toString("hex", AT.id, AT.salt);
    const key = this.#keys.get(id);
    if (key === undefined) throw missingKey(what, id);
    const salt = sealed.subarray(AT.salt, AT.nonce);
    const decipher = createDecipheriv(
      "aes-256-gcm",
      this.#derive(key, id, salt),
      sealed.subarray(AT.nonce, AT.text),
      { authTagLength: TAG },
    );
    decipher.setAAD(bound(sealed.subarray(0, AT.nonce), place));
    decipher.setAuthTag(sealed.subarray(sealed.length - TAG));
    try {
      const text = decipher.update(sealed.subarray(AT.text, sealed.length - TAG));
      decipher.final();
      return text;
    } catch (cause) {
      throw damaged(what, cause);
    }
  }

  #nonce(): Buffer {
    if (this.#used === this.#random.length) {
      randomFillSync(this.#random);
      this.#used = 0;
    }
    this.#used += NONCE;
    return this.#random.subarray(this.#used - NONCE, this.#used);
  }

  #next(): { readonly key: KeyObject; readonly head: Buffer } {
    if (this.#current !== undefined && this.#current.left-- > 0) return this.#current;
    const id = this.#first;
    if (id === undefined) throw new TypeError("There is no key to encrypt with");
    const salt = randomBytes(AT.nonce - AT.salt);
    const head = Buffer.concat([Buffer.from([VERSION]), Buffer.from(id, "hex"), salt]);
    this.#current = { key: this.#derive(this.#keys.get(id)!, id, salt), head, left: MOST - 1 };
    return this.#current;
  }

  #derive(key: Buffer, id: string, salt: Buffer): KeyObject {
    const name = id + salt.toString("base64");
    const known = this.#derived.get(name);
    if (known !== undefined) return known;
    const bytes = hkdfSync("sha256", key, salt, "agent-control-service: values", KEY);
    const derived = createSecretKey(Buffer.from(bytes));
    const [oldest] = this.#derived.size < KEPT ? [] : this.#derived.keys();
    if (oldest !== undefined) this.#derived.delete(oldest);
    this.#derived.set(name, derived);
    return derived;
  }
}

/** Keys of somebody who has none. */
export const NO_KEYS = new Keyring();

function bound(head: Buffer, place: Place): Buffer {
  return Buffer.from(`${head.toString("base64")}${JSON.stringify(place)}`);
}

/** A value was sealed with a key that is not there. Nothing is wrong with the value. */
export function missingKey(what: string, id: string): Error {
  return new ServiceError("storage_error", `${what} is encrypted with the key ${id}, which is missing`, {
    detail:
      "Add that key to SERVICE_ENCRYPTION_KEYS (option encryption): after the first one, if another one encrypts by now.",
  });
}

function damaged(what: string, cause?: unknown): Error {
  return new ServiceError(
    "storage_error",
    `${what} cannot be decrypted: it is not what was encrypted there`,
    { detail: "It was changed, cut or moved from elsewhere. Restore it from a backup.", cause },
  );
}
