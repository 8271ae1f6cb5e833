import type { Configuration, TokenEndpointResponse, TokenEndpointResponseHelpers } from "openid-client";
import { ServiceError } from "../base/errors.ts";
import { isLoopback } from "../base/loopback.ts";
import { readPerson } from "./claims.ts";
import type { OidcSignIn } from "./oidc.ts";
import { orRefuse, refused, unreachable } from "./provider-answers.ts";
import type { Proven } from "./role-table.ts";

/** Seconds that the clocks of the provider and of this machine may differ. */
const SKEW = 30;
/** Seconds that the provider has for a response. */
const TIMEOUT = 10;

/** What the browser keeps, sealed, while the person is at the provider. */
export interface Leaving {
  readonly state: string;
  readonly nonce: string;
  readonly verifier: string;
}

/** With what the provider says later whether the person is still one of its own. */
export interface ProviderTokens {
  readonly refresh?: string;
  readonly access?: string;
}

/** Whom the provider vouches for. */
export interface Vouched {
  readonly person: Proven;
  readonly tokens: ProviderTokens;
}

type Tokens = TokenEndpointResponse & TokenEndpointResponseHelpers;

/** What signs people in and says later whether it still vouches for them. */
export type PersonProvider = Pick<IdentityProvider, "label" | "issuer" | "begin" | "finish" | "check">;

/** Talks with an identity provider with OpenID Connect. The library is loaded when the first person signs in. */
export class IdentityProvider {
  readonly #signIn: OidcSignIn;
  #found: Promise<Configuration> | undefined;

  constructor(signIn: OidcSignIn) {
    this.#signIn = signIn;
  }

  get label(): string {
    return this.#signIn.label;
  }

  get issuer(): string {
    return this.#signIn.issuer;
  }

  /** Where the browser goes to sign in, and what it keeps meanwhile. */
  async begin(back: string): Promise<{ readonly url: URL; readonly leaving: Leaving }> {
    const client = await import("openid-client");
    const leaving = {
      state: client.randomState(),
      nonce: client.randomNonce(),
      verifier: client.randomPKCECodeVerifier(),
    };
    const url = client.buildAuthorizationUrl(await this.#configuration(), {
      ...this.#signIn.parameters,
      ...{ redirect_uri: back, scope: this.#signIn.scope, state: leaving.state, nonce: leaving.nonce },
      code_challenge: await client.calculatePKCECodeChallenge(leaving.verifier),
      code_challenge_method: "S256",
    });
    return { url, leaving };
  }

  /** Who came back, from the address that the provider sent the browser to; throws `unauthorized` where that is not proven. */
  async finish(address: URL, { state, nonce, verifier }: Leaving): Promise<Vouched> {
    const client = await import("openid-client");
    const configuration = await this.#configuration();
    const tokens = await orRefuse(() =>
      client.authorizationCodeGrant(configuration, address, {
        ...{ pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true },
      }),
    );
    const claims = tokens.claims();
    const told =
      tokens.access_token === undefined ? {} : await this.#userInfo(tokens.access_token, claims!.sub);
    return { person: this.#toPerson({ ...told, ...claims }), tokens: toTokens(tokens) };
  }

  /**
   * Whether the provider still vouches for a person, with what it says now; `undefined` where it does not. Throws
   * `unavailable` where it cannot be asked.
   */
  async check(person: Proven, tokens: ProviderTokens): Promise<Vouched | undefined> {
    try {
      if (tokens.refresh === undefined) {
        if (tokens.access === undefined) return undefined;
        const claims = await this.#userInfo(tokens.access, person.subject);
        return { person: this.#toPerson(claims), tokens };
      }
      const client = await import("openid-client");
      const configuration = await this.#configuration();
      const fresh = await orRefuse(() => client.refreshTokenGrant(configuration, tokens.refresh!));
      const claims = fresh.claims();
      if (claims !== undefined && claims.sub !== person.subject) return undefined;
      const told = await this.#userInfo(fresh.access_token, person.subject);
      const now = this.#toPerson({ ...claims, ...told });
      return { person: now, tokens: { refresh: tokens.refresh, ...toTokens(fresh) } };
    } catch (error) {
      if (error instanceof ServiceError && error.type === "unauthorized") return undefined;
      throw error;
    }
  }

  /** Where the provider publishes the public keys that it signs with. */
  async keysAt(): Promise<URL> {
    const { jwks_uri } = (await this.#configuration()).serverMetadata();
    if (jwks_uri === undefined) throw unreachable(new Error("its configuration has no jwks_uri"));
    return new URL(jwks_uri);
  }

  async #userInfo(accessToken: string, subject: string): Promise<Record<string, unknown>> {
    const client = await import("openid-client");
    const configuration = await this.#configuration();
    if (configuration.serverMetadata().userinfo_endpoint === undefined) return {};
    return { ...(await orRefuse(() => client.fetchUserInfo(configuration, accessToken, subject))) };
  }

  #toPerson(claims: Record<string, unknown>): Proven {
    const { issuer, groups } = this.#signIn;
    const person = readPerson(claims, { issuer, groups, trustsEmail: false });
    if (person) return person;
    throw refused("the provider named nobody");
  }

  #configuration(): Promise<Configuration> {
    this.#found ??= this.#discover().catch((error: unknown) => {
      // The next person who signs in tries again.
      this.#found = undefined;
      throw unreachable(error);
    });
    return this.#found;
  }

  async #discover(): Promise<Configuration> {
    const client = await import("openid-client");
    const { issuer, clientId, clientSecret } = this.#signIn;
    const url = new URL(issuer);
    const isLocal = url.protocol === "http:" && isLoopback(url.hostname);
    const metadata = { client_secret: clientSecret, [client.clockTolerance]: SKEW };
    const found = await client.discovery(url, clientId, metadata, undefined, {
      timeout: TIMEOUT,
      ...(isLocal && { execute: [client.allowInsecureRequests] }),
    });
    // The connection to the provider proves who signed; its signature proves it once more.
    client.enableNonRepudiationChecks(found);
    return found;
  }
}

function toTokens({ refresh_token, access_token }: Tokens): ProviderTokens {
  return {
    ...(refresh_token !== undefined && { refresh: refresh_token }),
    ...(access_token !== undefined && { access: access_token }),
  };
}
