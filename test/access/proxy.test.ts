import { proxyAuth } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { generateKeyPair } from "jose";
import { describe, expect, it } from "vitest";
import { assertStillIn } from "../../src/core/access/assert-still-in.ts";
import { ACCESS, AUDIT, PEOPLE } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { startInstances } from "../instances/_instances.ts";
import { AUDIENCE, type Issuer, type Said, startIssuer } from "./_issuer.ts";

const HEADER = "Cf-Access-Jwt-Assertion";
const ROLES: Parameters<typeof proxyAuth>[0]["roles"] = {
  "boss@example.com": "admin",
  "sub:robot-7": { role: "operator", agents: ["greeter"] },
  "group:finance": "answerer",
  "group:platform": "operator",
};

const signInOf = (issuer: Issuer, options: object = {}) =>
  proxyAuth({
    ...{ jwks: issuer.jwks, issuer: issuer.issuer, audience: AUDIENCE, header: HEADER, roles: ROLES },
    ...options,
  });

async function start(options: object = {}) {
  const issuer = await startIssuer();
  const server = await testServer({ agents: [greeter], access: { signIn: signInOf(issuer, options) } });
  /** Asks as a person whom the proxy vouches for. */
  const ask = async (said: Said | string = {}, path = "/whoami", init: object = {}) => {
    const assertion = typeof said === "string" ? said : await issuer.sign(said);
    return server.request(path, {
      key: null,
      ...init,
      headers: { accept: "application/json", [HEADER]: assertion, ...headersOf(init) },
    });
  };
  return { server, issuer, ask, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}
const headersOf = (init: { readonly headers?: Record<string, string> }) => init.headers ?? {};

async function refusal(response: Response): Promise<unknown[]> {
  const { error, detail } = (await response.json()) as { error: string; detail?: string };
  return [response.status, error, detail];
}

describe("people who come through a proxy", () => {
  it("have the role of their group, under a name that the issuer has verified", async () => {
    await using at = await start();

    const response = await at.ask({ groups: ["staff", "platform"], name: "The Boss" });

    expect([response.status, await response.json()]).toMatchObject([
      200,
      {
        ...{ name: "ada@example.com", kind: "session", role: "operator", proven_by: at.issuer.issuer },
        names: ["ada@example.com", "sub:ada-1", "group:staff", "group:platform"],
      },
    ]);
    const page = await at.ask({ groups: ["platform"] }, "/admin/api/stats");
    expect(page.status).toBe(200);
  });

  it.each([
    ["a line about the address, before groups", { email: "boss@example.com", groups: ["finance"] }, "admin"],
    ["a line about the subject", { sub: "robot-7" }, "operator"],
    ["the first line of the table, not the first group", { groups: ["platform", "finance"] }, "answerer"],
    ["a single group", { groups: "platform" }, "operator"],
    ["an address that is not verified", { email: "boss@example.com", email_verified: false }, undefined],
    ["an address in the name", { sub: "boss@example.com", name: "boss@example.com" }, undefined],
    ["a group that is named like a part of one", { groups: ["plat", "platform,finance"] }, undefined],
    ["a group with the name of a member of objects", { groups: ["__proto__", "constructor"] }, undefined],
    ["nothing", {}, undefined],
  ] as const)("get their role by %s", async (_, said, role) => {
    await using at = await start();

    const response = await at.ask(said);

    const who = (await response.json()) as { role?: string };
    expect([response.status, who.role]).toEqual([role === undefined ? 403 : 200, role]);
  });

  it("get in by the line for everybody, and by groups in a claim of another name", async () => {
    await using everybody = await start({ roles: { "*": "viewer" } });
    await using keycloak = await start({ groups: "realm_access.roles" });

    const one = await (await everybody.ask()).json();
    const two = await (await keycloak.ask({ realm_access: { roles: ["platform"] } })).json();

    expect([one, two]).toMatchObject([{ role: "viewer" }, { role: "operator" }]);
  });

  it("see only their agents where their role is limited to some", async () => {
    await using at = await start();

    const who = await at.ask({ sub: "robot-7" });
    const page = await at.ask({ sub: "robot-7" }, "/admin/api/audit");

    expect(await who.json()).toMatchObject({ agents: ["greeter"] });
    expect(page.status).toBe(403);
  });

  it("without a role get an error that says so, and nothing else", async () => {
    await using at = await start();

    expect(await refusal(await at.ask({ groups: ["guests"] }))).toEqual([
      403,
      "ada@example.com has no role in this service",
      "Ask an administrator of the service for one: it is given by e-mail address or group.",
    ]);
  });

  it.each([
    ["another role", ["finance"]],
    ["no role", ["staff"]],
  ])(
    "who has come with %s since has what was started before stopped, until the former one is back",
    async (_what, groups) => {
      await using at = await start();
      const { service } = at.server;
      await service.ready();
      const guards = { access: service.get(ACCESS), people: service.get(PEOPLE) };
      const person = { issuer: "https://proxy.example.com", subject: "ada", groups: ["platform"] };
      const by = guards.people.enter(person);
      const other = guards.people.enter({ ...person, subject: "eve" });
      const check = () => assertStillIn(guards, by);
      expect(check).not.toThrow();

      const come = () => guards.people.enter({ ...person, groups });
      if (groups.includes("staff")) expect(come).toThrow(/has no role/);
      else come();

      expect(check).toThrow(/no longer has the role operator/);
      expect(() => assertStillIn(guards, other)).not.toThrow();
      guards.people.enter(person);
      expect(check).not.toThrow();
    },
  );
});

describe("an assertion is refused", () => {
  const groups = ["platform"];
  it.each([
    ["for another audience", { aud: "another-service" }, /"aud"/],
    ["without an audience", { aud: undefined }, /"aud"/],
    ["by another issuer", { iss: "https://elsewhere.example" }, /"iss"/],
    ["that has expired, beyond the skew of clocks", { iat: -600, exp: -31 }, /"exp"/],
    ["without an end", { exp: undefined }, /"exp"/],
    ["without a beginning", { iat: undefined }, /"iat"/],
    ["from the future", { iat: 600 }, /made in the future/],
    ["that is not valid yet", { nbf: Math.floor(Date.now() / 1000) + 600 }, /"nbf"/],
    ["about nobody", { sub: "" }, /about nobody/],
  ] as const)("%s", async (_, said, reason) => {
    await using at = await start();

    const [status, error, detail] = await refusal(await at.ask({ groups, ...said }));

    expect([status, error]).toEqual([401, "The proxy's assertion of who you are is not valid"]);
    expect(detail).toMatch(reason);
  });

  it("that is tampered with, unsigned, or signed by somebody else", async () => {
    await using at = await start();
    const { privateKey } = await generateKeyPair("ES256");
    const own = await at.issuer.sign({ groups });
    const [head, , signature] = own.split(".");
    const claims = JSON.parse(Buffer.from(own.split(".")[1]!, "base64url").toString()) as object;
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const secret = new TextEncoder().encode("the-public-key-of-the-proxy-as-a-shared-secret");
    const forged = [
      `${head}.${encode({ ...claims, email: "boss@example.com" })}.${signature}`,
      `${encode({ alg: "none" })}.${encode(claims)}.`,
      `${own}, ${own}`,
      "boss@example.com",
      await at.issuer.sign({ groups }, { key: privateKey }),
      await at.issuer.sign({ groups }, { key: privateKey, kid: "two" }),
      await at.issuer.sign({ groups }, { alg: "HS256", key: secret }),
    ];

    const statuses = await Promise.all(forged.map(async (one) => (await at.ask(one)).status));

    expect(statuses).toEqual(forged.map(() => 401));
    expect((await at.ask(own)).status).toBe(200);
  });

  it("where nobody can tell: the keys of the proxy cannot be read", async () => {
    await using at = await start();
    at.issuer.fail();

    const response = await at.ask({ groups });

    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
  });

  it("where the names of people come without a signature", async () => {
    await using at = await start();

    const headers = { "x-forwarded-email": "boss@example.com", "x-forwarded-user": "boss" };
    const response = await at.server.request("/whoami", { key: null, headers });

    expect(response.status).toBe(401);
  });

  it("on the page for signing in, with the reason", async () => {
    await using at = await start();

    const page = await at.ask({ groups, aud: "another-service" }, "/admin/", {
      headers: { accept: "text/html" },
    });

    expect(page.status).toBe(401);
    expect(await page.text()).toContain("unexpected &quot;aud&quot; claim value");
  });

  it("by routes for programs, and accepted within the skew of clocks", async () => {
    await using at = await start();

    const machine = await at.ask({ groups }, "/jobs");
    const late = await at.ask({ groups, iat: -600, exp: -20 });
    const early = await at.ask({ groups, iat: 20 });

    expect([machine.status, late.status, early.status]).toEqual([401, 200, 200]);
  });
});

describe("a person of a proxy", () => {
  const groups = ["platform"];
  const write = { method: "POST", headers: { origin: "https://elsewhere.example" } };

  it("changes nothing by a page of another site", async () => {
    await using at = await start();
    const boss = { email: "boss@example.com" };

    const foreign = await at.ask(boss, "/admin/api/agents/greeter/pause", write);
    const own = await at.ask(boss, "/admin/api/agents/greeter/pause", {
      method: "POST",
      headers: { "sec-fetch-site": "same-origin" },
    });

    expect(foreign.status).toBe(403);
    expect(own.status).not.toBe(403);
  });

  it("is in the audit log with who vouches for it", async () => {
    await using at = await start();
    const json = { name: "partner", role: "starter" };

    const made = await at.ask({ email: "boss@example.com" }, "/access", {
      json,
      headers: { "sec-fetch-site": "same-origin" },
    });
    const { items } = await at.server.service.get(AUDIT).list({ action: "access.add" });

    expect(made.status).toBe(201);
    expect(items[0]?.who).toEqual({
      ...{ kind: "session", name: "boss@example.com", proven: at.issuer.issuer },
      access: expect.stringMatching(/^person:[0-9a-f]{32}$/),
    });
    expect(await at.server.service.get(AUDIT).verify()).toEqual({ lines: 1, problem: undefined });
  });

  it("counts as a wrong key in the audit log where its assertion is tampered with", async () => {
    await using at = await start();

    await at.ask("eyJ.eyJ.x");
    await at.server.service.close();

    expect(at.server.logs.join("\n")).toContain("key.rejected");
  });

  it("is out immediately once an administrator has removed it, with its streams, and in again once it is restored", async () => {
    await using at = await start();
    await at.ask({ groups });
    const [person] = (await (await at.server.request("/access/people")).json()) as { id: string }[];
    const stream = await at.ask({ groups }, "/admin/api/live");
    const reading = stream.text();

    const removed = await at.server.request(`/access/people/${person!.id}`, { method: "DELETE" });
    await reading;
    const after = await at.ask({ groups });
    const renamed = await at.ask({ groups, email: "another@example.com" });
    await at.server.request(`/access/people/${person!.id}/restore`, { method: "POST" });
    const again = await at.ask({ groups });

    expect(removed.status).toBe(200);
    expect(await refusal(after)).toMatchObject([403, "ada@example.com was removed from this service", {}]);
    expect([renamed.status, again.status]).toEqual([403, 200]);
  });

  it("has a stream for a minute at most, then shows the proxy again who it is", async () => {
    await using at = await start();

    const stream = await at.ask({ groups, exp: -28 }, "/admin/api/live");

    expect(stream.status).toBe(200);
    expect(await stream.text()).toContain("event: hello");
  });

  it("is out on every instance", async () => {
    const issuer = await startIssuer();
    const access = { signIn: signInOf(issuer) };
    const [one, two] = await startInstances([{ access }, { access }]);
    const headers = { [HEADER]: await issuer.sign({ groups }) };
    const askAt = async (at: TestServer) => (await at.request("/whoami", { key: null, headers })).status;
    const before = [await askAt(one!), await askAt(two!)];

    const list = async () => (await (await one!.request("/access/people")).json()) as { id: string }[];
    await expect.poll(async () => (await list()).length).toBe(1);
    await two!.request(`/access/people/${(await list())[0]!.id}`, { method: "DELETE" });

    expect(before).toEqual([200, 200]);
    expect(await askAt(two!)).toBe(403);
    await expect.poll(() => askAt(one!), { timeout: 10_000 }).toBe(403);
  });

  it("and a key or a session of the API key each keep what they may do", async () => {
    await using at = await start();

    const key = await at.ask({ groups }, "/whoami", { key: at.server.key });
    const wrong = await at.ask({ groups }, "/whoami", { key: "wrong" });

    expect(await key.json()).toMatchObject({ kind: "key", role: "admin", proven_by: null });
    expect(wrong.status).toBe(401);
  });
});

describe("the header Authorization", () => {
  it("has the assertion as bearer, or a key", async () => {
    await using at = await start({ header: "Authorization" });
    const send = (bearer: string) =>
      at.server.request("/whoami", { key: null, headers: { authorization: `Bearer ${bearer}` } });

    const person = await send(await at.issuer.sign({ groups: ["platform"] }));
    const key = await send(at.server.key);
    const wrong = await send("wrong");

    expect([await person.json(), await key.json()]).toMatchObject([
      { kind: "session", role: "operator" },
      { kind: "key", role: "admin" },
    ]);
    expect(wrong.status).toBe(401);
  });
});

describe("proxyAuth refuses", () => {
  const options = {
    ...{ jwks: "https://a.example/k", issuer: "https://a.example", audience: "me", header: "x-jwt" },
    roles: { "*": "viewer" } as Parameters<typeof proxyAuth>[0]["roles"],
  };
  it.each([
    ["keys over http", { jwks: "http://a.example/k" }, "must be an address that begins with https://"],
    ["no audience", { audience: [] }, "audience"],
    ["a skew of more than two minutes", { clockSkew: 121 }, "clockSkew"],
    ["no roles", { roles: {} }, "nobody else gets in"],
    ["a role that is none", { roles: { "*": "root" } }, '"*" must have one of the roles'],
    ["nobody", { roles: { finance: "viewer" } }, '"finance" is nobody'],
    ["a misspelled limit", { roles: { "*": { role: "viewer", agnets: ["x"] } } }, "agnets"],
    ["a misspelled option", { rolls: {} }, "rolls"],
  ])("%s", (_, wrong, message) => {
    expect(() => proxyAuth({ ...options, ...(wrong as object) })).toThrow(message);
  });

  it("an agent that does not exist, when the service starts", async () => {
    const roles = { "*": { role: "viewer", agents: ["nobody"] } } as const;
    const starting = testServer({ agents: [greeter], access: { signIn: proxyAuth({ ...options, roles }) } });

    await expect(starting).rejects.toThrow('The role of "*" names the agent "nobody", which does not exist');
  });

  it("a way to sign in that it does not know", async () => {
    const access = { signIn: { kind: "header" } as never };

    await expect(testServer({ agents: [greeter], access })).rejects.toThrow("access.signIn");
  });
});
