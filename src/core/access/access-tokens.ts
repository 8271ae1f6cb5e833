import type { JWTVerifyGetKey } from "jose";
import { isServiceError, ServiceError } from "../base/errors.ts";
import type { Asserted } from "./assertions.ts";
import { readPerson } from "./claims.ts";
import type { IdentityProvider } from "./identity-provider.ts";
import type { OidcSignIn } from "./oidc.ts";
import { verifyJwt } from "./verify-jwt.ts";

/** Seconds that the clocks of the provider and of this machine may differ. */
const SKEW = 30;

/** Verifies access tokens that the identity provider has issued to programs that people use. */
export class AccessTokens {
  readonly #signIn: OidcSignIn;
  readonly #provider: Pick<IdentityProvider, "keysAt">;
  readonly #clock: () => Date;
  #found: Promise<JWTVerifyGetKey> | undefined;

  constructor(signIn: OidcSignIn, provider: Pick<IdentityProvider, "keysAt">, clock: () => Date) {
    this.#signIn = signIn;
    this.#provider = provider;
    this.#clock = clock;
  }

  /** Who issues them. */
  get issuer(): string {
    return this.#signIn.issuer;
  }

  /**
   * The person for whom a token was issued that is for the resource with this address, and no other one; throws
   * `unauthorized` where it is wrong, `unavailable` where it cannot be checked.
   */
  async verify(token: string, resource: string): Promise<Asserted> {
    const { issuer, groups } = this.#signIn;
    const claims = await verifyJwt(token, {
      ...{ issuer, audience: [resource], clockSkew: SKEW, wrong, unchecked },
      keys: () => this.#keys(),
      now: this.#clock(),
    });
    const person = readPerson(claims, { issuer, groups, trustsEmail: false });
    if (!person) throw wrong("it is for nobody: its claim sub is empty");
    return { person, until: new Date(claims.exp * 1000) };
  }

  #keys(): Promise<JWTVerifyGetKey> {
    this.#found ??= this.#find().catch((error: unknown) => {
      // The next one who comes tries again.
      this.#found = undefined;
      throw error;
    });
    return this.#found;
  }

  async #find(): Promise<JWTVerifyGetKey> {
    const [{ createRemoteJWKSet }, url] = await Promise.all([import("jose"), this.#provider.keysAt()]);
    return createRemoteJWKSet(url);
  }
}

function wrong(reason: string): ServiceError {
  return new ServiceError("unauthorized", "The access token is not valid here", {
    detail: `It was refused: ${reason}.`,
  });
}

function unchecked(cause: unknown): ServiceError {
  if (isServiceError(cause)) return cause;
  return new ServiceError("unavailable", "The identity provider cannot be asked who you are", {
    cause,
    detail: "Try again later; the service's log says why.",
    headers: { "retry-after": "5" },
  });
}
