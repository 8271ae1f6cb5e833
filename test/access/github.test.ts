import { oidc } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { IdentityProvider } from "../../src/core/access/identity-provider.ts";
import type { OidcSignIn } from "../../src/core/access/oidc.ts";
import { greeter } from "../_setup.ts";
import { type GithubAccount, startGithub } from "./_github.ts";
import { startProvider } from "./_provider.ts";

const { github, google } = oidc;
const ROLES: Parameters<typeof github>[0]["roles"] = {
  "group:acme/platform": "operator",
  "group:acme": "viewer",
  "ada@example.com": "admin",
};
const account = (more: Partial<GithubAccount> = {}): GithubAccount => ({
  id: 7,
  emails: [{ email: "Ada@Example.com", primary: true, verified: true }],
  ...{ organizations: ["Acme"], teams: [] },
  ...more,
});

async function start() {
  const hub = await startGithub();
  const app = { clientId: "the-app", clientSecret: "the-secret", roles: ROLES, url: hub.url };
  let ahead = 0;
  const server = await testServer({
    agents: [greeter],
    access: { signIn: github(app) },
    clock: () => new Date(Date.now() + ahead),
  });
  const leave = async () => {
    const response = await fetch(`${server.url}/admin/sign-in/person`, { redirect: "manual" });
    return {
      to: response.headers.get("location")!,
      kept: response.headers.getSetCookie()[0]!.split(";")[0]!,
    };
  };
  const comeBack = (address: string, cookie: string) =>
    fetch(address.replace(new URL(address).origin, server.url), {
      redirect: "manual",
      headers: { cookie, accept: "text/html" },
    });
  return {
    ...{ hub, server, leave, comeBack },
    later: (ms: number) => {
      ahead += ms;
    },
    async as(name: string) {
      const { to, kept } = await leave();
      const response = await comeBack(hub.signIn(to, name), kept);
      const cookie = response.headers
        .getSetCookie()
        .find((one) => one.startsWith("svc-admin="))
        ?.split(";")[0];
      return { status: response.status, text: await response.text(), cookie: cookie ?? "" };
    },
    who: async (cookie: string) => {
      const response = await fetch(`${server.url}/whoami`, {
        headers: { cookie, accept: "application/json" },
      });
      return { status: response.status, ...((await response.json()) as { role?: string; names?: string[] }) };
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

it("people sign in with GitHub: teams and organizations are groups, and a verified address counts", async () => {
  await using at = await start();
  const many = Array.from({ length: 230 }, (_, n) => `org-${n}`);
  const team = [{ organization: "Acme", slug: "platform" }];
  at.hub.accounts.set("viewer", account({ emails: [], id: 1 }));
  at.hub.accounts.set(
    "operator",
    account({ emails: [], id: 2, organizations: [...many, "acme"], teams: team }),
  );
  at.hub.accounts.set("admin", account({ organizations: [] }));
  const unverified = [{ email: "ada@example.com", primary: true, verified: false }];
  at.hub.accounts.set("nobody", account({ emails: unverified, id: 3, organizations: ["other"] }));

  const roles = await Promise.all(
    ["viewer", "operator", "admin", "nobody"].map(async (name) => {
      const { cookie, status: signedIn } = await at.as(name);
      if (cookie === "") return [name, signedIn];
      const { status, role, names } = await at.who(cookie);
      return [name, status, role, names?.includes("group:acme/platform")];
    }),
  );

  expect(roles).toEqual([
    ["viewer", 200, "viewer", false],
    ["operator", 200, "operator", true],
    ["admin", 200, "admin", false],
    ["nobody", 403],
  ]);
});

it("a code of GitHub signs in once, only the browser that began, and only with its secret", async () => {
  await using at = await start();
  at.hub.accounts.set("ada", account());
  const one = await at.leave();
  const other = await at.leave();
  const address = at.hub.signIn(one.to, "ada");

  const stolen = await at.comeBack(address, other.kept);
  const first = await at.comeBack(address, one.kept);
  const again = await at.comeBack(address, one.kept);

  expect([stolen.status, first.status, again.status]).toEqual([401, 200, 401]);
});

it("who leaves an organization, or takes the access back, is out within a minute; an outage is not that", async () => {
  await using at = await start();
  const ada = account({ emails: [] });
  const bob = account({ emails: [], id: 8 });
  at.hub.accounts.set("ada", ada).set("bob", bob);
  const [adas, bobs] = [(await at.as("ada")).cookie, (await at.as("bob")).cookie];
  expect([(await at.who(adas)).status, (await at.who(bobs)).status]).toEqual([200, 200]);

  ada.organizations = [];
  bob.isRevoked = true;
  const early = await at.who(adas);
  at.later(61_000);
  const [left, revoked] = [await at.who(adas), await at.who(bobs)];

  expect(early.status).toBe(200);
  expect([left.status, revoked.status]).toEqual([403, 401]);

  at.hub.accounts.set("eve", account({ emails: [], id: 9 }));
  const { cookie } = await at.as("eve");
  at.later(61_000);
  at.hub.fail(403, { "x-ratelimit-remaining": "0" });
  const limited = await at.who(cookie);
  at.hub.fail(502);
  const down = await at.who(cookie);
  at.hub.fail(undefined);
  const back = await at.who(cookie);

  expect([limited.status, down.status, back.status]).toEqual([503, 503, 200]);
});

it("an app that may not read what roles are given by signs nobody in, and says what it needs", async () => {
  await using at = await start();
  at.hub.accounts.set("ada", account());
  at.hub.fail(403);

  const { status, text } = await at.as("ada");

  expect([status, text]).toEqual([401, expect.stringContaining("let the app read email addresses")]);
});

it("Google gets what it needs to vouch for a person later, and the domain of a Workspace is a group", async () => {
  const signIn = google({
    ...{ clientId: "the-service", clientSecret: "a-client-secret-of-the-service" },
    roles: { "group:example.com": "viewer" },
  }) as OidcSignIn;
  const provider = await startProvider(() => "http://127.0.0.1:1");
  const here = new IdentityProvider({ ...signIn, issuer: provider.issuer });

  const { url } = await here.begin("http://127.0.0.1:1/admin/sign-in/back");

  expect(signIn).toMatchObject({
    kind: "oidc",
    issuer: "https://accounts.google.com",
    groups: "hd",
    label: "Google",
  });
  expect(Object.fromEntries(url.searchParams)).toMatchObject({
    ...{ access_type: "offline", prompt: "consent", scope: "openid email profile" },
    ...{ client_id: "the-service", code_challenge_method: "S256", response_type: "code" },
  });
});

it("options of GitHub and Google that are not known are refused by name", () => {
  const given = { clientId: "a", clientSecret: "b", roles: { "*": "viewer" } } as const;

  expect(() => github({ ...given, organisation: "acme" } as never)).toThrow(/organisation/);
  expect(() => github({ ...given, url: "http://github.example.com" })).toThrow("url of oidc.github");
  expect(() => google({ ...given, domain: "example.com" } as never)).toThrow(/domain/);
});
