// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { fillLargeJob } from "../../bench/desk/large-job.ts";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { DESKTOP, launch, PHONE, signIn, visit } from "./_browser.ts";
import { seedCase, seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

async function fill(server: TestServer): Promise<void> {
  for (const id of ["a", "b", "c"]) {
    await seedJob(server.service, { id, status: "in_progress", error: "it broke" });
    await seedCase(server.service, { job: id, ref: `case-${id}`, question: "Pay?" });
  }
  await seedJob(server.service, { id: "lost", status: "failed", error: "connect ECONNREFUSED 10.0.0.9:443" });
}

for (const javaScriptEnabled of [true, false]) {
  chromium.it(
    `rows of lists are as close as a reader chose, in all lists, ${javaScriptEnabled ? "with" : "without"} scripts`,
    async () => {
      await using server = await testServer({ agents: [greeter] });
      await fill(server);
      const { page, context } = await visit(browser, server.url, DESKTOP, {
        javaScriptEnabled,
        extraHTTPHeaders: { "x-api-key": server.key },
      });
      const heights = async () => {
        const found: Record<string, number> = {};
        for (const [name, row] of Object.entries({
          jobs: "#row-b",
          cases: "[id^=row-case-]",
          inbox: ".asks li",
          failures: ".groups > li",
          audit: "tbody tr",
        })) {
          await page.goto(`${server.url}/admin/${name}`);
          const box = await page.locator(row).first().boundingBox();
          found[name] = box?.height ?? 0;
        }
        return found;
      };
      await server.request("/admin/api/cases/case-a/assign", { json: { to: "finance" } });
      const wide = await heights();
      await page.goto(`${server.url}/admin/jobs?status=running`);
      await page.getByRole("button", { name: "Show compact rows" }).click();
      await page.waitForURL(/\/admin\/jobs\?status=running$/);
      await page.getByRole("button", { name: "Show comfortable rows" }).waitFor();

      const close = await heights();
      expect(Object.entries(wide).filter(([name, height]) => close[name]! > height - 4)).toEqual([]);
      expect(close.jobs).toBeLessThanOrEqual(30);

      await page.getByRole("button", { name: "Show comfortable rows" }).click();
      await page.getByRole("button", { name: "Show compact rows" }).waitFor();
      expect(await heights()).toEqual(wide);
      await context.close();
    },
  );
}

chromium.it("on a phone, a row of a list shows its error, its name and its time", async () => {
  await using server = await testServer({ agents: [greeter] });
  await fill(server);
  const { page, context } = await visit(browser, server.url, { ...PHONE, width: 360 });
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/jobs`);

  const row = page.locator("#row-lost");
  for (const part of [".title", ".err", ".when time >> nth=0", ".st"]) {
    const seen = await row.locator(part).evaluate((one) => {
      const { scrollWidth, clientWidth, getBoundingClientRect } = one as unknown as {
        scrollWidth: number;
        clientWidth: number;
        getBoundingClientRect(): { right: number };
      };
      return { cut: scrollWidth - clientWidth, right: getBoundingClientRect.call(one).right };
    });
    expect([part, seen.cut <= 0, seen.right <= 360]).toEqual([part, true, true]);
  }
  expect(await page.getByRole("row", { name: /lost/ }).getByRole("cell").count()).toBeGreaterThan(3);
  await context.close();
});

for (const javaScriptEnabled of [true, false]) {
  chromium.it(
    `the timeline of a job with 1,000 cases is zoomed by links, ${javaScriptEnabled ? "with the keyboard" : "without scripts"}`,
    async () => {
      const dataDir = mkdtempSync(join(tmpdir(), "svc-zoom-"));
      onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
      await using job = await fillLargeJob(dataDir);
      const { page, context, complaints } = await visit(browser, job.url, DESKTOP, {
        ...{ javaScriptEnabled, extraHTTPHeaders: job.headers },
      });
      await page.goto(`${job.url}/admin/jobs/${job.id}`);
      const zoom = page.getByRole("navigation", { name: "Zoom" });
      const follow = async (name: string) => {
        const link = page.getByRole("link", { name, exact: true }).first();
        if (!javaScriptEnabled) return link.click();
        await link.focus();
        await page.keyboard.press("Enter");
      };
      const label = async () => (await zoom.locator("span").first().textContent()) ?? "";

      await follow("Zoom in");
      await zoom.waitFor();
      const half = await label();
      expect(half).toMatch(/ to .+ of /);
      await follow("Zoom in");
      await expect.poll(label).not.toBe(half);
      expect(await page.locator(".fall .w-case").count()).toBeGreaterThan(3);
      const quarter = await label();
      await follow("Earlier");
      await expect.poll(label).not.toBe(quarter);
      await follow("Zoom out");
      await page.waitForURL(/span=/);
      await follow("Whole time");
      await zoom.waitFor({ state: "detached" });
      expect(new URL(page.url()).searchParams.has("span")).toBe(false);
      expect(complaints).toEqual([]);
      await context.close();
    },
    120_000,
  );
}
