import type { JWTPayload, JWTVerifyGetKey } from "jose";
import type { ServiceError } from "../base/errors.ts";

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
/** Codes of errors that mean that the token is wrong; any other one means that it could not be checked. */
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

/** What a signed token must say, and how one is refused that does not. */
export interface JwtRules {
  readonly keys: () => Promise<JWTVerifyGetKey>;
  readonly issuer: string;
  /** For one of these. */
  readonly audience: readonly string[];
  /** Seconds that the clocks of who signs and of this machine may differ. */
  readonly clockSkew: number;
  readonly now: Date;
  wrong(reason: string): ServiceError;
  /** Where it cannot be checked. */
  unchecked(cause: unknown): ServiceError;
}

/** The claims of a signed token: with its signature, issuer, audience and times checked. */
export async function verifyJwt(
  token: string,
  { keys, issuer, audience, clockSkew, now, wrong, unchecked }: JwtRules,
): Promise<JWTPayload & { readonly exp: number }> {
  let payload: JWTPayload;
  try {
    const { jwtVerify } = await import("jose");
    ({ payload } = await jwtVerify(token, await keys(), {
      ...{ issuer, audience: [...audience], clockTolerance: clockSkew, currentDate: now },
      algorithms: ALGORITHMS,
      requiredClaims: ["exp", "iat", "sub"],
    }));
  } catch (error) {
    const { code = "", message } = error as { readonly code?: string; readonly message: string };
    throw WRONG.has(code) ? wrong(message) : unchecked(error);
  }
  // The library checks it only with a limit of its own.
  if (payload.iat! > now.getTime() / 1000 + clockSkew)
    throw wrong("it was made in the future: compare the clocks of who has signed it and of this machine");
  return payload as JWTPayload & { readonly exp: number };
}
