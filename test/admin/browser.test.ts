// @long
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { DESKTOP, findings, launch, PHONE, signIn, type View, type Visit, visit } from "./_browser.ts";
import { type IdleTab, openIdleTab } from "./_idle-tab.ts";
import { seedJob } from "./_seed.ts";

const auditor = defineAgent({
  name: "Invoice Auditor",
  version: "1.0.0",
  description: "Checks invoices and asks a person about the odd ones",
  parameters: [{ name: "ERP_TOKEN", is_secret: true }],
  methods: {
    job_start: {
      description: "Audits a batch",
      fields: [
        { name: "file", required: true, description: "Path of the batch" },
        { name: "count", field_type: "IntegerField", default: 1 },
      ],
      nodes: [{ name: "check", type: "validation" }],
      async run({ job, fields, log }) {
        log.info("audit started", { job_id: job.id });
        await job.step("read", () => 1, { cost: 0.01 });
        const item = await job.openCase({ id: `${job.id}-1`, name: "Invoice 1", description: "Nordwind" });
        await item.step("check", () => ({ total: 1200 }), { cost: 0.02 });
        const answer = await item.ask({
          question: `Pay the invoice of ${String(fields.file)}?`,
          fields: [{ name: "approved", field_type: "BooleanField", required: true }],
        });
        await item.close({ paid: answer.approved });
        return { message: "audited" };
      },
    },
  },
});
const quick = defineAgent({
  name: "Quick",
  version: "1.0.0",
  methods: {
    job_start: { fields: [{ name: "n", field_type: "IntegerField" }], run: () => ({ message: "done" }) },
  },
});

const chromium = requirement("chromium");
let browser: Browser;
let axe: string;
let idle: IdleTab;

beforeAll(async () => {
  if (!chromium.met) return;
  browser = await launch();
  idle = await openIdleTab(browser, [quick]);
  axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
});
afterAll(async () => {
  await idle?.[Symbol.asyncDispose]();
  await browser?.close();
});

async function startQuick(server: Awaited<ReturnType<typeof testServer>>, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const id = `quick-${String(index).padStart(3, "0")}`;
    const job_context = {
      workspace_id: "w",
      job_id: id,
      started_by: "tests",
      started_at: new Date().toISOString(),
      mission_id: "m",
      mission_name: `Quick ${index}`,
    };
    await server.request("/agents/quick/jobs", { json: { job_context, job_fields: { n: index } } });
  }
}

/** Checks the page with axe-core; screenshots go where `SVC_SHOTS` says. */
async function look(
  { page, complaints }: Pick<Visit, "page" | "complaints">,
  name: string,
  view: View,
): Promise<void> {
  complaints.push(...(await findings(page, axe, view)).map((finding) => `${name}: ${finding}`));
  const folder = process.env.SVC_SHOTS;
  if (folder)
    await page.screenshot({
      path: `${folder}/${name}-${view.name}-${view.colorScheme}.png`,
      caret: "initial",
    });
}

const VIEWS: readonly View[] = [DESKTOP, PHONE];

for (const view of shareOf(VIEWS, 2)) {
  chromium.it(
    `a person signs in, starts a job, answers its question, sees it end, finds, deletes and signs out (${view.name})`,
    async () => {
      await using server = await testServer({ agents: [auditor, quick] });
      await startQuick(server, 60);
      const { page, context, complaints } = await visit(browser, server.url, view);

      await page.goto(`${server.url}/admin/`);
      await look({ page, complaints }, "sign-in", view);
      await signIn(page, server.url, server.key);
      await look({ page, complaints }, "dashboard", view);

      await page.goto(`${server.url}/admin/agents`);
      await look({ page, complaints }, "agents", view);
      await page.goto(`${server.url}/admin/agents/invoice-auditor`);
      await look({ page, complaints }, "agent", view);
      await page.getByRole("link", { name: "Start a job" }).first().click();
      await page.getByLabel("Count").fill("2");
      await page.getByRole("button", { name: "Start" }).click();
      await page.locator(".problem").first().waitFor();
      await look({ page, complaints }, "start-refused", view);
      expect(await page.getByLabel("Count").inputValue()).toBe("2");
      await page.getByRole("textbox", { name: "File" }).fill("october.csv");
      await page.getByRole("button", { name: "Start" }).click();

      await page.waitForURL(/\/admin\/jobs\/[\w-]+$/);
      await page.locator(".verdict .st-awaiting").waitFor();
      await page.getByRole("link", { name: "Answer", exact: true }).waitFor();
      await look({ page, complaints }, "job-waiting", view);
      const jobUrl = page.url();

      const watcher = await context.newPage();
      await watcher.goto(jobUrl);
      await watcher.locator("#signal[data-state=live]").waitFor({ state: "attached" });
      await page.goto(`${server.url}/admin/inbox`);
      await look({ page, complaints }, "inbox", view);
      await page.getByRole("link", { name: "Pay the invoice of october.csv?" }).click();
      await page.waitForURL(/question=/);
      await page.getByLabel("Assigned to").fill("finance");
      await page.getByRole("button", { name: "Assign" }).click();
      await page.getByText("Assigned to finance.").waitFor();
      await page.getByText("Ask one person by link").click();
      await page.getByLabel("Name of the person").fill("Mira");
      await page.getByRole("button", { name: "Create a link" }).click();
      const link = await page.getByRole("textbox", { name: /^Link for Mira/ }).inputValue();
      await look({ page, complaints }, "question", view);
      await page.goto(link);
      await look({ page, complaints }, "answer", view);
      await page.getByRole("heading", { name: "Pay the invoice of october.csv?" }).waitFor();
      await page.goto(`${server.url}/admin/cases/${jobUrl.split("/").at(-1)}-1/alike`);
      await page.getByRole("button", { name: "Answer the ticked ones" }).waitFor();
      await look({ page, complaints }, "alike", view);
      await page.goto(`${server.url}/admin/inbox`);
      await page.getByRole("link", { name: "Pay the invoice of october.csv?" }).click();
      await page.getByRole("button", { name: "Answer" }).click();
      await page.locator(".problem, .note.bad").first().waitFor();
      await page.getByLabel("Yes").check();
      await page.getByRole("button", { name: "Answer" }).click();
      await page.getByText("Answered. The agent continues.").waitFor();
      await watcher.locator(".verdict .st-completed").waitFor();
      await look({ page: watcher, complaints }, "job-completed", view);
      await watcher.bringToFront();
      await watcher.getByRole("link", { name: "History" }).click();
      await watcher.getByText('says "Ada"').first().waitFor();
      await look({ page: watcher, complaints }, "job-history", view);
      await watcher.getByRole("link", { name: "Timeline" }).click();
      await watcher.getByRole("link", { name: "check", exact: true }).first().click();
      await watcher.waitForURL(/\?step=/);
      await watcher.locator("#step", { hasText: "1200" }).waitFor();
      await look({ page: watcher, complaints }, "job-step", view);
      await watcher.getByRole("link", { name: "Invoice 1", exact: true }).first().click();
      await watcher.getByRole("link", { name: "Open the case" }).click();
      await watcher.getByRole("heading", { name: "Final delivery" }).waitFor();
      await look({ page: watcher, complaints }, "case", view);
      await watcher.close();
      await page.bringToFront();

      await page.goto(`${server.url}/admin/jobs`);
      await page.getByRole("link", { name: /^Completed/ }).click();
      await page.waitForURL(/status=completed/);
      await page.keyboard.press("/");
      await page.keyboard.type("quick-01");
      await page.waitForURL(/search=quick-01/);
      await page.getByText("1–10 of 10 jobs").first().waitFor();
      await look({ page, complaints }, "jobs-filtered", view);
      await page.getByRole("link", { name: "Clear all" }).click();
      await page.getByText("1–50 of 61 jobs").first().waitFor();
      await page.getByRole("link", { name: "Name" }).click();
      await page.waitForURL(/sort=name/);
      await page.getByRole("link", { name: "Next" }).click();
      await page.waitForURL(/skip=50/);
      await page.getByText("51–61 of 61 jobs").first().waitFor();
      await page.goBack();
      await page.getByText("1–50 of 61 jobs").first().waitFor();
      await look({ page, complaints }, "jobs", view);

      await page.goto(`${server.url}/admin/jobs?search=quick-00`);
      await page.getByLabel("all 10 that match").check();
      await page.getByRole("button", { name: "Delete…" }).click();
      await page.getByRole("heading", { name: "Delete 10 jobs?" }).waitFor();
      await look({ page, complaints }, "bulk-preview", view);
      await page.getByRole("button", { name: "Delete 10 jobs" }).click();
      await page.getByText("10 of 10 done.").waitFor();
      await look({ page, complaints }, "bulk-done", view);

      await page.goto(jobUrl);
      await page.locator("details.menu > summary").click();
      await look({ page, complaints }, "job-menu", view);
      await page.getByRole("link", { name: "Delete" }).click();
      await page.getByRole("button", { name: "Delete the job" }).waitFor();
      await look({ page, complaints }, "delete-dialog", view);
      await page.getByRole("button", { name: "Delete the job" }).click();
      await page.getByText("The job was deleted with 1 case.").waitFor();

      await seedJob(server.service, { id: "lost", agent: "quick", status: "failed" });
      const others = {
        ...{ cases: "cases", console: "console", deliveries: "deliveries", server: "server", help: "help" },
        ...{ failures: "failures", agent: "agents/invoice-auditor", dashboard: "?range=7d" },
        ...{ compare: "jobs/lost/compare?with=quick-020", "compare-with": "jobs/lost/compare" },
      };
      for (const [name, path] of Object.entries(others)) {
        await page.goto(`${server.url}/admin/${path}`);
        await look({ page, complaints }, name, view);
      }

      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      await page.goto(`${server.url}/admin/jobs`);
      await page.getByRole("heading", { name: "Sign in" }).waitFor();
      expect(complaints).toEqual([]);
      await context.close();
    },
    240_000,
  );
}

chromium.it("everything that a person can do works without script", async () => {
  await using server = await testServer({ agents: [auditor, quick] });
  await startQuick(server, 3);
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP, {
    javaScriptEnabled: false,
  });

  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/agents/invoice-auditor/start`);
  await page.getByRole("textbox", { name: "File" }).fill("october.csv");
  await page.getByRole("button", { name: "Start" }).click();
  await page.waitForURL(/\/admin\/jobs\/[\w-]+$/);
  const jobUrl = page.url();
  await page.goto(`${server.url}/admin/inbox`);
  await page.getByLabel("No").check();
  await page.getByRole("button", { name: "Answer" }).click();
  await page.getByText("Answered: Invoice 1").waitFor();
  await page.goto(`${server.url}/admin/jobs`);
  await page.getByLabel("Id, name, input or error").fill("quick-001");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("1–1 of 1 job").first().waitFor();
  await page.goto(jobUrl);
  await page.locator("details.menu > summary").click();
  await page.getByRole("link", { name: "Set status" }).click();
  await page.getByLabel("Status").selectOption("failed");
  await page.getByRole("button", { name: "Set status" }).click();
  await page.locator(".verdict .st-failed").waitFor();
  await page.getByRole("link", { name: "History" }).click();
  await page.getByText('says "Ada"').first().waitFor();

  expect(complaints).toEqual([]);
  await context.close();
});

chromium.it("rows change in place; new ones wait until they are requested", async () => {
  await using server = await testServer({ agents: [auditor, quick] });
  await startQuick(server, 3);
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/jobs`);
  await page.locator("#signal[data-state=live]").waitFor();
  const first = await page.locator("tbody tr").first().getAttribute("data-id");

  await server.request("/admin/api/jobs/quick-001/status", { json: { status: "failed" } });
  await page.locator("#row-quick-001 .st-failed").waitFor();
  await server.request("/agents/invoice-auditor/jobs", {
    json: {
      job_context: {
        workspace_id: "w",
        job_id: "new",
        started_by: "x",
        started_at: "2026-01-01T00:00:00Z",
        mission_id: "m",
        mission_name: "m",
      },
      job_fields: { file: "x" },
    },
  });
  await page.getByText("Show 1 new job").waitFor();
  const unmoved = await page.locator("tbody tr").first().getAttribute("data-id");
  await page.getByText("Show 1 new job").click();
  await page.locator("#row-new").waitFor();

  expect(unmoved).toBe(first);
  expect(complaints).toEqual([]);
  await context.close();
});

chromium.it(
  "what a person types while results of a search are on their way stays, and is searched for",
  async () => {
    await using server = await testServer({ agents: [auditor, quick] });
    await startQuick(server, 12);
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/jobs`);
    let release = () => {};
    const isTyped = new Promise<void>((resolve) => {
      release = resolve;
    });
    await page.route(/search=quick(&|$)/, async (route) => {
      const response = await route.fetch();
      await isTyped;
      await route.fulfill({ response });
    });

    const asked = page.waitForRequest(/search=quick(&|$)/);
    await page.keyboard.press("/");
    await page.keyboard.type("quick");
    await asked;
    await page.keyboard.type("-01");
    release();

    await page.waitForURL(/search=quick-01/);
    await page.getByText("1–2 of 2 jobs").first().waitFor();
    expect(await page.locator("#search").inputValue()).toBe("quick-01");
    expect(complaints).toEqual([]);
    await context.close();
  },
);

chromium.it("everything is reachable with the keyboard", async () => {
  await using server = await testServer({ agents: [auditor, quick] });
  await startQuick(server, 3);
  const { page, context } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);

  await page.keyboard.press("Tab");
  const skip = await page.evaluate("document.activeElement.textContent");
  await page.keyboard.press("?");
  await page.getByText("Next and previous row").waitFor();
  await page.keyboard.press("Escape");
  // The second must follow soon, however busy this machine is.
  await Promise.all([page.keyboard.press("g"), page.keyboard.press("j")]);
  await page.waitForURL(/\/admin\/jobs$/);
  await page.keyboard.press("j");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("1 selected").waitFor();
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/admin\/jobs\/quick-001$/);

  expect(skip).toBe("Skip to content");
  await context.close();
});

// The last one, so that its tab has already been idle for a while.
chromium.it(
  "an open, idle dashboard sends no requests and causes no reads from the store",
  async () => {
    expect(await idle.settled()).toEqual({ reads: 0, requests: [], live: true });
  },
  120_000,
);
