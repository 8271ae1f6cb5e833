import { createHash, createPrivateKey, generateKeyPair, type JsonWebKey, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import type { Parameters } from "../agents/parameters.ts";
import type { AuditLog, AuditUnit } from "../audit/audit-log.ts";
import { type Actor, SYSTEM } from "../audit/caller.ts";
import type { Ledger } from "../entities/ledger.ts";
import type { SigningKey } from "../models/signing-key.ts";
import type { Store } from "../store/store.ts";

/** A public key that verifies signatures, as a JSON Web Key. */
export type VerifyingKey = JsonWebKey & { readonly kid: string; readonly alg: string };

/** A key to sign with, and the one that verifies that. */
export interface SigningPair {
  readonly privateKey: KeyObject;
  readonly jwk: VerifyingKey;
}

export interface SigningKeysParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly audit: AuditLog;
  /** The private key is stored encrypted, as parameters are. */
  readonly parameters: Pick<Parameters, "encrypt" | "decrypt" | "canOpen" | "renew">;
}

/**
 * The keys that the service signs with, which do nothing else. They are in the store, so that all instances have the same;
 * the present one is made when it is needed first. A former one still verifies what it has signed.
 */
export class SigningKeys {
  readonly #parts: SigningKeysParts;
  #known: SigningPair | undefined;

  constructor(parts: SigningKeysParts) {
    this.#parts = parts;
  }

  /** The key to sign with now. */
  async present(): Promise<SigningPair> {
    const row = await this.#row();
    if (row && row.kid === this.#known?.jwk.kid) return this.#known;
    if (row?.sealed && this.#parts.parameters.canOpen(row.sealed)) return this.#open(row);
    // Its RSA key may be lost: what it has signed can still be verified.
    await this.#replace(row?.kid, SYSTEM);
    return this.#open((await this.#row())!);
  }

  /** The keys that verify what was signed, the present one first. */
  async verifying(): Promise<VerifyingKey[]> {
    const { jwk } = await this.present();
    const { items } = await this.#table.list({ limit: Number.POSITIVE_INFINITY });
    const former = items.filter(({ kid }) => kid !== jwk.kid).sort((a, b) => (a.since > b.since ? -1 : 1));
    return [jwk, ...former.map(toJwk)];
  }

  /** Replaces the present key. */
  async rotate(by: Actor): Promise<VerifyingKey> {
    await this.#replace((await this.#row())?.kid, by);
    return (await this.present()).jwk;
  }

  /** Encrypts the private key for the present RSA key, if it is for a former one; resolves with whether it was. */
  async renew(): Promise<boolean> {
    const { ledger, parameters } = this.#parts;
    const before = (await this.#row())?.sealed;
    const renewal = before ? parameters.renew(before) : undefined;
    if (renewal?.of !== "former") return false;
    return ledger.write(async ({ tx }) => {
      if ((await tx.get("SigningKey", PRESENT))?.sealed !== before) return false;
      await tx.change("SigningKey", PRESENT, (row) => ({ ...row, sealed: renewal.envelope }));
      return true;
    });
  }

  /** Makes a new key in place of this one, unless another instance has done so. */
  async #replace(kid: string | undefined, by: Actor): Promise<void> {
    const { audit, parameters } = this.#parts;
    const { privateKey } = await promisify(generateKeyPair)("ec", { namedCurve: "P-256" });
    const { x, y } = privateKey.export({ format: "jwk" }) as { x: string; y: string };
    const made = { kid: nameOfKey({ x, y }), x, y };
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const sealed = parameters.encrypt(pem);
    const change = async ({ tx, now }: AuditUnit): Promise<boolean> => {
      const before = await tx.get("SigningKey", PRESENT);
      if (before?.kid !== kid) return false;
      const next: SigningKey = { ...made, id: PRESENT, sealed, since: now, until: null };
      if (!before) {
        await tx.insert("SigningKey", next);
        return true;
      }
      await tx.insert("SigningKey", { ...before, id: before.kid, sealed: null, until: now });
      await tx.change("SigningKey", PRESENT, () => next);
      return true;
    };
    await audit.change(change, (isChanged) =>
      isChanged
        ? {
            by,
            action: "signing_key.changed",
            target: { kind: "key", id: "signing-key" },
            ...(kid !== undefined && { before: { kid } }),
            after: { kid: made.kid },
          }
        : undefined,
    );
  }

  #open(row: SigningKey): SigningPair {
    const privateKey = createPrivateKey(this.#parts.parameters.decrypt(row.sealed!));
    this.#known = { privateKey, jwk: toJwk(row) };
    return this.#known;
  }

  async #row(): Promise<Readonly<SigningKey> | undefined> {
    return this.#table.peek(PRESENT);
  }

  get #table() {
    return this.#parts.store.table("SigningKey");
  }
}

const PRESENT = "present";

function toJwk({ kid, x, y }: Pick<SigningKey, "kid" | "x" | "y">): VerifyingKey {
  return { kty: "EC", crv: "P-256", x, y, kid, alg: "ES256", use: "sig" };
}

/** The name of a key: RFC 7638. */
export function nameOfKey({ x, y }: Pick<SigningKey, "x" | "y">): string {
  return createHash("sha256")
    .update(JSON.stringify({ crv: "P-256", kty: "EC", x, y }))
    .digest("base64url");
}
