import { request } from "node:http";
import { admin } from "agent-control-service";
import { CLOCK, SIGN_IN_LINK } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { cookieOf, postForm, signIn } from "./_sign-in.ts";

interface Listed {
  readonly items: readonly { readonly id: string; readonly name: string; readonly current: boolean }[];
}

const start = (options: object = {}) => testServer({ agents: [greeter], ...options });
const get = (server: TestServer, cookie: string, path = "/admin/api/stats") =>
  fetch(server.url + path, { headers: { cookie }, redirect: "manual" });

it("signing in with the key opens a session, and the requested page", async () => {
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
  expect(cookie).toMatch(/^svc-admin=[\w-]{43}; Path=\/admin; HttpOnly; SameSite=Strict; Max-Age=43200$/);
  expect(cookie).not.toContain(server.key);
  expect((await get(server, cookieOf(response))).status).toBe(200);
});

it("the cookie is one that only https may set if the public address is https", async () => {
  await using server = await start({ publicUrl: "https://service.example" });

  const response = await postForm(server, "/admin/session", { key: server.key });
  const cookie = cookieOf(response);
  const planted = cookie.replace("__Secure-", "");

  expect(response.headers.getSetCookie()[0]).toMatch(/^__Secure-svc-admin=[\w-]{43};.*; Secure$/);
  expect((await get(server, cookie)).status).toBe(200);
  expect((await get(server, planted)).status).toBe(401);
});

it.each([
  [1, "https", true],
  [1, "http", false],
  [0, "https", false],
])(
  "with trustProxy %i and X-Forwarded-Proto %s, secure cookie and HSTS: %s",
  async (trustProxy, proto, secure) => {
    await using server = await start({ trustProxy });
    const headers = { "x-forwarded-proto": proto, "sec-fetch-site": "same-origin" };

    const response = await postForm(server, "/admin/session", { key: server.key }, headers);
    const paths = ["/agents", "/.well-known/health", "/admin/", "/nowhere"];
    const others = await Promise.all(paths.map((path) => fetch(server.url + path, { headers })));

    expect(response.headers.getSetCookie()[0]?.includes("; Secure")).toBe(secure);
    const hsts = [response, ...others].map((one) => one.headers.get("strict-transport-security"));
    expect(hsts).toEqual(Array(5).fill(secure ? "max-age=31536000" : null));
  },
);

it("every response has HSTS if the public address is https", async () => {
  await using server = await start({ publicUrl: "https://service.example" });

  for (const path of ["/agents", "/.well-known/health", "/admin/", "/nowhere"]) {
    const { headers } = await fetch(server.url + path);
    expect(headers.get("strict-transport-security"), path).toBe("max-age=31536000");
  }
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

it("a wrong key is refused, and after many of them any key from that address", async () => {
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

it("a write with a session from a page of this service is accepted by its origin", async () => {
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

it("a session of another service, or no session, gives no access", async () => {
  await using server = await start();
  await using other = await start();
  const cookie = await signIn(server);

  const cookies = [`${cookie}A`, cookie.slice(0, -1), "svc-admin=", "svc-admin=....", await signIn(other)];
  const answers = await Promise.all(cookies.map((one) => get(server, one)));

  expect(answers.map((answer) => answer.status)).toEqual([401, 401, 401, 401, 401]);
});

it("a session ends after twelve hours, even if it is in use", async () => {
  let ahead = 0;
  await using server = await start({ clock: () => new Date(Date.now() + ahead) });
  const cookie = await signIn(server);

  const before = [];
  for (let quarter = 0; quarter < 47; quarter++) {
    ahead += 15 * 60_000;
    before.push((await get(server, cookie)).status);
  }
  ahead = 12 * 3600_000 + 1000;
  const after = await get(server, cookie);

  expect(server.service.get(CLOCK)().getTime()).toBeGreaterThan(Date.now());
  expect(before).toEqual(Array(47).fill(200));
  expect(after.status).toBe(401);
});

it("a session ends half an hour after the last action of a person", async () => {
  let ahead = 0;
  await using server = await start({ clock: () => new Date(Date.now() + ahead) });
  const cookie = await signIn(server);

  ahead += 29 * 60_000;
  const used = await get(server, cookie);
  ahead += 29 * 60_000;
  const byItself = await fetch(`${server.url}/admin/api/stats`, { headers: { cookie, "x-unattended": "1" } });
  ahead += 2 * 60_000;
  const late = await get(server, cookie);

  expect([used.status, byItself.status, late.status]).toEqual([200, 200, 401]);
});

it("the idle limit is an option, and keeps counting across a restart", async () => {
  let ahead = 0;
  const options = {
    store: undefined,
    clock: () => new Date(Date.now() + ahead),
    plugins: [admin({ sessionIdleMinutes: 5, sessionHours: 1 })],
  };
  await using first = await start(options);
  const cookie = await signIn(first);
  ahead += 3 * 60_000;
  const used = await get(first, cookie);
  await first.service.close();

  ahead += 4 * 60_000;
  await using second = await start({ ...options, dataDir: first.dataDir });
  const kept = await get(second, cookie);
  ahead += 6 * 60_000;
  const late = await get(second, cookie);

  expect([used.status, kept.status, late.status]).toEqual([200, 200, 401]);
});

it("a change of the key permanently ends the sessions that it opened", async () => {
  const keys = ["the-first-key-of-this-test", "the-second-key-of-this-test"] as const;
  const begin = (dataDir: string | undefined, apiKey: string, previousApiKey?: string) =>
    start({
      store: undefined,
      apiKey,
      ...(dataDir && { dataDir }),
      ...(previousApiKey && { previousApiKey }),
    });
  const status = async (server: TestServer) => (await get(server, cookie)).status;
  await using server = await begin(undefined, keys[0]);
  const { dataDir } = server;
  const cookie = await signIn(server);
  await server.service.close();

  const statuses = [];
  for (const [apiKey, previous] of [[keys[0]], [keys[1], keys[0]], [keys[1]], [keys[0]]] as const) {
    await using again = await begin(dataDir, apiKey, previous);
    statuses.push(await status(again));
  }

  // Both keys hold while clients change; the former key alone does not bring the session back.
  expect(statuses).toEqual([200, 200, 401, 401]);
});

it("shows who is signed in, and signs out one or all of them", async () => {
  await using server = await start();
  const [ada, grace, alan] = [
    await signIn(server, "Ada"),
    await signIn(server, "Grace"),
    await signIn(server),
  ];
  const list = async (cookie: string) =>
    ((await (await get(server, cookie, "/admin/api/sessions")).json()) as Listed).items;
  const end = (path: string) =>
    fetch(server.url + path, { method: "DELETE", headers: { cookie: ada, "sec-fetch-site": "same-origin" } });

  const items = await list(ada);
  const page = await (await fetch(`${server.url}/admin/sessions`, { headers: { cookie: ada } })).text();
  const one = await end(`/admin/api/sessions/${items.find(({ name }) => name === "Grace")!.id}`);
  const gone = await end("/admin/api/sessions/none");
  const between = [await get(server, ada), await get(server, grace), await get(server, alan)];
  const link = await server.service.get(SIGN_IN_LINK).create(server.url);
  const all = await end("/admin/api/sessions");
  const after = [await get(server, ada), await get(server, alan), await fetch(link.url)];

  expect(items).toHaveLength(3);
  expect(items.find(({ current }) => current)).toMatchObject({
    name: "Ada",
    signed_in_by: "key",
    address: "127.0.0.1",
  });
  expect(page).toContain("Ada (you)");
  expect(page).not.toContain(ada.slice("svc-admin=".length));
  expect([one.status, await one.json()]).toEqual([200, { message: "1 session ended", ended: 1 }]);
  expect(gone.status).toBe(404);
  expect(between.map(({ status }) => status)).toEqual([200, 401, 200]);
  expect(await all.json()).toMatchObject({ ended: 2 });
  expect(after.map(({ status }) => status)).toEqual([401, 401, 401]);
});

it("signs out with the buttons of the page", async () => {
  await using server = await start();
  const [ada, grace] = [await signIn(server, "Ada"), await signIn(server, "Grace")];
  const { items } = (await (await get(server, ada, "/admin/api/sessions")).json()) as Listed;
  const id = items.find(({ name }) => name === "Grace")!.id;

  const one = await postForm(server, "/admin/sessions", { id }, { cookie: ada });
  const foreign = await postForm(
    server,
    "/admin/sessions",
    { all: "1" },
    { cookie: ada, origin: "https://x.example" },
  );
  const between = [await get(server, ada), await get(server, grace)];
  await postForm(server, "/admin/sessions", { all: "1" }, { cookie: ada });

  expect([one.status, one.headers.get("location"), foreign.status]).toEqual([303, "/admin/sessions", 403]);
  expect(between.map(({ status }) => status)).toEqual([200, 401]);
  expect((await get(server, ada)).status).toBe(401);
});

it("the live streams of a session end with the session", async () => {
  await using server = await start();
  const cookie = await signIn(server);
  const open = (path: string) =>
    fetch(server.url + path, { headers: { cookie, accept: "text/event-stream" } });
  const streams = await Promise.all([open("/admin/api/live"), open("/admin/api/console/stream")]);

  await postForm(server, "/admin/session/end", {}, { cookie });

  // Each text ends only because its stream does.
  const texts = await Promise.all(streams.map((stream) => stream.text()));
  expect(texts.every((text) => text.includes("hello"))).toBe(true);
});

it.each([
  ["https://service.example", {}, "http://service.example", 403],
  ["https://service.example", {}, "https://service.example", 404],
  [undefined, { trustProxy: 1 }, "http://service.example", 403],
  [undefined, { trustProxy: 1 }, "https://service.example", 404],
  [undefined, {}, "https://service.example", 403],
  [undefined, {}, "http://service.example", 404],
])("at %s with %j a write from %s is answered with %i", async (publicUrl, options, origin, status) => {
  await using server = await start({ ...options, ...(publicUrl && { publicUrl }) });
  const proxied = { "x-forwarded-proto": "https" };
  const cookie = await signIn(server, "", { ...proxied, "sec-fetch-site": "same-origin" });

  // Not by fetch, which takes the header Host from the address.
  const got = await new Promise((resolve, reject) => {
    const headers = { cookie, origin, host: "service.example", ...proxied };
    const call = request(`${server.url}/admin/api/jobs/none`, { method: "DELETE", headers }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    call.on("error", reject).end();
  });

  expect(got).toBe(status);
});

it("signing out ends the session everywhere, also after a restart; other sessions continue", async () => {
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

it("a sign-in link works once, and not after it has expired", async () => {
  let ahead = 0;
  await using server = await start({ clock: () => new Date(Date.now() + ahead) });
  const links = server.service.get(SIGN_IN_LINK);
  const link = await links.create(server.url);
  const token = new URL(link.url).searchParams.get("token")!;
  const old = await links.create(server.url);

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
  expect(await again.text()).toContain("already used");
});

it.each([
  ["a preview", { "user-agent": "Slackbot-LinkExpanding 1.0" }],
  ["a prefetch", { "sec-purpose": "prefetch" }],
  ["a HEAD request", {}],
])("a sign-in link is not used up by %s, which gets no session", async (_, headers) => {
  await using server = await start();
  const link = await server.service.get(SIGN_IN_LINK).create(server.url);
  const method = Object.keys(headers).length === 0 ? "HEAD" : "GET";

  const looked = await fetch(link.url, { method, headers, redirect: "manual" });
  const token = new URL(link.url).searchParams.get("token")!;
  const used = await postForm(server, "/admin/sign-in", { token });

  expect([looked.status, looked.headers.getSetCookie()]).toEqual([200, []]);
  expect(used.status).toBe(303);
});

it("a sign-in link from a page of another site is refused", async () => {
  await using server = await start();
  const link = await server.service.get(SIGN_IN_LINK).create(server.url);
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

it("an open page whose session has ended is asked to reload", async () => {
  await using server = await start();

  const response = await fetch(`${server.url}/admin/api/dashboard`, { headers: { "hx-request": "true" } });

  expect([response.status, response.headers.get("hx-refresh")]).toEqual([401, "true"]);
});

it("without the admin interface there are no admin routes", async () => {
  await using server = await start({ admin: false });

  expect((await server.request("/admin/")).status).toBe(404);
});
