import type { Configuration, TokenEndpointResponse } from "openid-client";
import { isServiceError } from "../base/errors.ts";
import { isLoopback } from "../base/loopback.ts";
import type { GithubSignIn } from "./github.ts";
import type { Leaving, PersonProvider, ProviderTokens, Vouched } from "./identity-provider.ts";
import { orRefuse, refused, unreachable } from "./provider-answers.ts";
import type { Proven } from "./role-table.ts";

/** Seconds that GitHub has for a response. */
const TIMEOUT = 10;
/** Pages of organizations or teams, of a hundred each. */
const MOST_PAGES = 50;
const SCOPE = "read:user user:email read:org";

interface User {
  readonly id: number;
}
interface Email {
  readonly email: string;
  readonly primary: boolean;
  readonly verified: boolean;
}
interface Organization {
  readonly login: string;
}
interface Team {
  readonly slug: string;
  readonly organization: Organization;
}

/** Talks with GitHub, which has OAuth without OpenID Connect: who somebody is, its API says. */
export class GithubProvider implements PersonProvider {
  readonly #signIn: GithubSignIn;

  constructor(signIn: GithubSignIn) {
    this.#signIn = signIn;
  }

  get label(): string {
    return this.#signIn.label;
  }

  get issuer(): string {
    return this.#signIn.issuer;
  }

  async begin(back: string): Promise<{ readonly url: URL; readonly leaving: Leaving }> {
    const client = await import("openid-client");
    const leaving = { state: client.randomState(), nonce: "", verifier: client.randomPKCECodeVerifier() };
    const url = client.buildAuthorizationUrl(await this.#configuration(), {
      ...{ redirect_uri: back, scope: SCOPE, state: leaving.state },
      code_challenge: await client.calculatePKCECodeChallenge(leaving.verifier),
      code_challenge_method: "S256",
    });
    return { url, leaving };
  }

  async finish(address: URL, { state, verifier }: Leaving): Promise<Vouched> {
    const client = await import("openid-client");
    const configuration = await this.#configuration();
    const given = await orRefuse(() =>
      client.authorizationCodeGrant(configuration, address, {
        pkceCodeVerifier: verifier,
        expectedState: state,
      }),
    );
    const person = await this.#read(given.access_token);
    if (person === undefined) throw refused("GitHub does not accept the token that it has given");
    return { person, tokens: toTokens(given) };
  }

  async check(person: Proven, tokens: ProviderTokens): Promise<Vouched | undefined> {
    try {
      const known = tokens.access === undefined ? undefined : await this.#read(tokens.access);
      // The tokens of an OAuth app last; those of a GitHub App may end after hours.
      const vouched = known === undefined ? await this.#renew(tokens) : { person: known, tokens };
      return vouched?.person.subject === person.subject ? vouched : undefined;
    } catch (error) {
      if (isServiceError(error) && error.type === "unauthorized") return undefined;
      throw error;
    }
  }

  async #renew({ refresh }: ProviderTokens): Promise<Vouched | undefined> {
    if (refresh === undefined) return undefined;
    const client = await import("openid-client");
    const configuration = await this.#configuration();
    const given = await orRefuse(() => client.refreshTokenGrant(configuration, refresh));
    const person = await this.#read(given.access_token);
    return person && { person, tokens: { refresh, ...toTokens(given) } };
  }

  /** The owner of a token; `undefined` for one that is not valid, or no longer. */
  async #read(token: string): Promise<Proven | undefined> {
    const user = await this.#get<User>("/user", token);
    if (user === undefined) return undefined;
    const [emails, organizations, teams] = await Promise.all([
      this.#list<Email>("/user/emails", token),
      this.#list<Organization>("/user/orgs", token),
      this.#list<Team>("/user/teams", token),
    ]);
    const email = emails.find(({ primary, verified }) => primary && verified)?.email;
    return {
      issuer: this.issuer,
      subject: String(user.id),
      ...(email !== undefined && { email: email.toLowerCase() }),
      groups: [
        ...organizations.map(({ login }) => login.toLowerCase()),
        ...teams.map(({ slug, organization: { login } }) => `${login}/${slug}`.toLowerCase()),
      ],
    };
  }

  async #list<T>(path: string, token: string): Promise<T[]> {
    const all: T[] = [];
    for (let page = 1; page <= MOST_PAGES; page++) {
      const items = await this.#get<T[]>(`${path}?per_page=100&page=${page}`, token);
      all.push(...(items ?? []));
      if (items === undefined || items.length < 100) return all;
    }
    throw refused(`GitHub lists more than ${MOST_PAGES * 100} at ${path}`);
  }

  /** What the API says; `undefined` where it does not accept the token. */
  async #get<T>(path: string, token: string): Promise<T | undefined> {
    let response: Response;
    let body: unknown;
    try {
      response = await fetch(this.#api() + path, {
        headers: {
          ...{ authorization: `Bearer ${token}`, accept: "application/vnd.github+json" },
          ...{ "user-agent": "agent-control-service", "x-github-api-version": "2022-11-28" },
        },
        redirect: "error",
        signal: AbortSignal.timeout(TIMEOUT * 1000),
      });
      body = await response.json();
    } catch (error) {
      throw unreachable(error);
    }
    if (response.status === 401) return undefined;
    const isLimited = response.status === 429 || response.headers.get("x-ratelimit-remaining") === "0";
    if ([403, 404].includes(response.status) && !isLimited)
      throw refused(
        `GitHub answers ${path.split("?")[0]} with ${response.status}: let the app read email addresses, and the members of organizations`,
      );
    if (!response.ok) throw unreachable(new Error(`GitHub answers ${path} with ${response.status}`));
    return body as T;
  }

  #api(): string {
    const { issuer } = this.#signIn;
    return issuer === "https://github.com" ? "https://api.github.com" : `${issuer}/api/v3`;
  }

  async #configuration(): Promise<Configuration> {
    const client = await import("openid-client");
    const { issuer, clientId, clientSecret } = this.#signIn;
    const places = {
      issuer,
      authorization_endpoint: `${issuer}/login/oauth/authorize`,
      token_endpoint: `${issuer}/login/oauth/access_token`,
    };
    const found = new client.Configuration(
      places,
      clientId,
      undefined,
      client.ClientSecretPost(clientSecret),
    );
    found.timeout = TIMEOUT;
    const { protocol, hostname } = new URL(issuer);
    if (protocol === "http:" && isLoopback(hostname)) client.allowInsecureRequests(found);
    return found;
  }
}

function toTokens({ refresh_token, access_token }: TokenEndpointResponse): ProviderTokens {
  return { access: access_token, ...(refresh_token !== undefined && { refresh: refresh_token }) };
}
