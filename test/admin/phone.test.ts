import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { requirement } from "../_require.ts";
import { launch, visit } from "./_browser.ts";
import { seedCase, seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const refunds = (first: string, version: string) =>
  defineAgent({
    name: "Refunds",
    version,
    methods: {
      job_start: {
        async run({ job }) {
          await job.step(first, () => 1);
          const item = await job.openCase({ id: `${job.id}-1`, name: "Order HL-9100 of Hallberg Lamps" });
          await item.step("look up the customer", () => 1);
          await item.ask("refund", {
            question: "Refund 60 EUR for HL-9100?",
            fields: [{ name: "amount", field_type: "IntegerField" }],
            assignTo: "finance",
            approvers: 2,
          });
        },
      },
    },
  });

/** Starts a job, and resolves once it waits for an answer. */
async function startWaiting(server: TestServer, id: string): Promise<void> {
  await server.request("/agents/refunds/jobs", { json: { job_context: { job_id: id } } });
  await expect.poll(async () => (await server.service.get(JOBS).get(id)).status).toBe("awaiting");
}

const PHONE = { name: "phone", width: 360, height: 800, colorScheme: "light" } as const;
/** Names of elements whose text is cut, or that reach beyond the window. */
const LOST = (selector: string) =>
  `[...document.querySelectorAll(${JSON.stringify(selector)})].filter((one) => one.scrollWidth > one.clientWidth + 1 || one.getBoundingClientRect().right > innerWidth).map((one) => one.textContent.trim())`;

chromium.it(
  "at 360 pixels, menus stay in the window, and names, marks and counts are shown whole",
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "svc-phone-"));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    const options = { store: undefined, dataDir };
    {
      await using before = await testServer({ ...options, agents: [refunds("look up", "1.0.0")] });
      await startWaiting(before, "held");
    }
    await using server = await testServer({ ...options, agents: [refunds("look up the order", "2.0.0")] });
    await startWaiting(server, "waiting");
    await expect.poll(async () => (await server.service.get(JOBS).get("held")).held).not.toBeNull();
    const { page, context, complaints } = await visit(browser, server.url, PHONE, {
      extraHTTPHeaders: { "x-api-key": server.key },
    });
    const lost = (selector: string) => page.evaluate<string[]>(LOST(selector));

    await page.goto(`${server.url}/admin/`);
    const title = (await page.getByRole("heading", { name: "Dashboard" }).boundingBox())!;
    const button = (await page.getByRole("link", { name: "Start a job" }).boundingBox())!;
    expect(Math.abs(title.y + title.height / 2 - (button.y + button.height / 2))).toBeLessThan(title.height);
    expect(await lost(".count, .needs p, .list .name")).toEqual([]);

    await page.goto(`${server.url}/admin/jobs/held`);
    await page.locator(".menu > summary").click();
    await page.getByRole("link", { name: "Delete" }).waitFor();
    expect(await lost(".menu > div, .menu a, .fall .w-name > :first-child")).toEqual([]);

    await page.goto(`${server.url}/admin/inbox`);
    await page.locator(".asks .st-held").waitFor();
    expect(await page.locator(".asks .sub").first().textContent()).toContain("for finance · 0 of 2");
    expect(await lost(".asks .sub, .asks .st")).toEqual([]);

    await page.goto(`${server.url}/admin/jobs/waiting`);
    expect(await page.locator(".verdict").textContent()).toContain("Waiting for 1 answer");
    expect(await page.getByText("of this job waits").count()).toBe(0);
    await page.locator(".verdict").getByRole("link", { name: "Answer", exact: true }).click();
    await page.waitForURL(/\/admin\/inbox\?job_id=waiting/);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

chromium.it("a list on a phone shows what it is sorted by, beside each name", async () => {
  await using server = await testServer({ agents: [refunds("look up", "1.0.0")] });
  await seedJob(server.service, {
    id: "job-a",
    name: "Order HL-9100 of Hallberg Lamps",
    status: "in_progress",
  });
  await seedCase(server.service, { job: "job-a", ref: "case-a", cost: 0.5 });
  await startWaiting(server, "waiting");
  const { page, context } = await visit(browser, server.url, PHONE, {
    extraHTTPHeaders: { "x-api-key": server.key },
  });
  const shown = async (path: string) => {
    await page.goto(`${server.url}/admin/${path}`);
    expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
    const texts = async (selector: string) =>
      (await page.locator(selector).filter({ visible: true }).allTextContents()).map((text) => text.trim());
    return { heads: await texts(".rows th[aria-sort]"), cells: (await texts(".rows td.wide")).length };
  };

  expect(await shown("jobs")).toEqual({ heads: ["Created\nChanged"], cells: 0 });
  for (const [sort, head] of [
    ["-total_cost", "Cost"],
    ["-duration", "Duration"],
    ["case_count", "Cases"],
    ["agent_name", "Agent"],
  ])
    expect([sort, await shown(`jobs?sort=${sort}`)]).toEqual([sort, { heads: [head], cells: 2 }]);
  for (const [sort, head] of [
    ["-total_cost", "Cost"],
    ["-duration", "Duration"],
    ["job_id", "Job"],
  ])
    expect([sort, await shown(`cases?sort=${sort}`)]).toEqual([sort, { heads: [head], cells: 2 }]);
  await context.close();
});
