// @long
import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { defineAgent, defineChat } from "agent-control-service";
import { ADMIN, html, JOBS, type Plugin, THREADS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Page } from "playwright-core";
import * as v from "valibot";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { DESKTOP, launch, signIn, visit } from "./_browser.ts";
import { openRoad } from "./_road.ts";
import { signIn as signInAlone } from "./_sign-in.ts";

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ does: v.string() }),
      async run({ job, log, fields: { does } }) {
        log.info(`works on ${job.id}`);
        const item = await job.openCase({ id: `case-${job.id}`, name: `Order of ${job.id}` });
        const answer = { model: "gpt-5-mini", choices: [{ message: { role: "assistant", content: does } }] };
        await item.model("classify", { model: "gpt-5-mini" }, () => answer, { cost: () => 0.5 });
        const report = await item.step("report", ({ file }) => file(`${job.id}.txt`, job.id));
        await item.artifact("report", report);
        if (does === "fail") throw new Error("connect ECONNREFUSED");
        if (does === "ask")
          await item.ask("fine", { question: "Fine?", fields: v.object({ fine: v.boolean() }) });
        if (does === "wait") await job.waitFor("payment");
        await item.close();
        return does;
      },
    },
  },
});
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });
const extension: Plugin = {
  name: "extension",
  dependsOn: ["admin"],
  setup(context) {
    const render = async () => html`<p>${(await context.get(JOBS).list({ limit: 0 })).total} jobs</p>`;
    context.get(ADMIN).addPage({ path: "extra", title: "Extra", render });
  },
};

/** Pages by their template. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  ...{ access: ["access"], agent: ["agents/worker"], agents: ["agents"], audit: ["audit"] },
  ...{ case: ["cases/case-seen"], chat: ["jobs/thread/chat"], console: ["console"], dashboard: [""] },
  ...{ compare: ["jobs/seen/compare?with=good"], deleted: ["deleted", "deleted-cases"] },
  ...{ deliveries: ["deliveries"], entities: ["jobs", "cases"] },
  ...{ events: ["events", "events/waiting"], failures: ["failures"], gallery: ["files"], inbox: ["inbox"] },
  ...{ job: ["jobs/seen", "jobs/seen?tab=history"], models: ["models?days=7"], plugin: ["x/extra"] },
  ...{ schedules: ["schedules"], server: ["server"], sessions: ["sessions"] },
  // Of what a person is about to do.
  ...{ alike: ["cases/case-open/alike"], bulk: ["bulk/{bulk}"] },
  start: ["agents/worker/start"],
  file: ["jobs/seen/files/{file}/view"],
};
const PATHS = Object.values(PAGES).flat();
/** Pages of which nothing has to change: what they show is fixed, or is checked when it is sent. */
const FIXED = ["deliveries", "alike", "bulk", "start", "file"].flatMap((name) => PAGES[name]!);

/** What is compared with the page as it is loaded again: by default, all of it. */
const PARTS: Readonly<Record<string, string>> = {
  // New rows and questions wait behind a button.
  ...{ jobs: "#tabs, #row-seen", cases: "#tabs, #row-case-seen", inbox: ".nav [href='/admin/inbox'] .count" },
  // What else such forms have is as it was when they were opened.
  ...{ "cases/case-open/alike": "h2", "agents/worker/start": "h1", "jobs/thread/chat": "#chat" },
  console: "#log .msg",
};

chromium.it("every template of a page with a live stream is among those that are checked", () => {
  const folder = new URL("../../src/templates/admin/pages/", import.meta.url);
  const templates = readdirSync(folder).filter((file) => {
    const text = readFileSync(new URL(file, folder), "utf8");
    return text.includes("@layout") && !text.includes("live: ''");
  });
  expect(Object.keys(PAGES).sort()).toEqual(templates.map((file) => file.replace(".edge", "")).sort());
});

chromium.it(
  "every open page says that it no longer hears the service, and shows what is so once it does",
  async () => {
    await using server = await serve();
    await using road = await openRoad(server.url);
    const { open, close } = await openAll(server, road.url);

    for (const [at, fault] of (["dead", "silent", "failing"] as const).entries()) {
      const before = await Promise.all(open.map(shown));
      road.become(fault === "failing" ? "dead" : fault);
      for (const { page } of open) await page.locator("#blind").waitFor();
      const said = await Promise.all(open.map(({ page }) => page.locator("#blind").textContent()));
      expect(said.filter((text) => !text?.startsWith("No connection to the service since "))).toEqual([]);
      await change(server, at + 1);

      if (fault === "failing") {
        road.become("failing");
        // Each page asks for its parts again until it has all of them.
        await expect.poll(() => road.failed).toBeGreaterThan(open.length / 3);
        await expect.poll(() => wrong(open, server)).toEqual([]);
      }
      road.become("open");
      for (const { page } of open) await page.locator("#blind").waitFor({ state: "hidden" });
      await expect.poll(async () => [fault, ...(await outdated(open, server))]).toEqual([fault]);
      const after = await Promise.all(open.map(shown));
      const same = open.filter((_, index) => after[index] === before[index]).map(({ path }) => path);
      expect([fault, same]).toEqual([fault, FIXED]);
    }
    await close();
  },
  600_000,
);

interface Open {
  readonly page: Page;
  readonly path: string;
}

async function serve(): Promise<TestServer> {
  const server = await testServer({
    agents: [worker, talker],
    plugins: [extension],
    schedules: [{ id: "nightly", cron: "0 3 * * *", agent: worker, fields: { does: "work" } }],
  });
  for (const id of ["seen", "good"]) await start(server, id, "work", "completed");
  await start(server, "open", "ask", "awaiting");
  for (const round of [1, 2, 3]) await start(server, `other-${round}`, "work", "completed");
  await server.service.get(THREADS).start("talker", { message: "Hello" }, { id: "thread" });
  return server;
}

async function start(server: TestServer, id: string, does: string, status: string): Promise<void> {
  const json = { job_context: { job_id: id }, job_fields: { does } };
  const response = await server.request("/agents/worker/jobs", { json });
  if (!response.ok) throw new Error(await response.text());
  await expect
    .poll(async () => (await server.request(`/admin/api/jobs/${id}`)).json())
    .toMatchObject({ status });
}

/** Changes what each page shows that can change. */
async function change(server: TestServer, round: number): Promise<void> {
  const send = async (path: string, json?: object, method = "POST") => {
    const response = await server.request(path, { ...(json && { json }), method });
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  };
  await start(server, `done-${round}`, "work", "completed");
  await start(server, `lost-${round}`, "fail", "failed");
  await start(server, `asks-${round}`, "ask", "awaiting");
  await start(server, `waits-${round}`, "wait", "in_progress");
  await send(`/admin/api/jobs/done-${round}`, undefined, "DELETE");
  await send(`/admin/api/cases/case-other-${round}`, undefined, "DELETE");
  const status = ["completed", "failed"][round % 2];
  await send("/admin/api/jobs/seen/status", { status });
  await send("/admin/api/cases/case-seen/status", { status });
  await send("/access", { name: `key-${round}`, role: "viewer", expires_in: "90d" });
  await send("/events/refund", { id: `refund-${round}`, data: {} });
  await send(`/admin/api/schedules/nightly/${["resume", "pause"][round % 2]}`);
  await server.service.get(THREADS).say("thread", `Round ${round}`);
  await signInAlone(server, `Person ${round}`);
}

/** Opens all pages at the same time: a browser has six connections to a service in each of its contexts. */
async function openAll(server: TestServer, url: string) {
  const preview = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "delete", ids: ["good"] },
  });
  const { id } = (await preview.json()) as { id: string };
  const places = { bulk: id, file: hash("sha256", "seen", "hex") };
  const first = await visit(browser, url, DESKTOP);
  await signIn(first.page, url, server.key);
  const storageState = await first.context.storageState();
  await first.context.close();
  const contexts = await Promise.all(
    Array.from({ length: Math.ceil(PATHS.length / 4) }, () => visit(browser, url, DESKTOP, { storageState })),
  );
  const open: Open[] = [];
  for (const [at, path] of PATHS.entries()) {
    const page = await contexts[Math.floor(at / 4)]!.context.newPage();
    const filled = path.replace(/\{(\w+)\}/, (_, name: keyof typeof places) => places[name]);
    await page.goto(`${url}/admin/${filled}`);
    await page.locator("#signal[data-state=live]", { hasText: "Live" }).waitFor({ state: "attached" });
    open.push({ page, path });
  }
  return { open, close: () => Promise.all(contexts.map(({ context }) => context.close())) };
}

/** Durations, sizes, and what the service counts of itself. */
const MOVES = /(?:\d[\d.,]* ?(?:ms|s|min|h|d|MB|GB)\b ?)+(?:ago)?|(?:Reads|Writes|Open pages)[\d,]+/g;
/** The text of a page, without what moves with time. */
const TEXT = `(root, parts) => [...root.querySelectorAll(parts)].map((part) => {
  const copy = part.cloneNode(true);
  for (const one of copy.querySelectorAll("time, #blind, #tokens, [data-since], .note, .news")) one.remove();
  return copy.textContent.replace(/\\s+/g, " ").replace(${MOVES}, "").trim();
}).join(" | ")`;
const partsOf = ({ path }: Open) => JSON.stringify(PARTS[path] ?? "main");

const shown = (one: Open): Promise<string> => one.page.evaluate(`(${TEXT})(document, ${partsOf(one)})`);

/** The same of the page as it is loaded again, past the road. */
async function loaded(one: Open, server: TestServer): Promise<string> {
  const { pathname, search } = new URL(one.page.url());
  const response = await one.page.context().request.get(server.url + pathname + search);
  const parsed = `new DOMParser().parseFromString(${JSON.stringify(await response.text())}, "text/html")`;
  return one.page.evaluate(`(${TEXT})(${parsed}, ${partsOf(one)})`);
}

/** What pages show, and what they should. */
async function outdated(open: readonly Open[], server: TestServer): Promise<string[][]> {
  const both = open.map(async (one) => [one.path, await shown(one), await loaded(one, server)]);
  return (await Promise.all(both)).filter(([, is, should]) => is !== should);
}

/** The pages that show something else than they should, and do not say so. */
async function wrong(open: readonly Open[], server: TestServer): Promise<string[]> {
  const paths = (await outdated(open, server)).map(([path]) => path!);
  const saying = await Promise.all(open.map(({ page }) => page.locator("#blind").isVisible()));
  return paths.filter((path) => !saying[open.findIndex((one) => one.path === path)]);
}
