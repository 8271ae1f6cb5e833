import { CLOCK, SIGN_IN_LINK } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { cookieOf, postForm, signIn } from "./_sign-in.ts";

const start = (options: object = {}) => testServer({ agents: [greeter], ...options });
const get = (server: TestServer, cookie: string, path = "/admin/api/stats") =>
  fetch(server.url + path, { headers: { cookie }, redirect: "manual" });

it("signing in with the key opens a session, and the page that one came for", async () => {
  await using server = await start();

  const page = await fetch(`${server.url}/admin/jobs?status=failed`, { headers: { accept: "text/html" } });
  const response = await postForm(server, "/admin/session", {
    key: server.key,
    next: "/admin/jobs?status=failed",
  });
  const cookie = response.headers.getSetCookie()[0]!;

  expect(page.status).toBe(401);
  expect(await page.text()).toContain('value="/admin/jobs?status=failed"');
  expect([response.status, response.headers.get("location")]).toEqual([303, "/admin/jobs?status=failed"]);
  expect(cookie).toMatch(/^svc-admin=[\w.-]+; Path=\/admin; HttpOnly; SameSite=Strict; Max-Age=43200$/);
  expect(cookie).not.toContain(server.key);
  expect((await get(server, cookieOf(response))).status).toBe(200);
});

it("the cookie is marked secure where the public address is https", async () => {
  await using server = await start({ publicUrl: "https://service.example" });

  const response = await postForm(server, "/admin/session", { key: server.key });

  expect(response.headers.getSetCookie()[0]).toContain("; Secure");
});

it.each([
  "https://elsewhere.example/",
  "//elsewhere.example",
  "/admin/../outside",
  "/admin\\@elsewhere",
  "/other",
  "/administer",
])("signing in never leads to %s", async (next) => {
  await using server = await start();

  const response = await postForm(server, "/admin/session", { key: server.key, next });

  expect(response.headers.get("location")).toBe("/admin/");
});

it("a wrong key is refused, and after many of them every key from that address", async () => {
  await using server = await start();

  const first = await postForm(server, "/admin/session", { key: "wrong-key" });
  const text = await first.text();
  let last = first;
  for (let tries = 0; tries < 12; tries++)
    last = await postForm(server, "/admin/session", { key: `wrong-${tries}` });
  const right = await postForm(server, "/admin/session", { key: server.key });

  expect(first.status).toBe(401);
  expect(text).toContain("This is not the key of this service.");
  expect(text).not.toContain("wrong-key");
  expect([last.status, right.status]).toEqual([429, 429]);
  expect(Number(last.headers.get("retry-after"))).toBeGreaterThan(0);
});

it.each([
  ["another site by Sec-Fetch-Site", { "sec-fetch-site": "cross-site" }, 403],
  ["a sibling site", { "sec-fetch-site": "same-site" }, 403],
  ["another site by Origin", { origin: "https://elsewhere.example" }, 403],
  ["an opaque origin", { origin: "null" }, 403],
  ["nobody knows where", { origin: "" }, 403],
  ["this service by Sec-Fetch-Site", { "sec-fetch-site": "same-origin" }, 404],
])("a write with a session that comes from %s", async (_, headers, status) => {
  await using server = await start();
  const cookie = await signIn(server);
  const sent = Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== ""));

  const response = await fetch(`${server.url}/admin/api/jobs/none`, {
    method: "DELETE",
    headers: { cookie, ...sent },
  });

  expect(response.status).toBe(status);
});

it("a write with a session of a page of this service is let in by its origin", async () => {
  await using server = await start();
  const cookie = await signIn(server);

  const headers = { cookie, origin: server.url };
  const response = await fetch(`${server.url}/admin/api/jobs/none`, { method: "DELETE", headers });

  expect(response.status).toBe(404);
});

it("signing in from another site is refused", async () => {
  await using server = await start();

  const response = await postForm(
    server,
    "/admin/session",
    { key: server.key },
    { origin: "https://elsewhere.example" },
  );

  expect(response.status).toBe(403);
  expect(response.headers.getSetCookie()).toEqual([]);
});

it("a session that is changed, or signed with another key, opens nothing", async () => {
  await using server = await start();
  await using other = await start({ apiKey: "another-key-of-a-test" });
  const cookie = await signIn(server);
  const [body, signature] = cookie.slice("svc-admin=".length).split(".");
  const claims = JSON.parse(Buffer.from(body!, "base64url").toString()) as Record<string, unknown>;
  const longer = Buffer.from(JSON.stringify({ ...claims, until: 9e15 })).toString("base64url");

  const answers = await Promise.all([
    get(server, `svc-admin=${longer}.${signature}`),
    get(server, `svc-admin=${body}.`),
    get(server, `svc-admin=${body}`),
    get(server, "svc-admin=...."),
    get(server, await signIn(other)),
  ]);

  expect(answers.map((answer) => answer.status)).toEqual([401, 401, 401, 401, 401]);
});

it("a session ends after twelve hours", async () => {
  let ahead = 0;
  await using server = await start({ clock: () => new Date(Date.now() + ahead) });
  const cookie = await signIn(server);

  const before = await get(server, cookie);
  ahead = 12 * 3600_000 + 1000;
  const after = await get(server, cookie);

  expect(server.service.get(CLOCK)().getTime()).toBeGreaterThan(Date.now());
  expect([before.status, after.status]).toEqual([200, 401]);
});

it("signing out ends the session everywhere, also after a restart; other sessions go on", async () => {
  await using first = await start({ store: undefined });
  const cookie = await signIn(first, "Ada");
  const copy = cookie;
  const other = await signIn(first, "Grace");

  const out = await postForm(first, "/admin/session/end", {}, { cookie });
  const stale = await get(first, copy);
  await first.service.close();
  await using second = await start({ store: undefined, dataDir: first.dataDir });
  const later = await get(second, copy);
  const going = await get(second, other);

  expect(out.status).toBe(303);
  expect(out.headers.getSetCookie()[0]).toMatch(/^svc-admin=; .*Max-Age=0/);
  expect([stale.status, later.status, going.status]).toEqual([401, 401, 200]);
});

it("a sign-in link works once, and not after its time", async () => {
  let ahead = 0;
  await using server = await start({ clock: () => new Date(Date.now() + ahead) });
  const links = server.service.get(SIGN_IN_LINK);
  const link = links.create(server.url);
  const token = new URL(link.url).searchParams.get("token")!;
  const old = links.create(server.url);

  const page = await fetch(link.url, { redirect: "manual" });
  const used = await postForm(server, "/admin/sign-in", { token });
  const again = await postForm(server, "/admin/sign-in", { token });
  const stale = await fetch(link.url, { redirect: "manual" });
  ahead = 6 * 60_000;
  const late = await fetch(old.url, { redirect: "manual" });
  const lateToken = new URL(old.url).searchParams.get("token")!;
  const lateUse = await postForm(server, "/admin/sign-in", { token: lateToken });

  expect(link.url).not.toContain(server.key);
  expect(page.status).toBe(200);
  expect(await page.text()).toContain(`<input type="hidden" name="token" value="${token}">`);
  expect([used.status, used.headers.get("location")]).toEqual([303, "/admin/"]);
  expect((await get(server, cookieOf(used))).status).toBe(200);
  expect([again.status, stale.status, late.status, lateUse.status]).toEqual([401, 401, 401, 401]);
  expect(again.headers.getSetCookie()).toEqual([]);
  expect(await again.text()).toContain("used already");
});

it.each([
  ["a preview", { "user-agent": "Slackbot-LinkExpanding 1.0" }],
  ["a prefetch", { "sec-purpose": "prefetch" }],
  ["a HEAD request", {}],
])("a sign-in link is not used up by %s, which gets no session", async (_, headers) => {
  await using server = await start();
  const link = server.service.get(SIGN_IN_LINK).create(server.url);
  const method = Object.keys(headers).length === 0 ? "HEAD" : "GET";

  const looked = await fetch(link.url, { method, headers, redirect: "manual" });
  const token = new URL(link.url).searchParams.get("token")!;
  const used = await postForm(server, "/admin/sign-in", { token });

  expect([looked.status, looked.headers.getSetCookie()]).toEqual([200, []]);
  expect(used.status).toBe(303);
});

it("a sign-in link is not taken from a page of another site", async () => {
  await using server = await start();
  const link = server.service.get(SIGN_IN_LINK).create(server.url);
  const token = new URL(link.url).searchParams.get("token")!;

  const foreign = await postForm(
    server,
    "/admin/sign-in",
    { token },
    { origin: "https://elsewhere.example" },
  );

  expect(foreign.status).toBe(403);
  expect((await postForm(server, "/admin/sign-in", { token })).status).toBe(303);
});

it("an open page whose session has ended is told to load itself anew", async () => {
  await using server = await start();

  const response = await fetch(`${server.url}/admin/api/dashboard`, { headers: { "hx-request": "true" } });

  expect([response.status, response.headers.get("hx-refresh")]).toEqual([401, "true"]);
});

it("without the admin interface there are no admin routes", async () => {
  await using server = await start({ admin: false });

  expect((await server.request("/admin/")).status).toBe(404);
});
