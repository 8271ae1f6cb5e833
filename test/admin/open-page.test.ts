// @long
import { setTimeout as delay } from "node:timers/promises";
import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { requirement } from "../_require.ts";
import { DESKTOP, launch, signIn, visit } from "./_browser.ts";
import { seedCase, seedJob } from "./_seed.ts";

/** A job that does something every quarter of a second while a test watches it. */
const ticker = defineAgent({
  name: "Ticker",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job, signal }) {
        const item = await job.openCase({ id: `${job.id}-1`, name: "Ticks" });
        for (let tick = 0; tick < 400 && !signal.aborted; tick++) {
          await item.step(`tick ${tick}`, () => delay(250).then(() => tick));
        }
        return { message: "done" };
      },
    },
  },
});

const chromium = requirement("chromium");
let browser: Browser;

beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const startTicker = (server: TestServer, id: string) => startJob(server, "ticker", id);

async function startJob(server: TestServer, agent: string, id: string): Promise<void> {
  const job_context = {
    workspace_id: "w",
    job_id: id,
    started_by: "tests",
    started_at: new Date().toISOString(),
    mission_id: "m",
    mission_name: id,
  };
  await server.request(`/agents/${agent}/jobs`, { json: { job_context, job_fields: {} } });
}

/** Waits until the page shows that the running job did so many more ticks. */
async function waitForTicks(page: Page, more: number): Promise<void> {
  const last = async () =>
    Number(/tick (\d+)/.exec((await page.locator(".fall .w-step").last().textContent()) ?? "")?.[1]);
  const before = await last();
  await expect.poll(last).toBeGreaterThanOrEqual(before + more);
}

const hasFocus = (element: object) =>
  (element as { ownerDocument: { activeElement: unknown } }).ownerDocument.activeElement === element;
const selected = (page: Page) => page.evaluate("getSelection().toString()");
const focused = (page: Page) => page.evaluate("document.activeElement.textContent.trim()");

chromium.it(
  "a running job's page keeps the selection, the focus and unfolded parts",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await startTicker(server, "running-job");
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/jobs/running-job`);
    await page.locator("#signal[data-state=live]").waitFor();
    await waitForTicks(page, 1);

    await page.evaluate(`{
      const range = document.createRange();
      range.selectNodeContents(document.querySelector(".top .mono"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      window.before = document.querySelector(".top .mono");
    }`);
    await waitForTicks(page, 4);
    expect(await selected(page)).toBe("running-job");
    expect(await page.evaluate("window.before.isConnected")).toBe(true);

    await page.getByRole("link", { name: "Stop" }).focus();
    await waitForTicks(page, 4);
    expect(await focused(page)).toBe("Stop");

    // A press that begins before a change and ends after it still is a click.
    const stop = (await page.getByRole("link", { name: "Stop" }).boundingBox())!;
    await page.mouse.move(stop.x + stop.width / 2, stop.y + stop.height / 2);
    await page.mouse.down();
    await waitForTicks(page, 3);
    await page.mouse.up();
    await page.getByRole("heading", { name: /Stop/ }).waitFor();

    expect(complaints).toEqual([]);
    await context.close();
  },
  120_000,
);

it("a running step is in the timeline before anything of it is stored", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const holder = defineAgent({
    name: "Holder",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          await job.step("quick", () => 1);
          const item = await job.openCase({ id: "h-1", name: "Case" });
          await item.step("slow", () => held);
          return { message: "done" };
        },
      },
    },
  });
  await using server = await testServer({ agents: [holder] });
  await startJob(server, "holder", "h");
  const rows = async () => {
    const timeline = await (await server.request("/admin/api/jobs/h/timeline")).json();
    return (timeline as { rows: { kind: string; name: string; running: boolean }[] }).rows
      .filter(({ kind }) => kind === "step")
      .map(({ name, running }) => [name, running]);
  };

  await expect.poll(rows).toEqual([
    ["quick", false],
    ["slow", true],
  ]);
  const page = await (await server.request("/admin/cases/h-1", { headers: { accept: "text/html" } })).text();
  release();
  await expect.poll(rows).toEqual([
    ["quick", false],
    ["slow", false],
  ]);

  expect(page).toMatch(/<bdi>slow<\/bdi><\/a>\s*<small>running/);
});

chromium.it(
  "counts follow the filters, change while the list is open, and catch up after the tab was hidden",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    for (const id of ["a1", "a2"]) await seedJob(server.service, { id, agent: "ticker", status: "failed" });
    await seedJob(server.service, { id: "b1", agent: "other", status: "failed" });
    const { page, context } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.clock.install();
    await page.goto(`${server.url}/admin/jobs?agent_name=ticker`);
    await page.locator("#signal[data-state=live]").waitFor();
    const tab = (name: string) => page.locator(".tabs a", { hasText: name }).locator(".count");

    expect([await tab("All").textContent(), await tab("Failed").textContent()]).toEqual(["2", "2"]);

    await seedJob(server.service, { id: "b2", agent: "other", status: "failed" });
    await seedJob(server.service, { id: "a3", agent: "ticker", status: "failed" });
    await page.clock.runFor(3000);
    await expect.poll(() => tab("Failed").textContent()).toBe("3");
    await page.getByText("Show 1 new job").waitFor();
    await expect.poll(() => page.locator("#range").textContent()).toContain("of 3");

    await page.evaluate(`{
      Object.defineProperty(document, "hidden", { value: true, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }`);
    await page.clock.runFor(21_000);
    await page.locator("#signal[data-state=off]").waitFor();
    await seedJob(server.service, { id: "a4", agent: "ticker", status: "completed" });
    await page.evaluate(`{
      Object.defineProperty(document, "hidden", { value: false, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }`);
    await page.getByText("Show 2 new jobs").waitFor();
    await expect.poll(() => tab("All").textContent()).toBe("4");

    await page.locator("#row-a1 input").check();
    await page.getByText("Show 2 new jobs").click();
    await page.locator("#row-a4").waitFor();
    expect(await page.locator("#row-a1 input").isChecked()).toBe(true);
    await page.getByText("1 selected").waitFor();
    await context.close();
  },
  120_000,
);

chromium.it(
  "the lists of jobs and cases fit every width from 760 to 1440 pixels",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    for (let index = 0; index < 12; index++) {
      const id = `6f1c2a0e-8d1b-4f5e-9a55-0123456789${String(index).padStart(2, "0")}`;
      const name = `Reconcile missing payloads of October ${index}`;
      await seedJob(server.service, { id, name, agent: "refund-approver-eu", status: "in_progress" });
      await seedCase(server.service, { job: id, ref: `case-${index}`, name, cost: 12.3456 });
    }
    const { page, context } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    const wrong: string[] = [];

    for (const path of ["jobs", "cases"]) {
      await page.goto(`${server.url}/admin/${path}`);
      for (const width of [760, 780, 880, 960, 1000, 1024, 1040, 1100, 1180, 1280, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        const seen = (await page.evaluate(`({
          rows: Math.max(...[...document.querySelectorAll("tbody tr")].map((row) => row.offsetHeight)),
          name: document.querySelector("td.main").offsetWidth,
          over: document.querySelector(".scroll").scrollWidth - document.querySelector(".scroll").clientWidth,
          page: document.documentElement.scrollWidth - document.documentElement.clientWidth,
        })`)) as { rows: number; name: number; over: number; page: number };
        const fits =
          seen.rows <= 80 && (width <= 760 || seen.name >= 220) && seen.over <= 0 && seen.page <= 0;
        if (!fits) wrong.push(`${path} at ${width}: ${JSON.stringify(seen)}`);
      }
    }

    expect(wrong).toEqual([]);
    await context.close();
  },
  120_000,
);

chromium.it("the sign-in card is centered", async () => {
  await using server = await testServer({ agents: [ticker] });
  const { page, context } = await visit(browser, server.url, DESKTOP);

  for (const width of [390, 1440, 2200]) {
    await page.setViewportSize({ width, height: 900 });
    await page.goto(`${server.url}/admin/`);
    const { x, width: card } = (await page.locator(".gate .panel").boundingBox())!;
    expect(Math.abs(x + card / 2 - width / 2)).toBeLessThanOrEqual(10);
  }

  await context.close();
});

chromium.it("lines of the timeline are under the labels of the axis", async () => {
  await using server = await testServer({ agents: [ticker] });
  await startTicker(server, "job");
  const { page, context } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/jobs/job`);
  await waitForTicks(page, 1);

  const [labels, lines] = (await page.evaluate(`[
      [...document.querySelectorAll(".ticks text")].map((text) => text.getAttribute("x")),
      [...document.querySelectorAll(".ticks #fall-grid line")].map((line) => line.getAttribute("x1")),
    ]`)) as [string[], string[]];
  const [bars, ticks] = (await page.evaluate(`[".w-bars svg", ".ticks svg"].map((one) => {
      const box = document.querySelector(one).getBoundingClientRect();
      return [box.left, box.width];
    })`)) as [number[], number[]];

  expect(lines).toEqual(labels);
  expect(lines.length).toBeGreaterThan(1);
  expect(bars).toEqual(ticks);
  await context.close();
});

chromium.it(
  "times are shown as a person chooses: relative or absolute, local or UTC, with and without script",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await startTicker(server, "job");
    const view = { timezoneId: "Asia/Tokyo" };
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP, view);
    const created = async (on: Page) => {
      await on.goto(`${server.url}/admin/jobs`);
      const time = on.locator("#row-job td time").last();
      return [await time.textContent(), await time.getAttribute("title")];
    };
    const absolute = (zone: string) =>
      expect.stringMatching(new RegExp(`^\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d ${zone}$`));
    await signIn(page, server.url, server.key);

    expect(await created(page)).toEqual([expect.stringMatching(/ago|now/), absolute("GMT\\+9")]);
    await page.getByRole("button", { name: "Times: relative" }).click();
    await page.getByRole("button", { name: "Times: absolute" }).waitFor();
    expect(await created(page)).toEqual([absolute("GMT\\+9"), expect.stringMatching(/ago|now/)]);
    const quiet = await browser.newContext({
      javaScriptEnabled: false,
      storageState: await context.storageState(),
    });
    const still = await quiet.newPage();
    expect(await created(still)).toEqual([absolute("GMT\\+9"), expect.stringMatching(/ago|now/)]);
    await still.getByRole("button", { name: "Zone: Asia/Tokyo" }).click();
    expect(await created(still)).toEqual([absolute("UTC"), expect.stringMatching(/ago|now/)]);
    await page.getByRole("button", { name: "Zone: Asia/Tokyo" }).click();
    await page.getByRole("button", { name: "Zone: UTC" }).waitFor();
    await page.goto(`${server.url}/admin/jobs/job`);
    await waitForTicks(page, 1);
    const utc = await page.evaluate("new Date().toISOString().slice(11, 14)");
    expect(await page.locator(".ticks text").first().textContent()).toMatch(/^\d\d:\d\d:\d\d$/);
    expect(await page.locator(".ticks text").first().textContent()).toContain(String(utc).slice(0, 1));

    expect(complaints).toEqual([]);
    await quiet.close();
    await context.close();
  },
);

chromium.it(
  "Ctrl-K finds pages, agents, jobs, questions, saved views and actions by keyboard; without script it is a page",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await seedJob(server.service, { id: "j-7", name: "Refunds <b>of October</b>", status: "in_progress" });
    await seedCase(server.service, { job: "j-7", ref: "c-7", name: "Order 7", question: "Pay the plumber?" });
    await server.request("/admin/api/views", { json: { name: "Dear ones", query: "min_cost=5" } });
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    const { keyboard } = page;
    await signIn(page, server.url, server.key);
    const input = page.getByRole("combobox", { name: /^Page, agent, job/ });
    const chosen = page.getByRole("dialog").getByRole("option", { selected: true });
    const goTo = async (text: string, option: RegExp, address: RegExp) => {
      await keyboard.press("Control+k");
      await input.waitFor();
      await keyboard.type(text);
      await chosen.filter({ hasText: option }).waitFor();
      expect(await input.getAttribute("aria-activedescendant")).toBe(await chosen.getAttribute("id"));
      await keyboard.press("Enter");
      await page.waitForURL(address);
      await page.waitForLoadState("load");
    };

    await goTo("audit", /^Page Audit log/, /\/admin\/audit$/);
    await goTo("tick", /^Agent Ticker/, /\/admin\/agents\/ticker$/);
    await goTo("pause", /^Action Pause/, /\/admin\/agents\/ticker$/);
    await page.getByText("Paused by").first().waitFor();
    await goTo("j-7", /^Job Refunds <b>of October<\/b> j-7 · Waiting/, /\/admin\/jobs\/j-7$/);
    await goTo("plumb", /^Question Pay the plumber\?/, /\/admin\/inbox\?question=c-7$/);
    await goTo("dear", /^Saved view Dear ones/, /\/admin\/jobs\?min_cost=5$/);
    await page.getByRole("link", { name: "Find…" }).click();
    await input.waitFor();
    await keyboard.type("c-7");
    await chosen.filter({ hasText: "Question" }).waitFor();
    await keyboard.press("ArrowDown");
    await chosen.filter({ hasText: /^Case Order 7/ }).waitFor();
    await keyboard.press("ArrowDown");
    await chosen.filter({ hasText: "Question" }).waitFor();
    await keyboard.press("Escape");
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect(await page.getByRole("link", { name: "Find…" }).evaluate(hasFocus)).toBe(true);

    const quiet = await browser.newContext({
      javaScriptEnabled: false,
      storageState: await context.storageState(),
    });
    const still = await quiet.newPage();
    await still.goto(`${server.url}/admin/`);
    await still.getByRole("link", { name: "Find…" }).click();
    await still.getByRole("textbox", { name: /^Page, agent, job/ }).fill("plumber");
    await still.getByRole("button", { name: "Find" }).click();
    await still.getByRole("link", { name: "Pay the plumber?" }).click();
    await still.getByRole("heading", { name: "Pay the plumber?" }).waitFor();
    expect(complaints).toEqual([]);
    await quiet.close();
    await context.close();
  },
);

chromium.it("after an answer the keyboard focus stays where the question was", async () => {
  await using server = await testServer({ agents: [ticker] });
  await seedJob(server.service, { id: "j", agent: "ticker", status: "in_progress" });
  for (const ref of ["one", "two"])
    await seedCase(server.service, { job: "j", ref, question: `Pay ${ref}?` });
  const { page, context } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/inbox`);

  await page.getByLabel("Yes").first().check();
  await page.getByRole("button", { name: "Answer" }).first().click();
  await page.locator(".ask .done").first().waitFor();

  await expect.poll(() => page.evaluate("document.activeElement.className")).toBe("done");
  await context.close();
});

chromium.it("questions are answered one after another by keyboard, beside their list", async () => {
  await using server = await testServer({ agents: [ticker] });
  await seedJob(server.service, { id: "j", agent: "ticker", status: "in_progress" });
  const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();
  for (const [at, ref] of ["one", "two", "three"].entries())
    await seedCase(server.service, {
      ...{ job: "j", ref, question: `Pay ${ref}?`, payload: { amount: ref } },
      deadline: inHours(at + 1),
    });
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/inbox`);
  const { keyboard } = page;
  const pane = page.getByRole("region", { name: "Question", exact: true });

  await pane.getByRole("heading", { name: "Pay one?" }).waitFor();
  await keyboard.press("j");
  await pane.getByRole("heading", { name: "Pay two?" }).waitFor();
  await page.waitForURL(/question=two/);
  await keyboard.press("k");
  await pane.getByRole("heading", { name: "Pay one?" }).waitFor();
  await keyboard.press("j");
  await pane.getByText("What is known").waitFor();
  await pane.getByRole("heading", { name: "Pay two?" }).waitFor();
  await keyboard.press("n");
  await keyboard.press("e");
  await keyboard.type("too dear");
  await keyboard.press("Enter");
  await pane.getByText("Answered. The agent continues.").waitFor();
  await keyboard.press("j");
  await pane.getByRole("heading", { name: "Pay three?" }).waitFor();
  await keyboard.press("y");
  await keyboard.press("Enter");
  await pane.getByText("Answered. The agent continues.").waitFor();
  await pane.getByRole("link", { name: "Next of 1 open question" }).click();
  await pane.getByRole("heading", { name: "Pay one?" }).waitFor();

  const { updates } = (await (await server.request("/admin/api/cases/two")).json()) as { updates: object[] };
  expect(updates.at(-1)).toMatchObject({ payload: { answer: { approved: false }, message: "too dear" } });
  expect(complaints).toEqual([]);
  await context.close();
});

chromium.it("who goes back to a list continues at the row that was opened, also by keyboard", async () => {
  await using server = await testServer({ agents: [ticker] });
  for (const id of ["job-1", "job-2", "job-3"])
    await seedJob(server.service, { id, agent: "ticker", status: "completed" });
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/jobs?sort=name`);
  const focused = () => page.evaluate<string>("document.activeElement.textContent.trim()");
  for (let at = 0; at < 2; at++) await page.keyboard.press("j");
  expect(await focused()).toBe("Job job-2");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Job job-2" }).waitFor();
  await page.goBack();
  await page.waitForURL(/sort=name/);

  await expect.poll(focused).toBe("Job job-2");
  await page.keyboard.press("j");
  expect(await focused()).toBe("Job job-3");
  expect(complaints).toEqual([]);
  await context.close();
});

chromium.it(
  "five questions are answered with ten presses of keys, each opened by the answer before",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await seedJob(server.service, { id: "j", agent: "ticker", status: "in_progress" });
    const refs = ["one", "two", "three", "four", "five"];
    for (const [at, ref] of refs.entries()) {
      const deadline = new Date(Date.now() + (at + 1) * 3_600_000).toISOString();
      await seedCase(server.service, { job: "j", ref, question: `Pay ${ref}?`, deadline });
    }
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/inbox`);
    const pane = page.getByRole("region", { name: "Question", exact: true });

    for (const ref of refs) {
      await pane.getByRole("heading", { name: `Pay ${ref}?` }).waitFor();
      await page.keyboard.press("y");
      await page.keyboard.press(ref === "five" ? "Enter" : "Control+Enter");
    }
    await pane.getByText("Answered. The agent continues.").waitFor();

    for (const ref of refs) {
      const item = (await (await server.request(`/admin/api/cases/${ref}`)).json()) as { updates: object[] };
      expect(item.updates.at(-1)).toMatchObject({ payload: { answer: { approved: true } } });
    }
    expect(complaints).toEqual([]);
    await context.close();
  },
);

chromium.it(
  "a half-typed answer stays with its question while others are read, until it is answered or its session ends",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await seedJob(server.service, { id: "j", agent: "ticker", status: "in_progress" });
    for (const ref of ["one", "two"])
      await seedCase(server.service, { job: "j", ref, question: `Pay ${ref}?` });
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/inbox?question=one`);
    const { keyboard } = page;
    const pane = page.getByRole("region", { name: "Question", exact: true });
    const typed = async () => ({
      no: await pane.getByLabel("No", { exact: true }).isChecked(),
      message: await pane.getByLabel("Message").inputValue(),
    });

    await pane.getByLabel("No", { exact: true }).check();
    await pane.getByLabel("Message").fill("ask the buyer");
    await page.locator("h1").click();
    await keyboard.press("j");
    await pane.getByRole("heading", { name: "Pay two?" }).waitFor();
    expect(await typed()).toEqual({ no: false, message: "" });
    await pane.getByLabel("Message").fill("of two");
    await page.locator("h1").click();
    await keyboard.press("k");
    await pane.getByRole("heading", { name: "Pay one?" }).waitFor();
    await expect.poll(typed).toEqual({ no: true, message: "ask the buyer" });
    await pane.getByRole("link", { name: "Case one" }).click();
    await page.goBack();
    await expect.poll(typed).toEqual({ no: true, message: "ask the buyer" });
    const sent = (await (await server.request("/admin/api/cases/one")).json()) as { status: string };
    expect(sent.status).toBe("awaiting");

    await pane.getByRole("button", { name: "Answer", exact: true }).click();
    await pane.getByText("Answered. The agent continues.").waitFor();
    const drafts = () => page.evaluate("Object.keys(sessionStorage).filter((key) => key.includes('draft'))");
    await expect.poll(drafts).toHaveLength(1);
    await context.clearCookies();
    await page.goto(`${server.url}/admin/inbox`);
    await signIn(page, server.url, server.key);
    expect(await drafts()).toEqual([]);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    expect(await page.evaluate("Object.keys(sessionStorage)")).toEqual([]);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

chromium.it(
  "below 1000 pixels the inbox is a list, then the question's page, also without script",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await seedJob(server.service, { id: "j", agent: "ticker", status: "in_progress" });
    for (const ref of ["one", "two"])
      await seedCase(server.service, { job: "j", ref, question: `Pay ${ref}?` });
    const view = { ...DESKTOP, width: 999 };
    const { page, context } = await visit(browser, server.url, view, { javaScriptEnabled: false });
    await signIn(page, server.url, server.key);
    const list = page.getByRole("region", { name: "Open questions" });
    const answer = page.getByRole("button", { name: "Answer" });

    await page.goto(`${server.url}/admin/inbox`);
    expect([await list.isVisible(), await answer.isVisible()]).toEqual([true, false]);
    await page.getByRole("link", { name: "Pay two?" }).click();
    expect([await list.isVisible(), await answer.isVisible()]).toEqual([false, true]);
    await answer.click();
    await page.getByLabel("No", { exact: true }).check();
    await answer.click();
    await page.getByText("Answered: Case two").waitFor();
    await page.goto(`${server.url}/admin/inbox?question=two`);
    await page.getByText("This question is no longer open.").waitFor();
    await page.getByRole("link", { name: "All questions" }).click();
    await page.setViewportSize({ width: 1000, height: 850 });
    expect([await list.isVisible(), await answer.isVisible()]).toEqual([true, true]);

    await context.close();
  },
);

chromium.it(
  "a refresh that was sent before a link was followed does not bring the former part of the page back",
  async () => {
    await using server = await testServer({ agents: [ticker] });
    await startTicker(server, "left-part");
    const { page, context } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/jobs/left-part`);
    await page.locator("#signal[data-state=live]").waitFor();
    await waitForTicks(page, 1);
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route("**/admin/api/jobs/left-part", async (route) => {
      await released;
      await route.continue();
    });
    await page.waitForRequest("**/admin/api/jobs/left-part");
    const tab = page.locator("nav[aria-label='Parts of this page'] [aria-current]");

    await page.getByRole("link", { name: "History" }).click();
    await page.getByRole("heading", { name: "History" }).waitFor();
    const arrived = page.waitForResponse("**/admin/api/jobs/left-part");
    const next = page.waitForResponse("**/admin/api/jobs/left-part?tab=history");
    release();
    await arrived;
    // What has been missed is asked for where the page is now.
    await next;
    expect(await tab.textContent()).toMatch(/^\s*History/);
    expect(await page.getByRole("heading", { name: "Timeline" }).count()).toBe(0);
    await context.close();
  },
);
