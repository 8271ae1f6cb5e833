import { createCipheriv, createDecipheriv, createPrivateKey, hkdfSync, randomBytes } from "node:crypto";

/**
 * Encrypts texts that only this service reads again, with a key that depends on its RSA key and on what they are for: one
 * for another purpose cannot be opened. AES-256-GCM.
 */
export class Seal {
  readonly #given: { readonly rsaPrivateKey: string; readonly purpose: string };
  #derived: Buffer | undefined;

  constructor(rsaPrivateKey: string, purpose: string) {
    this.#given = { rsaPrivateKey, purpose };
  }

  close(text: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", this.#key, nonce);
    const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return sealed.toString("base64url");
  }

  /** The text; `undefined` where it was not sealed by this service, for this purpose. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, "base64url");
    if (bytes.length < 28) return undefined;
    const decipher = createDecipheriv("aes-256-gcm", this.#key, bytes.subarray(0, 12), { authTagLength: 16 });
    decipher.setAuthTag(bytes.subarray(-16));
    try {
      return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString("utf8");
    } catch {
      return undefined;
    }
  }

  /** Derived at the first use: it takes milliseconds. */
  get #key(): Buffer {
    const { rsaPrivateKey, purpose } = this.#given;
    this.#derived ??= Buffer.from(
      hkdfSync(
        "sha256",
        createPrivateKey(rsaPrivateKey).export({ type: "pkcs8", format: "der" }),
        "",
        `svc ${purpose} 1`,
        32,
      ),
    );
    return this.#derived;
  }
}
