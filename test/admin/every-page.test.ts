// @long
import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { defineAgent, defineChat, file } from "agent-control-service";
import { ADMIN, html, type Plugin, ROUTER, THREADS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import * as v from "valibot";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { findings, launch, signIn, type View, visit } from "./_browser.ts";
import { seedCase, seedJob } from "./_seed.ts";

const ARABIC = "استرداد طلب أكتوبر";
const UNBROKEN = `erp-export_${"x".repeat(90)}`;

const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  description: `Works. ${ARABIC}`,
  parameters: [{ name: "TOKEN", is_secret: true }],
  methods: {
    job_start: {
      fields: [
        { name: "order", required: true },
        { name: "kind", field_type: "ChoiceField", choices: ["new", "old"] },
        { name: "note", field_type: "CharField", widget: "textarea" },
      ],
      async run({ job, fields, log }) {
        log.info("order received", { order: String(fields.order) });
        const said = { choices: [{ message: { role: "assistant", content: ARABIC } }] };
        const input = { messages: [{ role: "user", content: UNBROKEN }] };
        await job.step("classify", () => said, { kind: "model", input, cost: 2 });
        const item = await job.openCase({ id: `${job.id}-case`, name: ARABIC, description: UNBROKEN });
        await item.step(UNBROKEN, () => ({ text: UNBROKEN, list: [1, 2, { deep: true }] }));
        if (fields.order === "lost") throw new Error(`connect ECONNREFUSED ${UNBROKEN}`);
        await item.close({ text: ARABIC });
        return { message: ARABIC, details: { text: UNBROKEN } };
      },
    },
  },
});

const waiter = defineAgent({
  name: "Waiter",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "order", field_type: "IntegerField", default: 42 }],
      run: async ({ job, fields }) => {
        const where = { "order.id": fields.order };
        return (await job.waitFor("payment", { where, since: new Date(0), deadline: "3d" })).id;
      },
    },
  },
});
const CONTENT = `order,note\n42,${ARABIC}\n43,${UNBROKEN}\n`;
const filer = defineAgent({
  name: "Filer",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ orders: file(), note: v.optional(file()) }),
      async run({ job, fields }) {
        const item = await job.openCase({ id: `${job.id}-case`, name: ARABIC });
        await item.artifact("orders", fields.orders, { title: UNBROKEN });
        await item.ask("fine", { question: ARABIC, fields: v.object({ scan: file(), fine: v.boolean() }) });
      },
    },
  },
});
const baker = defineChat({
  name: "Baker",
  version: "1.0.0",
  async reply({ message, turn }) {
    await turn.step("search", () => ({ found: [UNBROKEN] }), { kind: "tool", input: { query: message } });
    if (message === "no") throw new Error(UNBROKEN);
    return `${ARABIC} ${UNBROKEN}`;
  },
});

const extension: Plugin = {
  name: "extension",
  dependsOn: ["admin"],
  setup: (context) =>
    context.get(ADMIN).addPage({ path: "extra", title: ARABIC, render: () => html`<p>${UNBROKEN}</p>` }),
};

/** Pages that other tests open, or that are no pages. */
const ELSEWHERE = [
  ...["/admin/assets/{hash}/{file}", "/admin/jobs/{id}/files/{sha256}"],
  // With people at a provider, and for programs.
  ...["/admin/sign-in/person", "/admin/sign-in/back", "/admin/sign-in/program", "/admin/sign-in"],
  ...["/admin/access/people/{id}/remove", "/admin/access/people/{id}/restore", "/admin/access/{id}/remove"],
  // By a click of this test.
  "/admin/bulk/{id}",
];

/** Pages and states: 200 % zoom of 1360 pixels is a window of 680. */
const PAGES: Readonly<Record<string, string>> = {
  ...{ dashboard: "", week: "?range=7d", jobs: "jobs", "no-jobs": "jobs?search=nothing", cases: "cases" },
  ...{ filtered: "jobs?status=failed&min_cost=1&since=2026-01-01", failures: "failures", deleted: "deleted" },
  ...{ failed: "jobs/lost", completed: "jobs/done", step: "jobs/done?step=0", waiting: "jobs/open" },
  ...{ queued: "jobs/queued", cancelled: "jobs/cancelled", compare: "jobs/lost/compare?with=done" },
  ...{ "compare-with": "jobs/lost/compare", "delete-job": "jobs/lost/delete", case: "cases/lost-case" },
  ...{
    "case-asks": "cases/asks",
    inbox: "inbox",
    question: "inbox?question=asks",
    alike: "cases/asks/alike",
  },
  ...{
    gone: "inbox?question=lost-case",
    agents: "agents",
    agent: "agents/worker",
    start: "agents/worker/start",
  },
  ...{ "job-log": "jobs/lost?tab=log", calls: "jobs/lost?tab=calls", history: "jobs/lost?tab=history" },
  ...{ "failed-only": "jobs/lost?only=failed", "no-calls": "jobs/queued?tab=calls" },
  ...{ chat: "jobs/thread/chat", "new-chat": "agents/baker/chat", "waits-for-event": "jobs/waits-43" },
  ...{ models: "models", schedules: "schedules", events: "events", "events-waiting": "events/waiting" },
  ...{ console: "console", deliveries: "deliveries", audit: "audit", server: "server", sessions: "sessions" },
  ...{
    access: "access",
    "start-file": "agents/filer/start",
    files: "jobs/filed",
    "asks-file": "cases/filed-case",
  },
  file: `jobs/filed/files/${hash("sha256", CONTENT, "hex")}/view`,
  ...{
    gallery: "files",
    "no-files": "files?search=nothing&since=2026-01-01",
    help: "help",
    find: "find",
    "nothing-found": "find?q=nothing+at+all",
    missing: "jobs/none",
    zoomed: "jobs/lost?span=0-5",
    "deleted-cases": "deleted-cases",
    "plugin-page": "x/extra",
  },
  // What is asked before something happens, as a page.
  ...{
    ...{ "stop-job": "jobs/open/stop", "retry-job": "jobs/lost/retry", "resume-job": "jobs/lost/resume" },
    ...{
      "fork-job": "jobs/lost/fork",
      "status-of-job": "jobs/open/status",
      "restart-job": "jobs/lost/restart",
    },
    ...{ "continue-job": "jobs/lost/continue", "revoke-tokens": "jobs/open/revoke-tokens" },
    ...{ "status-of-case": "cases/asks/status", "delete-case": "cases/asks/delete" },
    ...{ "run-schedule": "schedules/nightly/run", "pause-schedule": "schedules/nightly/pause" },
    ...{ "resume-schedule": "schedules/nightly/resume", "restore-job": "deleted/old/restore" },
    ...{ "erase-job": "deleted/old/erase", "restore-case": "deleted-cases/old-case/restore" },
    ...{ "erase-case": "deleted-cases/old-case/erase" },
  },
};

const VIEWS: readonly View[] = [360, 680, 768, 1440, 2200, 2560].map((width, at) => ({
  ...{ name: String(width), width, height: 900, colorScheme: at % 2 === 0 ? "light" : "dark" },
}));

const chromium = requirement("chromium");
let browser: Browser;
let server: TestServer;
let axe: string;

beforeAll(async () => {
  if (!chromium.met) return;
  [browser, server, axe] = await Promise.all([
    launch(),
    testServer({
      agents: [worker, waiter, baker, filer],
      plugins: [extension],
      schedules: [
        { id: "nightly", cron: "0 3 * * *", agent: waiter },
        {
          id: UNBROKEN.slice(0, 100),
          cron: "*/15 8-18 * * MON-FRI",
          timezone: "Europe/Berlin",
          agent: waiter,
        },
      ],
    }),
    readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8"),
  ]);
  for (const [id, order, status] of [
    ["lost", "lost", "failed"],
    ["done", "fine", "completed"],
  ]) {
    const job_context = { job_id: id, mission_name: `${ARABIC} ${UNBROKEN}` };
    await server.request("/agents/worker/jobs", { json: { job_context, job_fields: { order } } });
    await vi.waitFor(
      async () =>
        expect(await (await server.request(`/admin/api/jobs/${id}`)).json()).toMatchObject({ status }),
      { timeout: 60_000 },
    );
  }
  for (const order of [42, 43])
    await server.request("/agents/waiter/jobs", {
      json: { job_context: { job_id: `waits-${order}`, mission_name: ARABIC }, job_fields: { order } },
    });
  for (const [id, order] of [
    ["paid", 42],
    [UNBROKEN.slice(0, 100), 9],
  ] as const)
    await server.request("/events/payment", { json: { id, data: { order: { id: order }, text: UNBROKEN } } });
  const name = `orders ${UNBROKEN}.csv`;
  const sent = await server.request(`/files?name=${encodeURIComponent(name)}`, {
    ...{ method: "POST", headers: { "content-type": "text/csv" }, body: CONTENT },
  });
  const { upload } = (await sent.json()) as { upload: string };
  await server.request("/agents/filer/jobs", {
    json: { job_context: { job_id: "filed", mission_name: ARABIC }, job_fields: { orders: { upload } } },
  });
  await vi.waitFor(
    async () => {
      const { status } = (await (await server.request("/admin/api/cases/filed-case")).json()) as {
        status: string;
      };
      expect(status).toBe("awaiting");
    },
    { timeout: 60_000 },
  );
  for (const name of ["billing", UNBROKEN.slice(0, 60)])
    await server.request("/access", {
      json: { name, role: "starter", agents: ["worker"], expires_in: "90d" },
    });
  const threads = server.service.get(THREADS);
  await threads.start("baker", { message: ARABIC }, { id: "thread" });
  for (const message of [UNBROKEN, "no"]) await threads.say("thread", message);
  await seedJob(server.service, { id: "open", name: ARABIC, agent: "worker", status: "in_progress" });
  await seedJob(server.service, { id: "cancelled", agent: "worker", status: "cancelled" });
  await seedJob(server.service, { id: "queued", agent: "gone-agent" });
  const deadline = new Date(Date.now() + 3_600_000).toISOString();
  for (const ref of ["asks", "asks-too"])
    await seedCase(server.service, {
      ...{ job: "open", ref, name: ARABIC, deadline, payload: { text: UNBROKEN } },
      question: `${ARABIC}? ${UNBROKEN}`,
    });
  await seedJob(server.service, { id: "old", agent: "worker", status: "completed" });
  await server.request("/admin/api/jobs/old", { method: "DELETE" });
  await seedCase(server.service, { job: "open", ref: "old-case", close: {} });
  await server.request("/admin/api/cases/old-case", { method: "DELETE" });
});
afterAll(async () => {
  await browser?.close();
  await server?.[Symbol.asyncDispose]();
});

chromium.it("every page of the admin interface is among those that are checked", () => {
  const paths = Object.values(PAGES).map((path) => `/admin/${path.replace(/\?.*/, "")}`);
  const unchecked = server.service
    .get(ROUTER)
    .routes.filter(({ method, path }) => method === "GET" && /^\/admin(?!\/api\/)/.test(path))
    .map(({ path }) => path)
    .filter((path) => !paths.some((one) => new RegExp(`^${path.replace(/\{\w+\}/g, "[^/]+")}$`).test(one)));

  expect(unchecked.filter((path) => !ELSEWHERE.includes(path))).toEqual([]);
});

for (const view of shareOf(VIEWS, VIEWS.length)) {
  chromium.it(
    `every page at ${view.width} pixels: nothing for axe to find, in both themes, and none wider than its window`,
    async () => {
      const { page, context, complaints } = await visit(browser, server.url, view, {
        reducedMotion: "reduce",
      });
      const look = async (name: string) => {
        // A click only waits for what it names; the rest of its page may still arrive.
        await page.waitForLoadState();
        const wide = await page.evaluate<number>(
          "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        if (wide > 0) complaints.push(`${name}: ${wide} px too wide`);
        complaints.push(...(await findings(page, axe, view)).map((finding) => `${name}: ${finding}`));
        const folder = process.env.SVC_SHOTS;
        if (folder)
          await page.screenshot({
            path: `${folder}/${name}-${view.name}-${view.colorScheme}.png`,
            caret: "initial",
          });
      };
      const { url } = server;
      await page.goto(`${url}/admin/`);
      await look("sign-in");
      await signIn(page, url, server.key);

      for (const [name, path] of Object.entries(PAGES)) {
        const response = await page.goto(`${url}/admin/${path}`, { timeout: 30_000 });
        if (name !== "missing" && !response?.ok()) complaints.push(`${name}: ${response?.status()}`);
        await look(name);
      }
      await page.goto(`${url}/admin/jobs`);
      await page.keyboard.press("Control+k");
      await page.getByRole("option", { name: /Dashboard/ }).waitFor();
      await look("palette");
      await page.goto(`${url}/admin/jobs`);
      await page.keyboard.press("?");
      await page.getByRole("dialog").getByText("Next and previous row").waitFor();
      await look("keyboard");
      await page.goto(`${url}/admin/jobs`);
      await page.locator("input[name=id]").first().check();
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("heading", { name: /^Delete 1 job/ }).waitFor();
      await look("bulk");
      await page.goto(`${url}/admin/`);
      await page.getByRole("button", { name: /^Times: relative/ }).click();
      await page.getByRole("button", { name: /^Times: absolute/ }).waitFor();
      for (const name of ["jobs", "inbox", "failed", "dashboard", "deleted"]) {
        await page.goto(`${url}/admin/${PAGES[name]}`);
        await look(`${name}-absolute`);
      }

      await page.goto(`${url}/admin/`);
      await page.getByRole("button", { name: /^Rows: comfortable/ }).click();
      await page.getByRole("button", { name: /^Rows: compact/ }).waitFor();
      for (const name of ["jobs", "cases", "inbox", "failures", "audit", "deleted", "models"]) {
        await page.goto(`${url}/admin/${PAGES[name]}`);
        await look(`${name}-compact`);
      }

      expect(complaints.filter((one) => !/status of 404/.test(one))).toEqual([]);
      await context.close();
    },
    240_000,
  );
}
