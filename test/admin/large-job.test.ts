// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished } from "vitest";
import { fillLargeJob } from "../../bench/desk/large-job.ts";
import { requirement } from "../_require.ts";
import { DESKTOP, launch, visit } from "./_browser.ts";

/** Bytes of a refresh before compression, and changes of the page by one. */
const MOST_BYTES = 100_000;
const MOST_CHANGES = 900;
const REFRESHES = 3;

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const COUNT = `window.changes = 0;
  new MutationObserver((list) => { window.changes += list.length; })
    .observe(document.querySelector("#job"), { subtree: true, childList: true, attributes: true, characterData: true });`;

chromium.it(
  "an open page of a running job with 1,000 cases changes what has changed, and keeps the rest",
  async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "svc-large-"));
    onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
    await using job = await fillLargeJob(dataDir);
    const { page, context, complaints } = await visit(browser, job.url, DESKTOP, {
      extraHTTPHeaders: job.headers,
    });
    await page.goto(`${job.url}/admin/jobs/${job.id}`);
    const next = async () => {
      const response = await page.waitForResponse((one) => one.url().includes(`/admin/api/jobs/${job.id}`));
      return (await response.body()).length;
    };
    await next();
    await page.evaluate(COUNT);
    const row = page.locator(".fall .w-case a").first();
    const kept = await row.elementHandle();

    for (let n = 0; n < REFRESHES; n++) expect(await next()).toBeLessThan(MOST_BYTES);

    const changes = await page.evaluate<number>("window.changes");
    expect(changes).toBeGreaterThan(0);
    expect(changes).toBeLessThan(REFRESHES * MOST_CHANGES);
    expect(await kept!.evaluate((one) => (one as unknown as { isConnected: boolean }).isConnected)).toBe(
      true,
    );
    expect(complaints).toEqual([]);
    await context.close();
  },
);
