import { createHash } from "node:crypto";
import { defineAgent, defineChat } from "agent-control-service";
import { ADMIN, html, type Plugin, ROUTER, THREADS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { until } from "../runs/_jobs.ts";
import { seedCase, seedJob } from "./_seed.ts";
import { signIn } from "./_sign-in.ts";

const extension: Plugin = {
  name: "extension",
  dependsOn: ["admin"],
  setup: (context) =>
    context.get(ADMIN).addPage({
      path: "extra",
      title: "Extra",
      render: () => html`<p>more</p>`,
      json: () => ({ more: true }),
    }),
};

const STREAMS = ["/admin/api/live", "/admin/api/console/stream"];
/** It asks whether a program may act as the person: it is of no use to programs. */
const CONSENT = "/admin/sign-in/program";
const QUERIES: Readonly<Record<string, string>> = {
  "/admin/api/jobs/export": "?format=json",
  "/admin/api/cases/export": "?format=json",
  "/admin/api/models/export": "?format=json",
  "/admin/api/audit/export": "?format=json",
  "/admin/api/jobs/rows": "?ids=job-1",
  "/admin/api/cases/rows": "?ids=case-1",
};

const talker = defineChat({ name: "Talker", version: "1.0.0", reply: () => "hello" });
const filer = defineAgent({
  name: "Filer",
  version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.file("note.txt", "noted") } },
});
const NOTED = createHash("sha256").update("noted").digest("hex");
/** The content of a file: it is no page. */
const CONTENT = "/admin/jobs/{id}/files/{sha256}";
const schedules = [{ id: "nightly", cron: "0 3 1 1 *", agent: greeter, fields: { name: "Ada" } }];

async function start() {
  const server = await testServer({ agents: [greeter, talker, filer], plugins: [extension], schedules });
  await seedJob(server.service, { id: "job-1", status: "in_progress" });
  await seedCase(server.service, { job: "job-1", ref: "case-1", question: "Pay it?" });
  await server.service.get(THREADS).start("talker", { message: "hello" }, { id: "thread-1" });
  const preview = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "stop", ids: ["job-1"] },
  });
  await server.request("/agents/filer/jobs", { json: { job_context: { job_id: "filed" }, job_fields: {} } });
  await until(server.service, "filed", ["completed"]);
  const { id: bulk } = (await preview.json()) as { id: string };
  const routes = server.service
    .get(ROUTER)
    .routes.filter((route) => route.path.startsWith("/admin") && route.auth === "session")
    .map((route) => {
      const id = route.path.includes("/bulk/") ? bulk : route.path.includes("/cases/") ? "case-1" : "job-1";
      if (route.path.endsWith("/chat"))
        return { route, path: route.path.replace("{id}", "thread-1").replace("{slug}", "talker") };
      if (route.path.includes("/files/"))
        return { route, path: route.path.replace("{id}", "filed").replace("{sha256}", NOTED) };
      const named = route.path.includes("/schedules/") ? "nightly" : id;
      const path = route.path.replace("{id}", named).replace("{slug}", "greeter").replace("{path}", "extra");
      return { route, path: path + (QUERIES[route.path] ?? "") };
    });
  const pages = routes.filter(
    ({ route }) => route.method === "GET" && ![...STREAMS, CONSENT].includes(route.path),
  );
  return { server, routes, pages, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

it("every admin page without key or session is the sign-in page, with 401", async () => {
  await using world = await start();

  for (const { path } of world.pages) {
    const response = await world.server.request(path, { key: null, headers: { accept: "text/html" } });
    const text = await response.text();

    expect([path, response.status]).toEqual([path, 401]);
    expect(text).toContain('action="/admin/session"');
    expect(text).not.toContain("Case case-1");
  }
});

it("every admin route that reads returns JSON, with the key and with a session", async () => {
  await using world = await start();
  const cookie = await signIn(world.server);
  const withoutJson = [
    "/admin/api/jobs/rows",
    "/admin/api/jobs/tabs",
    "/admin/api/cases/rows",
    "/admin/api/cases/tabs",
    "/admin/api/console/download",
    CONTENT,
  ];

  for (const { route, path } of world.pages) {
    if (
      withoutJson.includes(route.path) ||
      /\{id\}\/(run|pause|stop|retry|continue|restart|resume|fork|status|delete|restore|erase|remove|revoke-tokens)$/.test(
        route.path,
      )
    )
      continue;
    const accept = { accept: "application/json" };
    const withKey = await world.server.request(path, { headers: accept });
    const withSession = await world.server.request(path, { key: null, headers: { ...accept, cookie } });

    expect([path, withKey.status, withKey.headers.get("content-type")]).toEqual([
      path,
      200,
      "application/json; charset=utf-8",
    ]);
    expect([path, withSession.status]).toEqual([path, 200]);
    expect(typeof (await withSession.json())).toBe("object");
  }
});

it("every admin route that reads returns a fragment to the page's script, and a page or fragment to a browser", async () => {
  await using world = await start();
  const cookie = await signIn(world.server);

  for (const { route, path } of world.pages) {
    if (["/admin/api/console/download", CONTENT].includes(route.path)) continue;
    if (route.path.endsWith("/timeline")) continue;
    const fragment = await world.server.request(path, {
      key: null,
      headers: { cookie, "hx-request": "true" },
    });
    const browser = await world.server.request(path, {
      key: null,
      headers: { cookie, accept: "text/html,*/*;q=0.8" },
    });
    const part = await fragment.text();
    const whole = await browser.text();

    expect([path, fragment.status, browser.status]).toEqual([path, 200, 200]);
    expect([path, part.includes("<html")]).toEqual([path, false]);
    expect([path, whole.includes("<html")]).toEqual([path, !route.path.startsWith("/admin/api/")]);
    expect(part).not.toMatch(/undefined|\[object Object\]|@if|@each|\{\{/);
    expect(whole).not.toMatch(/\[object Object\]|@if|@each|@include|\{\{/);
  }
});

it("an unknown page gets a page that says so, an unknown API path an error in JSON", async () => {
  await using world = await start();

  const page = await world.server.request("/admin/nowhere", { headers: { accept: "text/html" } });
  const api = await world.server.request("/admin/api/nowhere");
  const job = await world.server.request("/admin/jobs/none", { headers: { accept: "text/html" } });
  const method = await world.server.request("/admin/api/stats", { method: "DELETE" });

  expect([page.status, api.status, job.status, method.status]).toEqual([404, 404, 404, 405]);
  expect(await page.text()).toContain("<h1>Page not found</h1>");
  expect(await api.json()).toMatchObject({ error_type: "not_found" });
  expect(await job.text()).toContain("<h1>Job ");
  expect(method.headers.get("allow")).toContain("GET");
});

it("a page whose filters are not valid leads back to the page without them", async () => {
  await using world = await start();

  const page = await world.server.request("/admin/jobs?status=done", { headers: { accept: "text/html" } });

  expect(page.status).toBe(422);
  expect(await page.text()).toMatch(/<a class="btn" href="\/admin\/jobs">.*Without these filters<\/a>/);
});

it("pages use the operator's words and units", async () => {
  await using world = await start();
  await seedJob(world.server.service, { id: "sad", status: "failed", error: "no such invoice" });
  const read = async (path: string) =>
    (await world.server.request(path, { headers: { accept: "text/html" } })).text();
  const ids = ["sad"];
  const preview = { json: { kind: "jobs", action: "delete", ids } };
  const { id, hash } = (await (await world.server.request("/admin/api/bulk", preview)).json()) as {
    id: string;
    hash: string;
  };

  const [retry, agent, server, bulk] = await Promise.all(
    ["/admin/jobs/sad/retry", "/admin/agents/greeter", "/admin/server", `/admin/bulk/${id}`].map(read),
  );

  // One of two answers is the usual one.
  expect(retry!.match(/class="btn main/g)).toHaveLength(1);
  expect(agent).toContain('<td class="soft">text</td>');
  expect(server).toContain("<dt>bodyLimit</dt><dd>1 MB</dd>");
  expect(server).toContain(`<dt>port</dt><dd>${new URL(world.server.url).port}</dd>`);
  expect(bulk).toContain("<dt>Selected</dt><dd>1 job</dd>");
  expect(bulk!.split(hash)).toHaveLength(2);
});

it("no two things in the frame of a page have one icon", async () => {
  await using world = await start();

  const page = await (
    await world.server.request("/admin/", {
      headers: { accept: "text/html", cookie: await signIn(world.server) },
    })
  ).text();
  const frame = page.slice(page.indexOf('class="nav"'), page.indexOf("<main"));
  const icons = [...frame.matchAll(/<use href="[^"]*#([\w-]+)"/g)].map(([, icon]) => icon);

  expect(icons.length).toBeGreaterThan(10);
  expect(new Set(icons).size).toBe(icons.length);
});

it("a failed job's page shows the error before its timeline, which may be long", async () => {
  await using world = await start();
  await seedJob(world.server.service, { id: "sad", status: "failed", error: "no such invoice" });

  const page = await (
    await world.server.request("/admin/jobs/sad", { headers: { accept: "text/html" } })
  ).text();

  expect(page.indexOf("no such invoice")).toBeGreaterThan(0);
  expect(page.indexOf("no such invoice")).toBeLessThan(page.indexOf('id="timeline-title"'));
});
