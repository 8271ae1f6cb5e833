import type { JWTPayload, JWTVerifyGetKey } from "jose";
import { ServiceError } from "../base/errors.ts";
import { readPerson } from "./claims.ts";
import type { ProxySignIn } from "./proxy-auth.ts";
import type { Proven } from "./role-table.ts";

/** Signatures by a key pair: one with a shared secret could be made by anyone who checks it. */
const ALGORITHMS = [
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
  "ES256",
  "ES384",
  "ES512",
  "EdDSA",
  "Ed25519",
];
/** Codes of errors that mean that the assertion is wrong; any other one means that it could not be checked. */
const WRONG = new Set([
  "ERR_JWT_EXPIRED",
  "ERR_JWT_CLAIM_VALIDATION_FAILED",
  "ERR_JWT_INVALID",
  "ERR_JWS_INVALID",
  "ERR_JWS_SIGNATURE_VERIFICATION_FAILED",
  "ERR_JOSE_ALG_NOT_ALLOWED",
  "ERR_JOSE_NOT_SUPPORTED",
  "ERR_JWKS_NO_MATCHING_KEY",
  "ERR_JWKS_MULTIPLE_MATCHING_KEYS",
]);

/** A person whom the proxy has vouched for, and until when. */
export interface Asserted {
  readonly person: Proven;
  readonly until: Date;
}

/** Verifies what a proxy says about people. */
export class Assertions {
  readonly #signIn: ProxySignIn;
  readonly #clock: () => Date;
  #key: Promise<JWTVerifyGetKey> | undefined;

  constructor(signIn: ProxySignIn, clock: () => Date) {
    this.#signIn = signIn;
    this.#clock = clock;
  }

  /** The person of an assertion; throws `unauthorized` where it is wrong, `unavailable` where it cannot be checked. */
  async verify(assertion: string): Promise<Asserted> {
    const { issuer, audience, clockSkew, groups } = this.#signIn;
    const payload = await this.#verify(assertion, {
      issuer,
      audience: [...audience],
      clockTolerance: clockSkew,
    });
    // The library checks neither without a limit of its own.
    if (payload.iat! > this.#clock().getTime() / 1000 + clockSkew)
      throw wrong("it was made in the future: compare the clocks of the proxy and of this machine");
    const person = readPerson(payload, { issuer, groups, trustsEmail: true });
    if (!person) throw wrong("it is about nobody: its claim sub is empty");
    return { person, until: new Date(payload.exp! * 1000) };
  }

  async #verify(
    assertion: string,
    options: { readonly issuer: string; readonly audience: string[]; readonly clockTolerance: number },
  ): Promise<JWTPayload> {
    try {
      const { jwtVerify } = await import("jose");
      const { payload } = await jwtVerify(assertion, await this.#keys(), {
        ...options,
        algorithms: ALGORITHMS,
        requiredClaims: ["exp", "iat", "sub"],
        currentDate: this.#clock(),
      });
      return payload;
    } catch (error) {
      const { code = "", message } = error as { readonly code?: string; readonly message: string };
      if (WRONG.has(code)) throw wrong(message);
      throw new ServiceError(
        "unavailable",
        "Who you are cannot be checked: the keys of the proxy cannot be read",
        {
          cause: error,
          detail: "Try again later.",
          headers: { "retry-after": "5" },
        },
      );
    }
  }

  /** Published keys are read again after ten minutes, and for a signature by one that is not known. */
  #keys(): Promise<JWTVerifyGetKey> {
    this.#key ??= import("jose").then(({ createLocalJWKSet, createRemoteJWKSet }) => {
      const { jwks } = this.#signIn;
      return typeof jwks === "string"
        ? createRemoteJWKSet(new URL(jwks))
        : createLocalJWKSet(jwks as Parameters<typeof createLocalJWKSet>[0]);
    });
    return this.#key;
  }
}

function wrong(reason: string): ServiceError {
  return new ServiceError("unauthorized", "The proxy's assertion of who you are is not valid", {
    detail: `It was refused: ${reason}.`,
  });
}
