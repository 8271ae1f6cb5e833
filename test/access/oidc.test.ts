import { oidc } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { AUDIT, STORE } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { cookieOf, postForm } from "../admin/_sign-in.ts";
import { freePort, ROLES, start } from "./_signed-in.ts";

const whoami = (server: TestServer, cookie: string) =>
  fetch(`${server.url}/whoami`, { headers: { cookie, accept: "application/json" } });

describe("people who sign in at an identity provider", () => {
  it("find a button for it, and come back to the page that they wanted, with the role of their group", async () => {
    await using at = await start();

    const page = await (
      await fetch(`${at.server.url}/admin/jobs`, { headers: { accept: "text/html" } })
    ).text();
    const { response, kept, to } = await at.leave();
    const back = await at.as("ada");
    const who = await whoami(at.server, cookieOf(back));

    expect(page).toContain(`href="/admin/sign-in/person?next=%2Fadmin%2Fjobs"`);
    expect(response.status).toBe(303);
    expect(kept).toMatch(/^svc-sign-in=[\w-]+; Path=\/admin; HttpOnly; SameSite=Lax; Max-Age=600$/);
    const asked = new URL(to).searchParams;
    expect(asked.get("code_challenge_method")).toBe("S256");
    expect([asked.get("state"), asked.get("nonce")].every(Boolean)).toBe(true);
    expect(back.status).toBe(200);
    expect(await back.text()).toContain('content="0;url=/admin/jobs"');
    expect(await who.json()).toMatchObject({
      ...{ name: "ada@example.com", role: "operator", kind: "session", proven_by: at.provider.issuer },
    });
  });

  it("are in the audit log when they sign in, and the provider's tokens are stored encrypted", async () => {
    await using at = await start();

    await at.as("ada");

    const { items } = await at.server.service.get(AUDIT).list({ action: "session.begin" });
    expect(items[0]).toMatchObject({
      who: { kind: "session", name: "ada@example.com", proven: at.provider.issuer },
      after: { with: "person" },
    });
    const [row] = (await at.server.service.get(STORE).table("AdminSession").list()).items;
    expect(row?.tokens).toMatch(/^[\w-]{40,}$/);
    expect(Buffer.from(row!.tokens!, "base64url").toString("latin1")).not.toContain("refresh");
  });

  it.each([
    ["without a role", { groups: ["guests"] }],
    ["by an address that is not verified", { email: "boss@example.com", email_verified: false, groups: [] }],
  ])("do not get in %s, which the log says in a line each time", async (_, account) => {
    const log: string[] = [];
    await using at = await start({ logTo: (line) => log.push(line) });
    at.provider.accounts.set("eve", { email: "eve@example.com", email_verified: true, ...account });

    const back = await at.as("eve");
    await at.as("eve");

    expect([back.status, cookieOf(back)]).toEqual([403, ""]);
    expect(await back.text()).toContain("has no role in this service");
    const lines = log.filter((line) => line.includes("could not sign in"));
    expect(lines.map((line) => line.includes("has no role in this service"))).toEqual([true, true]);
    expect(lines.filter((line) => line.trim().includes("\n"))).toEqual([]);
  });

  it.each(["https://elsewhere.example/", "//elsewhere.example", "/admin\\@elsewhere", "/other"])(
    "are never led to %s",
    async (next) => {
      await using at = await start();

      expect(await (await at.as("ada", next)).text()).toContain('content="0;url=/admin/"');
    },
  );

  it("sign out by a page of the service only", async () => {
    await using at = await start();
    const cookie = cookieOf(await at.as("ada"));

    const foreign = await postForm(
      at.server,
      "/admin/session/end",
      {},
      { cookie, origin: "https://elsewhere.example" },
    );
    const still = (await whoami(at.server, cookie)).status;
    const own = await postForm(at.server, "/admin/session/end", {}, { cookie, origin: at.server.url });

    expect([foreign.status, still, own.status]).toEqual([403, 200, 303]);
    expect((await whoami(at.server, cookie)).status).toBe(401);
  });
});

describe("coming back from the provider opens nothing", () => {
  it("twice with the same code", async () => {
    await using at = await start();
    const { to, cookie } = await at.leave();
    const address = await at.provider.signIn(to, "ada");

    const first = await at.comeBack(address, cookie);
    const again = await at.comeBack(address, cookie);

    expect([first.status, again.status, cookieOf(again)]).toEqual([200, 401, ""]);
  });

  it("in a browser that did not leave, or left for another sign-in, or with a changed state", async () => {
    await using at = await start();
    const { to, cookie } = await at.leave();
    const other = await at.leave();
    const address = await at.provider.signIn(to, "ada");
    const changed = new URL(address);
    changed.searchParams.set("state", "x".repeat(43));

    const responses = [
      await at.comeBack(address, ""),
      await at.comeBack(address, other.cookie),
      await at.comeBack(changed.href, cookie),
      await at.comeBack(address, `${cookie.slice(0, -4)}AAAA`),
    ];

    expect(responses.map(({ status }) => status)).toEqual([401, 401, 401, 401]);
    expect(responses.map(cookieOf)).toEqual(["", "", "", ""]);
  });

  it("after ten minutes", async () => {
    await using at = await start();
    const { to, cookie } = await at.leave();
    const address = await at.provider.signIn(to, "ada");

    await at.server.advance("10m");

    expect((await at.comeBack(address, cookie)).status).toBe(401);
  });

  it("where the provider refuses, and the page says so", async () => {
    await using at = await start();
    const { to, cookie } = await at.leave();
    const state = new URL(to).searchParams.get("state")!;
    const back = `${at.server.url}/admin/sign-in/back?error=access_denied&state=${state}&iss=${encodeURIComponent(at.provider.issuer)}`;

    const response = await at.comeBack(back, cookie);

    expect(response.status).toBe(401);
    expect(await response.text()).toContain("access_denied");
  });

  it("with a session that somebody else has chosen", async () => {
    await using at = await start();
    const planted = `svc-admin=${"A".repeat(43)}`;
    const { to, cookie } = await at.leave();

    const back = await at.comeBack(await at.provider.signIn(to, "ada"), `${planted}; ${cookie}`);

    expect(cookieOf(back)).toMatch(/^svc-admin=[\w-]{43}$/);
    expect(cookieOf(back)).not.toBe(planted);
    expect((await whoami(at.server, planted)).status).toBe(401);
  });
});

describe.each([
  ["by refresh tokens", true],
  ["by the provider's word about the person", false],
])("within a minute, %s,", (_, refresh) => {
  it("a person whom the provider has removed is out", async () => {
    await using at = await start({ refresh });
    const cookie = cookieOf(await at.as("ada"));
    at.provider.accounts.delete("ada");

    await at.server.advance("61s");
    const after = await whoami(at.server, cookie);
    at.provider.accounts.set("ada", at.ada);

    expect([after.status, (await whoami(at.server, cookie)).status]).toEqual([401, 401]);
  });

  it("a person who has left a group has no longer its role, and one who has joined one has", async () => {
    await using at = await start({ refresh, roles: { "group:platform": "operator", "*": "viewer" } });
    const cookie = cookieOf(await at.as("ada"));

    const roles: unknown[] = [];
    for (const groups of [[], ["platform"]]) {
      at.ada.groups = groups;
      await at.server.advance("61s");
      roles.push(((await (await whoami(at.server, cookie)).json()) as { role: string }).role);
    }

    expect(roles).toEqual(["viewer", "operator"]);
  });

  it("a provider that does not answer lets nobody on, and does not end the session", async () => {
    await using at = await start({ refresh });
    const cookie = cookieOf(await at.as("ada"));

    at.provider.down(true);
    await at.server.advance("61s");
    const meanwhile = await whoami(at.server, cookie);
    at.provider.down(false);
    const after = await Promise.all(Array.from({ length: 10 }, () => whoami(at.server, cookie)));

    expect(meanwhile.status).toBe(503);
    expect(after.map(({ status }) => status)).toEqual(Array(10).fill(200));
  });
});

it("a client secret that is changed at the provider first signs nobody in, and nobody out", async () => {
  await using at = await start();
  const cookie = cookieOf(await at.as("ada"));

  await at.provider.expectSecret("another-secret-than-the-service-has");
  await at.server.advance("61s");
  const [meanwhile, signingIn] = [await whoami(at.server, cookie), await at.as("ada")];
  await at.provider.expectSecret("a-client-secret-of-the-service");
  const after = await whoami(at.server, cookie);

  expect([meanwhile.status, signingIn.status, after.status]).toEqual([503, 503, 200]);
  expect(await meanwhile.json()).toMatchObject({
    error: "The identity provider does not accept this service",
  });
});

describe("a session of a person", () => {
  it("ends when an administrator removes the person", async () => {
    await using at = await start();
    const cookie = cookieOf(await at.as("ada"));
    const [person] = (await (await at.server.request("/access/people")).json()) as { id: string }[];

    await at.server.request(`/access/people/${person!.id}`, { method: "DELETE" });

    expect((await whoami(at.server, cookie)).status).toBe(403);
    expect((await at.as("ada")).status).toBe(403);
  });

  it("is no longer valid where the code names another provider", async () => {
    await using at = await start();
    await at.as("ada");
    const table = at.server.service.get(STORE).table("AdminSession");
    const [row] = (await table.list()).items;
    const cookie = cookieOf(await at.as("ada"));
    const own = (await table.list()).items.find(({ id }) => id !== row!.id)!;
    await table.change(own.id, (one) => ({
      ...one,
      person: { ...one.person!, issuer: "https://former.example" },
    }));

    expect((await whoami(at.server, cookie)).status).toBe(401);
  });
});

it("a provider that cannot be found is an error on the page for signing in", async () => {
  const signIn = oidc({
    ...{ issuer: `http://127.0.0.1:${await freePort()}`, clientId: "a", clientSecret: "b", roles: ROLES },
  });
  await using server = await testServer({ agents: [greeter], access: { signIn } });

  const response = await fetch(`${server.url}/admin/sign-in/person`, { redirect: "manual" });

  expect(response.status).toBe(503);
  expect(await response.text()).toContain("cannot be asked who you are");
});

it.each([
  ["an issuer over http", { issuer: "http://login.example" }, "must be an address that begins with https://"],
  ["a scope without openid", { scope: "email" }, "openid"],
  ["no roles", { roles: {} }, "nobody else gets in"],
])("oidc refuses %s", (_, wrong, message) => {
  const options = { issuer: "https://login.example", clientId: "a", clientSecret: "b", roles: ROLES };
  expect(() => oidc({ ...options, ...wrong })).toThrow(message);
});
