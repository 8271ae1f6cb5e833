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
  /** Answers nothing from now on, or again. */
  down(is: boolean): void;
}

/** Starts one for a client that may come back to any port of loopback. */
export async function startProvider(service: () => string, { refresh = true } = {}): Promise<TestProvider> {
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
    ],
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["groups"] },
    conformIdTokenClaims: false,
    issueRefreshToken: () => refresh,
    rotateRefreshToken: true,
    features: { devInteractions: { enabled: true } },
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
    signIn: (from, account) => walk(from, account, service()),
  };
}

/** What a browser does at the provider: follows redirects, fills in the two forms, keeps cookies. */
async function walk(from: string, account: string, service: string): Promise<string> {
  const cookies = new Map<string, string>();
  let url = from;
  let body: URLSearchParams | undefined;
  for (let steps = 0; steps < 15; steps++) {
    if (url.startsWith(`${service}/`)) return url;
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
