import { hash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";

/** Somebody with an account of GitHub. */
export interface GithubAccount {
  readonly id: number;
  readonly emails: { email: string; primary: boolean; verified: boolean }[];
  organizations: string[];
  teams: { organization: string; slug: string }[];
  /** Whether the person has taken the access of the app back. */
  isRevoked?: boolean;
}

/** What GitHub answers on loopback, as its documentation describes it: the code flow with PKCE, and the API. */
export interface TestGithub {
  readonly url: string;
  readonly accounts: Map<string, GithubAccount>;
  /** Agrees as an account; gives the address that leads back. */
  signIn(from: string, account: string): string;
  /** Answers this to all of the API from now on; undefined as usual. */
  fail(status: number | undefined, headers?: Record<string, string>): void;
}

interface Grant {
  readonly account: string;
  readonly challenge: string;
  readonly back: string;
}

export async function startGithub(): Promise<TestGithub> {
  const accounts = new Map<string, GithubAccount>();
  const grants = new Map<string, Grant>();
  const tokens = new Map<string, string>();
  let failure: { readonly status: number; readonly headers: Record<string, string> } | undefined;
  const answer = async (request: IncomingMessage): Promise<{ status: number; body: unknown }> => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://local");
    if (pathname === "/login/oauth/access_token") {
      const form = new URLSearchParams(await textOf(request));
      const grant = grants.get(form.get("code") ?? "");
      grants.delete(form.get("code") ?? "");
      const isRight =
        grant !== undefined &&
        form.get("client_secret") === "the-secret" &&
        form.get("redirect_uri") === grant.back &&
        hash("sha256", form.get("code_verifier") ?? "", "base64url") === grant.challenge;
      // GitHub says so with the status 200.
      if (!isRight) return { status: 200, body: { error: "bad_verification_code" } };
      const token = `gho_${randomBytes(8).toString("hex")}`;
      tokens.set(token, grant.account);
      return { status: 200, body: { access_token: token, token_type: "bearer", scope: "read:org" } };
    }
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
    const account = accounts.get(tokens.get(token) ?? "");
    if (!account || account.isRevoked) return { status: 401, body: { message: "Bad credentials" } };
    const page = (all: unknown[]) => {
      const [size, at] = [Number(searchParams.get("per_page")), Number(searchParams.get("page"))];
      return { status: 200, body: all.slice(size * (at - 1), size * at) };
    };
    const { id, emails, organizations, teams } = account;
    if (pathname === "/api/v3/user") return { status: 200, body: { id, login: tokens.get(token) } };
    if (pathname === "/api/v3/user/emails") return page(emails);
    if (pathname === "/api/v3/user/orgs") return page(organizations.map((login) => ({ login })));
    if (pathname === "/api/v3/user/teams")
      return page(teams.map(({ organization, slug }) => ({ slug, organization: { login: organization } })));
    return { status: 404, body: { message: "Not Found" } };
  };
  const server = createServer((request, response) => {
    const isFailing = failure !== undefined && request.url?.startsWith("/api/");
    void answer(request).then(({ status, body }) => {
      response.writeHead(isFailing ? failure!.status : status, {
        "content-type": "application/json",
        ...(isFailing && failure!.headers),
      });
      response.end(JSON.stringify(body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    accounts,
    signIn(from, account) {
      const asked = new URL(from).searchParams;
      const code = randomBytes(8).toString("hex");
      const back = asked.get("redirect_uri")!;
      grants.set(code, { account, challenge: asked.get("code_challenge")!, back });
      return `${back}?${new URLSearchParams({ code, state: asked.get("state")! })}`;
    },
    fail(status, headers = {}) {
      failure = status === undefined ? undefined : { status, headers };
    },
  };
}

async function textOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += String(chunk);
  return text;
}
