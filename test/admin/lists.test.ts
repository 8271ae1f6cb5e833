import { testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { DESKTOP, launch, PHONE, signIn, visit } from "./_browser.ts";
import { seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;

beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

/** A service with failed and completed jobs, and a saved view. */
async function withJobs() {
  const server = await testServer({ agents: [greeter] });
  for (let at = 0; at < 12; at++)
    await seedJob(server.service, {
      id: `job-${at}`,
      name: `Order ${at}`,
      status: at % 2 === 0 ? "failed" : "completed",
    });
  await server.request("/admin/api/views", { json: { name: "Lost ones", query: "status=failed" } });
  return server;
}

chromium.it("actions on many jobs appear with a selection, with and without script", async () => {
  await using server = await withJobs();
  for (const javaScriptEnabled of [true, false]) {
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP, { javaScriptEnabled });
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/jobs`);
    const retry = page.getByRole("button", { name: "Retry…" });

    await page.getByText("1–12 of 12 jobs").first().waitFor();
    expect(await retry.isVisible()).toBe(false);
    await page.getByLabel("Select Order 3").check();
    expect(await retry.isVisible()).toBe(true);
    await page.getByLabel("Select Order 3").uncheck();
    expect(await retry.isVisible()).toBe(false);
    await page.getByLabel("all 12 that match").check();
    await retry.click();
    await page.getByRole("heading", { name: /^Retry 6 jobs/ }).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  }
});

chromium.it("a row opens wherever it is pressed, and its text can be selected", async () => {
  await using server = await withJobs();
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/jobs`);

  await page.getByLabel("Select Order 5").check();
  await page.locator("#row-job-4 .id").dblclick();
  expect(await page.evaluate("String(getSelection()).length")).toBeGreaterThan(0);
  expect(page.url()).toBe(`${server.url}/admin/jobs`);
  await page.mouse.click(5, 5);
  await page.locator("#row-job-6 td.agent").click();
  await page.waitForURL(/\/admin\/jobs\/job-6$/);
  expect(complaints).toEqual([]);
  await context.close();
});

chromium.it(
  "the list has one column of times: when a job was created, or changed where that orders it",
  async () => {
    await using server = await withJobs();
    await server.request("/admin/api/jobs/job-4/status", { json: { status: "completed" } });
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/jobs`);
    const times = page.locator("#row-job-4 time:visible");
    const found = await (await server.request("/admin/api/jobs?search=job-4")).json();
    const [{ created_at, updated_at }] = (found as { items: [{ created_at: string; updated_at: string }] })
      .items;

    expect([await times.count(), await times.getAttribute("datetime")]).toEqual([1, created_at]);
    await page.getByRole("link", { name: "Changed" }).click();
    await page.waitForURL(/sort=-updated_at/);
    await page.locator("th[aria-sort=descending]", { hasText: "Changed" }).waitFor();
    expect([await times.count(), await times.getAttribute("datetime")]).toEqual([1, updated_at]);
    expect(created_at).not.toBe(updated_at);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

chromium.it("saved views are tabs, and filters that are no view yet can be saved as one", async () => {
  await using server = await withJobs();
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/jobs`);
  const views = page.getByRole("navigation", { name: "Saved views" });
  const save = page.getByText("Save this view");

  expect(await save.count()).toBe(0);
  await views.getByRole("link", { name: "Lost ones" }).click();
  await views.locator("[aria-current]", { hasText: "Lost ones" }).waitFor();
  expect(await save.count()).toBe(0);
  await page.goto(`${server.url}/admin/jobs?status=completed`);
  await save.click();
  await page.getByLabel("Name of the view").fill("Good ones");
  await page.getByRole("button", { name: "Save these filters" }).click();
  await views.locator("[aria-current]", { hasText: "Good ones" }).waitFor();
  await views.getByRole("button", { name: "Remove the view Good ones" }).click();
  await page.getByText("The view was removed.").waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

chromium.it(
  "on a phone, the navigation begins with the current page, and the first job is in sight",
  async () => {
    await using server = await withJobs();
    const { page, context, complaints } = await visit(browser, server.url, {
      ...PHONE,
      width: 360,
      height: 640,
    });
    await signIn(page, server.url, server.key);
    const current = page.locator(".nav [aria-current=page]");

    for (const path of ["jobs", "jobs?status=failed", "failures", "schedules", "server"]) {
      await page.goto(`${server.url}/admin/${path}`);
      const { x = 999, width = 999 } = (await current.boundingBox()) ?? {};
      expect([path, x < 100, x + width <= 360]).toEqual([path, true, true]);
      if (!path.startsWith("jobs")) continue;
      const { y = 999 } = (await page.locator("tbody tr").first().boundingBox()) ?? {};
      expect([path, y <= 400 ? "in sight" : `at ${y}`]).toEqual([path, "in sight"]);
    }
    expect(complaints).toEqual([]);
    await context.close();
  },
);
