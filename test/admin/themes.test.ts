import { testServer } from "agent-control-service/testing";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect } from "vitest";
import { holdJob } from "../../src/core/entities/change-job.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { until } from "../runs/_jobs.ts";
import { DESKTOP, launch, visit } from "./_browser.ts";
import { gallery, pdf } from "./_gallery.ts";
import { seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;

beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const colorOf = (page: Page, selector: string, property: string) =>
  page
    .locator(selector)
    .first()
    .evaluate((one, name) => {
      const { getComputedStyle } = globalThis as unknown as {
        getComputedStyle: (element: unknown) => Record<string, string>;
      };
      return getComputedStyle(one)[name];
    }, property);

describe.each(["light", "dark"] as const)("in the %s theme", (colorScheme) => {
  const open = (server: { readonly url: string; readonly key: string }) =>
    visit(
      browser,
      server.url,
      { ...DESKTOP, colorScheme },
      { extraHTTPHeaders: { "x-api-key": server.key } },
    );

  chromium.it("what is held has one color, in a sentence and as a mark", async () => {
    await using server = await testServer({ agents: [greeter] });
    await seedJob(server.service, { id: "crashed", status: "in_progress" });
    await server.service
      .get(LEDGER)
      .write((unit) => holdJob(unit, "crashed", { reason: "crash_loop", error: "It ended three times." }));
    const { page, context } = await open(server);
    await page.goto(`${server.url}/admin/`);

    const mark = await colorOf(page, ".st-held", "color");
    expect(await colorOf(page, ".lead a[href$='status=held']", "color")).toBe(mark);
    expect(await colorOf(page, ".lead a[href$='status=running']", "color")).not.toBe(mark);
    await context.close();
  });

  chromium.it("a frame has the line of the theme around a document, which keeps its own", async () => {
    await using server = await testServer({ agents: [gallery] });
    const upload = await server.request("/files?name=contract.pdf", {
      ...{ method: "POST", body: new Uint8Array(pdf(["Clause 1"])) as never },
      headers: { "content-type": "application/pdf" },
    });
    const files = [await upload.json()].map((one) => ({ upload: (one as { upload: string }).upload }));
    await server.request("/agents/gallery/jobs", {
      json: { job_context: { job_id: "framed" }, job_fields: { files, show: "contract.pdf" } },
    });
    await until(server.service, "framed", ["awaiting"]);
    const { page, context } = await open(server);
    await page.goto(`${server.url}/admin/inbox?question=framed-case`);

    expect(await colorOf(page, ".shown > iframe", "borderTopColor")).toBe(
      await colorOf(page, ".panel", "borderTopColor"),
    );
    expect(await colorOf(page, ".shown > iframe", "borderTopWidth")).toBe("1px");
    await context.close();
  });
});
