import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import Provider from "oidc-provider";
import { onTestFinished } from "vitest";

/** An account of the identity provider. */
export interface Account {
  readonly email: string;
  email_verified: boolean;
  groups: string[];
}

/** A real identity provider on loopback. */
export interface TestProvider {
  readonly issuer: string;
  readonly accounts: Map<string, Account>;
  /** Signs in as an account by the provider's pages, from the service's link; gives the address that leads back. */
  signIn(from: string, account: string): Promise<string>;
  /** The same from any link, until an address that begins with `back`. */
  walk(from: string, account: string, back: string): Promise<string>;
  /** An access token for an account and a resource, as a program gets one, and the ID token that comes with it. */
  tokensFor(account: string, resource: string): Promise<{ readonly access: string; readonly id: string }>;
  /** The secret of the service from now on. */
  expectSecret(secret: string): Promise<void>;
  /** Answers nothing from now on, or again. */
  down(is: boolean): void;
}

/** Starts one for a client that may come back to any port of loopback. */
export async function startProvider(service: () => string, { refresh = true } = {}): Promise<TestProvider> {
  const program = "http://127.0.0.1/back";
  const accounts = new Map<string, Account>();
  let isDown = false;
  let provider: Provider;
  const server: Server = createServer((request, response) => {
    if (isDown) {
      response.writeHead(503).end();
      return;
    }
    void provider.callback()(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  // Another site than the service, for browsers.
  const issuer = `http://localhost:${(server.address() as AddressInfo).port}`;
  provider = new Provider(issuer, {
    clients: [
      {
        client_id: "the-service",
        client_secret: "a-client-secret-of-the-service",
        redirect_uris: [`${service()}/admin/sign-in/back`],
        grant_types: refresh ? ["authorization_code", "refresh_token"] : ["authorization_code"],
      },
      {
        ...{ client_id: "a-program", application_type: "native", token_endpoint_auth_method: "none" },
        ...{ redirect_uris: [program], grant_types: ["authorization_code"] },
      },
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
    conformIdTokenClaims: false,
    issueRefreshToken: () => refresh,
    rotateRefreshToken: true,
    features: {
      devInteractions: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => [],
        useGrantedResource: () => true,
        getResourceServerInfo: (_, audience) => ({
          ...{ scope: "openid", audience, accessTokenTTL: 600, accessTokenFormat: "jwt" },
        }),
      },
    },
    extraTokenClaims: (_, token) => {
      const account = accounts.get("accountId" in token ? String(token.accountId) : "");
      return account && { groups: account.groups };
    },
    findAccount: (_, id) => {
      const account = accounts.get(id);
      return account && { accountId: id, claims: () => ({ sub: id, ...account }) };
    },
  });
  provider.on("server_error", () => {});
  return {
    issuer,
    accounts,
    down: (is) => {
      isDown = is;
    },
    expectSecret: async (secret) => {
      const client = await provider.Client.find("the-service");
      Object.assign(client!, { clientSecret: secret });
    },
    signIn: (from, account) => walk(from, account, service()),
    walk,
    tokensFor: async (account, resource) => {
      const verifier = "v".repeat(64);
      const asked = new URL(`${issuer}/auth`);
      asked.search = new URLSearchParams({
        ...{
          client_id: "a-program",
          redirect_uri: program,
          response_type: "code",
          scope: "openid",
          resource,
        },
        code_challenge: createHash("sha256").update(verifier).digest("base64url"),
        code_challenge_method: "S256",
      }).toString();
      const back = new URL(await walk(asked.href, account, program));
      const response = await fetch(`${issuer}/token`, {
        method: "POST",
        body: new URLSearchParams({
          ...{ grant_type: "authorization_code", code: back.searchParams.get("code") ?? "", resource },
          ...{ client_id: "a-program", redirect_uri: program, code_verifier: verifier },
        }),
      });
      const given = (await response.json()) as { access_token?: string; id_token?: string };
      if (!given.access_token || !given.id_token) throw new Error(JSON.stringify(given));
      return { access: given.access_token, id: given.id_token };
    },
  };
}

/** What a browser does at the provider: follows redirects, fills in the two forms, keeps cookies. */
async function walk(from: string, account: string, service: string): Promise<string> {
  const cookies = new Map<string, string>();
  let url = from;
  let body: URLSearchParams | undefined;
  for (let steps = 0; steps < 15; steps++) {
    if (url.startsWith(`${service}/`) || url.startsWith(`${service}?`)) return url;
    const response = await fetch(url, {
      redirect: "manual",
      headers: { cookie: Array.from(cookies, ([name, value]) => `${name}=${value}`).join("; ") },
      ...(body && { method: "POST", body }),
    });
    body = undefined;
    for (const cookie of response.headers.getSetCookie()) {
      const [pair = ""] = cookie.split(";");
      cookies.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    const location = response.headers.get("location");
    if (location !== null) {
      url = new URL(location, url).href;
      continue;
    }
    const page = await response.text();
    const action = /<form[^>]*action="([^"]+)"/.exec(page)?.[1];
    const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1];
    if (action === undefined || prompt === undefined)
      throw new Error(`The provider answered ${response.status}: ${page}`);
    url = new URL(action, url).href;
    body = new URLSearchParams({ prompt, ...(prompt === "login" && { login: account, password: "any" }) });
  }
  throw new Error("The provider never led back");
}
