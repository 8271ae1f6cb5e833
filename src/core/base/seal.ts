import { createCipheriv, createDecipheriv, createPrivateKey, hkdfSync, randomBytes } from "node:crypto";

/**
 * Encrypts texts that only this service reads again, with a key that depends on its RSA key and on what they are for: one
 * for another purpose cannot be opened. AES-256-GCM.
 */
export class Seal {
  readonly #given: { readonly rsaPrivateKeys: readonly string[]; readonly purpose: string };
  #derived: readonly Buffer[] | undefined;

  /** Texts are sealed with the first RSA key; those that were sealed with one of the others are opened, too. */
  constructor(rsaPrivateKeys: readonly string[], purpose: string) {
    this.#given = { rsaPrivateKeys, purpose };
  }

  close(text: string): string {
    const nonce = randomBytes(12);
    const cipher = createCipheriv("aes-256-gcm", this.#keys[0]!, nonce);
    const sealed = Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]);
    return sealed.toString("base64url");
  }

  /** The text; `undefined` where it was not sealed by this service, for this purpose. */
  open(sealed: string): string | undefined {
    const bytes = Buffer.from(sealed, "base64url");
    if (bytes.length < 28) return undefined;
    for (const key of this.#keys) {
      const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, 12), { authTagLength: 16 });
      decipher.setAuthTag(bytes.subarray(-16));
      try {
        return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString("utf8");
      } catch {
        // It may have been sealed with another one.
      }
    }
    return undefined;
  }

  /** Derived at the first use: it takes milliseconds. */
  get #keys(): readonly Buffer[] {
    const { rsaPrivateKeys, purpose } = this.#given;
    this.#derived ??= rsaPrivateKeys.map((pem) => {
      const secret = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
      return Buffer.from(hkdfSync("sha256", secret, "", `svc ${purpose} 1`, 32));
    });
    return this.#derived;
  }
}
