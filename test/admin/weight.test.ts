// @long
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { PAGES } from "../../src/plugins/admin/shell.ts";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { DESKTOP, launch, visit } from "./_browser.ts";
import { seedCase, seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;

beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

/** Has the service compress what the dashboard loads as well as it can: the first requests get what is made faster. */
async function packAll(server: TestServer): Promise<void> {
  const html = await (await server.request("/admin/", { headers: { accept: "text/html" } })).text();
  const files = new Set(html.match(/\/admin\/assets\/[\w-]+\/\w+\.(?:css|js|svg)/g));
  expect(files.size).toBeGreaterThan(2);
  for (const path of files) {
    const get = (encodings: string) =>
      fetch(server.url + path, { headers: { "accept-encoding": encodings } });
    await expect
      .poll(async () => (await get("gzip, br")).headers.get("content-encoding"), { timeout: 30_000 })
      .toBe("br");
    const plain = await get("identity");
    expect(plain.headers.get("content-encoding")).toBeNull();
    const text = await plain.text();
    for (const encodings of ["gzip, br", "gzip", "br"])
      expect(await (await get(encodings)).text()).toBe(text);
  }
}

chromium.it("the first load of a page is small, with all its files", async () => {
  await using server = await testServer({ agents: [greeter] });
  for (let index = 0; index < 60; index++) {
    const id = `job-${index}`;
    await seedJob(server.service, { id, status: index % 5 === 0 ? "failed" : "in_progress" });
    await seedCase(server.service, {
      job: index % 5 === 0 ? "job-1" : id,
      ref: `case-${index}`,
      question: index % 3 ? "Pay?" : undefined,
    }).catch(() => {});
  }
  const weights: Record<string, number> = {};
  await packAll(server);

  for (const path of [
    ...PAGES.map(({ href }) => href),
    ...["/admin/jobs/job-1", "/admin/jobs/job-1?tab=history", "/admin/jobs/job-0/compare?with=job-1"],
    ...["/admin/cases/case-1", "/admin/cases/case-1/alike", "/admin/agents/greeter"],
    ...["/admin/agents/greeter/start", "/admin/deleted", "/admin/sessions", "/admin/find?q=job"],
  ]) {
    const { context, page } = await visit(browser, server.url, DESKTOP, {
      extraHTTPHeaders: { "x-api-key": server.key },
    });
    const client = await context.newCDPSession(page);
    await client.send("Network.enable");
    let bytes = 0;
    client.on("Network.loadingFinished", (event) => {
      bytes += event.encodedDataLength;
    });
    await page.goto(server.url + path, { waitUntil: "load" });
    await page.waitForTimeout(200);
    weights[path] = bytes;
    await context.close();
  }

  expect(weights["/admin/"]).toBeGreaterThan(5000);
  expect(weights["/admin/"]).toBeLessThanOrEqual(50_000);
  for (const [path, bytes] of Object.entries(weights)) expect([path, bytes <= 60_000]).toEqual([path, true]);
});

chromium.it(
  "a page has the font for English, and those for other letters only where it has such letters",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    await seedJob(server.service, { id: "plain", name: "Invoices" });
    await seedJob(server.service, { id: "umlaut", name: "Rechnungen für Müller" });
    await seedJob(server.service, { id: "ogonek", name: "Faktury dla Łódź, İzmir, Plzeň" });
    const fonts: Record<string, string[]> = {};

    for (const id of ["plain", "umlaut", "ogonek"]) {
      const { context, page } = await visit(browser, server.url, DESKTOP, {
        extraHTTPHeaders: { "x-api-key": server.key },
      });
      await page.goto(`${server.url}/admin/jobs/${id}`, { waitUntil: "networkidle" });
      fonts[id] = await page.evaluate(
        `document.fonts.ready.then(() =>
        [...document.fonts].filter((font) => font.status === "loaded").map((font) => font.unicodeRange.slice(0, 6)))`,
      );
      await context.close();
    }

    expect(fonts).toEqual({
      plain: ["U+20-7"],
      umlaut: ["U+20-7", "U+A1-B"],
      ogonek: ["U+20-7", "U+A1-B", "U+100-"],
    });
  },
);
