import { generateKeyPairSync } from "node:crypto";
import { request } from "node:http";
import {
  Client,
  type OAuthClientProvider,
  StreamableHTTPClientTransport,
  UnauthorizedError,
} from "@modelcontextprotocol/client";
import { decodeJwt, type JWTPayload, SignJWT } from "jose";
import { describe, expect, it, onTestFinished } from "vitest";
import { PEOPLE } from "../../src/core/service/tokens.ts";
import { mcp } from "../../src/mcp.ts";
import { start } from "./_signed-in.ts";

const open = (more: Parameters<typeof start>[0] = {}) => start({ plugins: [mcp()], ...more });
type Opened = Awaited<ReturnType<typeof open>>;

const PING = { jsonrpc: "2.0", id: 1, method: "tools/list" };

/** A message to MCP with a bearer token. */
function send({ server }: Opened, token: string, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(`${server.url}/mcp`, {
    method: "POST",
    headers: {
      ...{ "content-type": "application/json", accept: "application/json, text/event-stream" },
      ...{ "mcp-protocol-version": "2025-06-18", authorization: `Bearer ${token}`, ...headers },
    },
    body: JSON.stringify(PING),
  });
}

/** What a program keeps between its requests to the provider. */
class Kept implements OAuthClientProvider {
  readonly redirectUrl = "http://127.0.0.1/back";
  readonly clientMetadata = { redirect_uris: [this.redirectUrl], scope: "openid", client_name: "a test" };
  asked: URL | undefined;
  #verifier = "";
  #tokens: never | undefined;

  clientInformation() {
    return { client_id: "a-program", redirect_uris: [this.redirectUrl] };
  }
  tokens() {
    return this.#tokens;
  }
  saveTokens(tokens: unknown): void {
    this.#tokens = tokens as never;
  }
  redirectToAuthorization(url: URL): void {
    this.asked = url;
  }
  saveCodeVerifier(verifier: string): void {
    this.#verifier = verifier;
  }
  codeVerifier(): string {
    return this.#verifier;
  }
}

describe("MCP where people sign in at an identity provider", () => {
  it("lets the official client of a person in: it finds the provider, and calls an agent as that person", async () => {
    await using at = await open();
    const kept = new Kept();
    const transport = () =>
      new StreamableHTTPClientTransport(new URL(`${at.server.url}/mcp`), { authProvider: kept });
    const first = transport();
    const refused = await new Client({ name: "a-test", version: "1.0.0" })
      .connect(first)
      .catch((error: unknown) => error);
    const back = new URL(await at.provider.walk(kept.asked!.href, "ada", kept.redirectUrl));
    await first.finishAuth(back.searchParams);
    const client = new Client({ name: "a-test", version: "1.0.0" });
    onTestFinished(() => client.close());
    await client.connect(transport());
    const result = await client.callTool({ name: "greeter", arguments: { name: "Ada" } });

    expect(refused).toBeInstanceOf(UnauthorizedError);
    expect(kept.asked!.searchParams.get("resource")).toBe(`${at.server.url}/mcp`);
    expect(result.isError).not.toBe(true);
    const { items } = (await (await at.server.request("/admin/api/jobs")).json()) as {
      items: { status: string }[];
    };
    expect(items).toHaveLength(1);
    expect((await at.server.service.get(PEOPLE).list()).map(({ name }) => name)).toEqual([
      expect.stringMatching(/^ada/),
    ]);
  });

  it("says to who sends nothing where to learn it", async () => {
    await using at = await open();

    const response = await fetch(`${at.server.url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(PING),
    });
    const [, address = ""] =
      /resource_metadata="([^"]+)"/.exec(response.headers.get("www-authenticate") ?? "") ?? [];
    const metadata = await (await fetch(address)).json();

    expect(response.status).toBe(401);
    expect(response.headers.get("www-authenticate")).not.toContain("invalid_token");
    expect(address).toBe(`${at.server.url}/.well-known/oauth-protected-resource/mcp`);
    expect(metadata).toEqual({
      resource: `${at.server.url}/mcp`,
      authorization_servers: [at.provider.issuer],
      bearer_methods_supported: ["header"],
      resource_name: "agent-control-service",
    });
  });

  it("knows the person of a token with the role of its groups, and keys as before", async () => {
    await using at = await open();
    at.provider.accounts.set("eve", { email: "eve@example.com", email_verified: true, groups: ["guests"] });
    const resource = `${at.server.url}/mcp`;

    const ada = await send(at, (await at.provider.tokensFor("ada", resource)).access);
    const eve = await send(at, (await at.provider.tokensFor("eve", resource)).access);
    const key = await send(at, at.server.key);

    expect([ada.status, eve.status, key.status]).toEqual([200, 403, 200]);
    expect(await eve.text()).toContain("has no role in this service");
  });

  it("refuses a person who was removed here, and a token that has expired", async () => {
    await using at = await open();
    const { access } = await at.provider.tokensFor("ada", `${at.server.url}/mcp`);
    const before = (await send(at, access)).status;
    const people = at.server.service.get(PEOPLE);
    const [person] = await people.list();
    await people.remove(person!.id, { kind: "key" });
    const removed = (await send(at, access)).status;
    await people.restore(person!.id, { kind: "key" });
    const restored = (await send(at, access)).status;
    await at.server.advance("11m");
    const late = await send(at, access);

    expect([before, removed, restored, late.status]).toEqual([200, 403, 200, 401]);
    expect(late.headers.get("www-authenticate")).toContain('error="invalid_token"');
  });

  it("refuses tokens for another address, ID tokens, and those that somebody else has signed", async () => {
    await using at = await open();
    const resource = `${at.server.url}/mcp`;
    const { access, id } = await at.provider.tokensFor("ada", resource);
    const other = await at.provider.tokensFor("ada", "https://other.example.com/mcp");
    const claims = decodeJwt(access);
    const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const sign = (payload: JWTPayload, header = { alg: "RS256", kid: "own" }) =>
      new SignJWT(payload).setProtectedHeader(header).sign(keys.privateKey);
    const [head, body, signature] = access.split(".");
    const changed = Buffer.from(JSON.stringify({ ...claims, sub: "boss" })).toString("base64url");
    const none = Buffer.from(JSON.stringify({ alg: "none", typ: "at+jwt" })).toString("base64url");
    const realKid = JSON.parse(Buffer.from(head!, "base64url").toString()) as { kid: string };

    const tokens = {
      "for another address": other.access,
      "an ID token": id,
      "signed with another key": await sign(claims),
      "signed with another key, under the name of the right one": await sign(claims, {
        ...{ alg: "RS256", kid: realKid.kid },
      }),
      changed: `${head}.${changed}.${signature}`,
      "without a signature": `${none}.${body}.x`,
      "for the service as a whole": await sign({ ...claims, aud: at.server.url }),
    };
    const wrong: string[] = [];
    for (const [name, token] of Object.entries(tokens)) {
      const { status } = await send(at, token);
      if (status !== 401) wrong.push(`${name}: ${status}`);
    }

    expect(wrong).toEqual([]);
    expect((await send(at, access)).status).toBe(200);
  });

  it("accepts a token at no other route, and with a page of another origin nowhere", async () => {
    await using at = await open();
    const { access } = await at.provider.tokensFor("ada", `${at.server.url}/mcp`);

    const elsewhere = await Promise.all(
      ["/jobs", "/agents", "/access", "/admin/api/jobs"].map(async (path) => {
        // Not even one that was issued for its address.
        const own = await at.provider.tokensFor("ada", at.server.url + path);
        return fetch(at.server.url + path, {
          headers: { authorization: `Bearer ${own.access}`, accept: "application/json" },
        });
      }),
    );
    const page = await send(at, access, { origin: "https://elsewhere.example" });

    expect(elsewhere.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
    expect(page.status).toBe(403);
  });

  it("says 503, and not that a token is wrong, where the provider cannot be asked for its keys", async () => {
    await using at = await open();
    const { access } = await at.provider.tokensFor("ada", `${at.server.url}/mcp`);
    at.provider.down(true);
    const down = await send(at, access);
    at.provider.down(false);

    expect(down.status).toBe(503);
    expect((await send(at, access)).status).toBe(200);
  });

  it("believes the header Host on this machine only, where it does not know its address", async () => {
    await using at = await open({ isPublic: false });
    const { port } = new URL(at.server.url);
    const named = `http://localhost:${port}/mcp`;
    const { access } = await at.provider.tokensFor("ada", named);
    const foreign = await at.provider.tokensFor("ada", `http://other.example.com:${port}/mcp`);
    const post = (host: string, token: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { "content-type": "application/json", host, authorization: `Bearer ${token}` };
        const sent = request(
          { ...{ host: "127.0.0.1", port, path: "/mcp", method: "POST", headers } },
          (response) => {
            response.resume();
            resolve(response.statusCode);
          },
        );
        sent.on("error", reject).end(JSON.stringify(PING));
      });

    expect(await post(`localhost:${port}`, access)).toBe(200);
    expect(await post(`other.example.com:${port}`, foreign.access)).toBe(401);
    expect(await post(`127.0.0.1:${port}`, access)).toBe(401);
  });
});
