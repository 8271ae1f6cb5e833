import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { DESKTOP, findings, launch, PHONE, signIn, type View, visit } from "./_browser.ts";

const chromium = requirement("chromium");

const waiter = defineAgent({
  name: "Waiter",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "order", field_type: "IntegerField", default: 42 }],
      run: async ({ job, fields }) => {
        const where = { "order.id": fields.order };
        const since = new Date(0);
        return (await job.waitFor("payment", { where, since, deadline: "3d" })).id;
      },
    },
  },
});

const LONG_ID = `reports-of-${"every-subsidiary-".repeat(4)}nightly`;

async function start(): Promise<TestServer> {
  const server = await testServer({
    agents: [waiter],
    schedules: [
      { id: "nightly", cron: "0 3 * * *", agent: waiter },
      { id: LONG_ID, cron: "*/15 8-18 * * MON-FRI", timezone: "Europe/Berlin", agent: waiter },
    ],
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

async function startJob(server: TestServer, id: string, order: number): Promise<void> {
  const started = { started_by: "tests", started_at: "2026-01-01T00:00:00Z" };
  const job_context = { workspace_id: "w", job_id: id, ...started, mission_id: "m", mission_name: id };
  await server.request("/agents/waiter/jobs", { json: { job_context, job_fields: { order } } });
}

const send = (server: TestServer, id: string, order: number) =>
  server.request("/events/payment", { json: { id, data: { order: { id: order }, amount: 12.5 } } });

const get = async (server: TestServer, path: string) => {
  const response = await server.request(`/admin/api${path}`);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
};

test("lists of events and of deleted jobs lead to the pages before and after, and say how many there are", async () => {
  const server = await start();
  const ids = ["a", "b", "c"];
  for (const id of ids) {
    await send(server, id, 9);
    await startJob(server, id, 1);
    await server.request(`/admin/api/jobs/${id}`, { method: "DELETE" });
  }
  const pagerOf = async (path: string) => {
    const page = await server.request(path, { headers: { accept: "text/html" } });
    return /<div class="pager">([\s\S]*?)<\/div>/.exec(await page.text())?.[1];
  };

  const events = await pagerOf("/admin/events?limit=1&skip=1");
  const deleted = await pagerOf("/admin/deleted?limit=1&skip=1");

  expect(events).toMatch(/rel="prev" href="\/admin\/events"[\s\S]*rel="next" href="\/admin\/events\?skip=2"/);
  for (const pager of [events, deleted]) expect(pager).toContain("2–2 of 3");
  expect(deleted).toMatch(
    /rel="prev" href="\/admin\/deleted"[\s\S]*rel="next" href="\/admin\/deleted\?skip=2"/,
  );
  expect(await pagerOf("/admin/events")).toBeUndefined();
});

test("received events say which jobs took them, whether they came before or after; waits say for what", async () => {
  const server = await start();
  await send(server, "early", 1);
  await send(server, "unused", 9);
  await startJob(server, "takes-early", 1);
  await startJob(server, "takes-late", 2);
  await startJob(server, "waits", 3);
  const waiting = async () => (await get(server, "/received-events/waiting")).body;
  await expect.poll(async () => (await waiting()).total).toBe(2);
  await send(server, "late", 2);
  const completed = { where: { status: "completed" } } as const;
  await expect.poll(async () => (await server.service.get(JOBS).list(completed)).total).toBe(2);

  const { body } = await get(server, "/received-events");
  const page = await server.request("/admin/events", { headers: { accept: "text/html" } });
  const none = await get(server, "/received-events?name=refund");
  const machine = (await (await server.request("/events?limit=1")).json()) as unknown[];

  const data = (id: number) => ({ order: { id }, amount: 12.5 });
  expect(body).toMatchObject({ total: 3, limit: 50, has_next: false });
  expect(body.items).toMatchObject([
    { id: "late", name: "payment", data: data(2), jobs: ["takes-late"] },
    { id: "unused", data: data(9), jobs: [] },
    { id: "early", data: data(1), jobs: ["takes-early"] },
  ]);
  expect(machine).toMatchObject([{ id: "late", jobs: ["takes-late"] }]);
  expect(await waiting()).toMatchObject({
    total: 1,
    items: [{ name: "payment", job_id: "waits", where: ["order.id"], until: expect.any(String) }],
  });
  expect(none.body).toMatchObject({ total: 0, items: [] });
  const text = await page.text();
  expect(text).toContain('<a class="link" href="/admin/jobs/takes-late">takes-late</a>');
  expect(text).toContain("No job yet");
  expect((await get(server, "/received-events?nam=x")).status).toBe(422);
});

test("an event that many jobs take names the first of them", async () => {
  const everyone = defineAgent({
    name: "Everyone",
    version: "1.0.0",
    methods: {
      job_start: { fields: [], run: async ({ job }) => (await job.waitFor("go", { since: new Date(0) })).id },
    },
  });
  await using server = await testServer({ agents: [everyone], maxConcurrentJobs: 50 });
  const begin = async (from: number, to: number) => {
    for (let n = from; n < to; n++) await server.request("/agents/everyone/jobs", { json: {} });
  };
  const ended = async () => (await server.service.get(JOBS).list({ where: { status: "completed" } })).total;
  const jobs = async () =>
    ((await get(server, "/received-events")).body.items as { jobs: string[] }[])[0]!.jobs.length;
  await begin(0, 15);
  await expect.poll(async () => (await get(server, "/received-events/waiting")).body.total).toBe(15);

  await server.request("/events/go", { json: {} });
  await expect.poll(ended).toBe(15);
  expect(await jobs()).toBe(15);
  await begin(15, 25);
  await expect.poll(ended).toBe(25);

  expect(await jobs()).toBe(20);
});

test("a schedule is run, paused and resumed as JSON and by form, each with a line in the audit log", async () => {
  const server = await start();
  const post = async (path: string) =>
    (await server.request(`/admin/api/schedules/${path}`, { method: "POST" })).json();
  const form = async (path: string, method = "POST") => {
    const headers = { accept: "text/html", "content-type": "application/x-www-form-urlencoded" };
    const body = method === "POST" ? { body: "confirm=yes" } : {};
    return server.request(`/admin/schedules/${path}`, { method, headers, redirect: "manual", ...body });
  };

  expect(await post("nightly/pause")).toMatchObject({ id: "nightly", paused: true });
  expect(await post("nightly/resume")).toMatchObject({ id: "nightly", paused: false });
  const job = (await post("nightly/run")) as { id: string };
  expect((await get(server, `/jobs/${job.id}`)).body).toMatchObject({ schedule: { id: "nightly" } });
  expect(await (await form("nightly/pause", "GET")).text()).toContain("Pause this schedule?");
  const paused = await form("nightly/pause");
  expect([paused.status, paused.headers.get("location")]).toEqual([303, "/admin/schedules"]);
  expect((await get(server, "/schedules")).body.items).toMatchObject([{ paused: true }, { paused: false }]);
  expect((await form("nightly/resume")).status).toBe(303);
  const run = await form(`${LONG_ID}/run`);
  expect(run.headers.get("location")).toMatch(/^\/admin\/jobs\/[\w-]+$/);

  const { items } = (await get(server, "/audit")).body as { items: { action: string; target: unknown }[] };
  const lines = items.filter(({ action }) => action.startsWith("schedule."));
  expect(lines.map(({ action }) => action.slice(9)).reverse()).toEqual([
    "pause",
    "resume",
    "run",
    "pause",
    "resume",
    "run",
  ]);
  expect(lines[0]!.target).toEqual({ kind: "schedule", id: LONG_ID });
  expect((await form("none/pause")).status).toBe(404);
});

/** All widths in both themes where screenshots are taken. */
const VIEWS: readonly View[] = process.env.SVC_SHOTS
  ? [1440, 1024, 768, 390].flatMap((width) =>
      (["light", "dark"] as const).map((colorScheme) => ({
        ...{ name: String(width), width, height: 900, colorScheme },
      })),
    )
  : shareOf([DESKTOP, PHONE], 2);

chromium.it(
  "a person pauses a schedule, runs it now, and finds the events that arrived",
  async () => {
    const server = await start();
    await send(server, "early", 1);
    await startJob(server, "takes-early", 1);
    await startJob(server, "waits", 3);
    await send(server, "unused", 9);
    const browser = await launch();
    onTestFinished(() => browser.close());
    const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const { page, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    const look = async (name: string) => {
      for (const view of VIEWS) {
        await page.setViewportSize(view);
        await page.emulateMedia({ colorScheme: view.colorScheme });
        const where = `${name}-${view.name}-${view.colorScheme}`;
        complaints.push(...(await findings(page, axe, view)).map((one) => `${where}: ${one}`));
        const width = await page.evaluate<number>("document.documentElement.scrollWidth");
        if (width > view.width) complaints.push(`${where}: ${width} px wide`);
        const folder = process.env.SVC_SHOTS;
        if (folder)
          await page.screenshot({ path: `${folder}/${where}.png`, caret: "initial", fullPage: true });
      }
      await page.setViewportSize(DESKTOP);
    };

    await page.goto(`${server.url}/admin/`);
    await page.getByRole("link", { name: "Schedules" }).click();
    await page.getByRole("link", { name: "Pause nightly" }).click();
    await page.getByRole("heading", { name: "Pause this schedule?" }).waitFor();
    await look("pause");
    await page.getByRole("button", { name: "Pause" }).click();
    await page.getByText("The schedule is paused.").waitFor();
    await page.getByRole("link", { name: "Resume nightly" }).waitFor();
    await page.getByRole("link", { name: "Run now nightly" }).click();
    await page.getByRole("button", { name: "Start the job" }).click();
    await page.waitForURL(/\/admin\/jobs\/[\w-]+$/);
    await page.goto(`${server.url}/admin/schedules`);
    await look("schedules");

    await page.getByRole("link", { name: "Events" }).click();
    await page.getByText("takes-early").waitFor();
    await page.getByText("Data").first().click();
    await look("events");
    await page.getByRole("link", { name: /^Waiting/ }).click();
    await page.getByText("order.id").first().waitFor();
    await look("waiting");
    expect(complaints).toEqual([]);
  },
  180_000,
);
