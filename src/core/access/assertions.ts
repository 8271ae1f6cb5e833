import type { JWTVerifyGetKey } from "jose";
import { ServiceError } from "../base/errors.ts";
import { readPerson } from "./claims.ts";
import type { ProxySignIn } from "./proxy-auth.ts";
import type { Proven } from "./role-table.ts";
import { verifyJwt } from "./verify-jwt.ts";

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
    const claims = await verifyJwt(assertion, {
      ...{ issuer, audience, clockSkew, wrong, unchecked },
      keys: () => this.#keys(),
      now: this.#clock(),
    });
    const person = readPerson(claims, { issuer, groups, trustsEmail: true });
    if (!person) throw wrong("it is about nobody: its claim sub is empty");
    return { person, until: new Date(claims.exp * 1000) };
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

function unchecked(cause: unknown): ServiceError {
  return new ServiceError(
    "unavailable",
    "Who you are cannot be checked: the keys of the proxy cannot be read",
    {
      cause,
      detail: "Try again later.",
      headers: { "retry-after": "5" },
    },
  );
}
