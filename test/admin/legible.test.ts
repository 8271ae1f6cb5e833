// @long
import { defineAgent, webhooks } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { DESKTOP, launch, visit } from "./_browser.ts";
import { seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

/** Costs as calls of models have them, and an answer with markup. */
const spender = defineAgent({
  name: "Spender",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        for (const cost of [0.0031, 0.0123, 1.2345, 12.5])
          await job.step(`cost ${cost}`, () => cost, { cost });
        const input = { messages: [{ role: "user", content: "What was asked?" }] };
        const message = { role: "assistant", content: "It is **damaged**:\n\n- a lamp\n- a shade" };
        await job.step("classify", () => ({ choices: [{ message }] }), {
          kind: "model",
          input,
          cost: 0.0042,
        });
      },
    },
  },
});

const WIDTHS = [1024, 1280, 1440, 1920];
/** Elements whose text is wider than they are. */
const CUT = (selector: string) =>
  `[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => one.scrollWidth > one.clientWidth ? one.textContent : "")`;

chromium.it(
  "costs of steps are shown whole, and the answer of a model before its question, with its markup",
  async () => {
    await using server = await testServer({ agents: [spender] });
    const { job } = await server.run(spender);
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP, {
      extraHTTPHeaders: { "x-api-key": server.key },
    });
    await page.goto(`${server.url}/admin/jobs/${job.id}`);

    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 850 });
      const cut = await page.evaluate<string[]>(CUT(".fall .w-cost"));
      expect(cut.length).toBeGreaterThan(5);
      expect([width, cut.filter(Boolean)]).toEqual([width, []]);
    }
    await page.goto(`${server.url}/admin/jobs/${job.id}?tab=calls`);
    const text = (await page.locator("main").textContent())!;
    expect(text.indexOf("damaged")).toBeGreaterThan(0);
    expect(text.indexOf("damaged")).toBeLessThan(text.indexOf("What was asked?"));
    expect(text).not.toContain("**");
    await page.locator("strong", { hasText: "damaged" }).first().waitFor();
    expect(await page.locator("li", { hasText: "a lamp" }).count()).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
    await context.close();
  },
);

chromium.it(
  "a long name takes two lines of a list at most, and the whole of it is in its tooltip",
  async () => {
    await using server = await testServer({ agents: [spender] });
    const name = `Refunds of ${"all the orders that were late ".repeat(16)}`.trim();
    await seedJob(server.service, { id: "short", name: "Refund", agent: "spender", status: "completed" });
    await seedJob(server.service, { id: "long", name, agent: "spender", status: "completed" });
    const { page, context } = await visit(browser, server.url, DESKTOP, {
      extraHTTPHeaders: { "x-api-key": server.key },
    });
    await page.goto(`${server.url}/admin/jobs`);
    const heightOf = (id: string) =>
      page.evaluate<number>(`document.querySelector("#row-${id} .title").getBoundingClientRect().height`);

    for (const width of [360, 768, 1440]) {
      await page.setViewportSize({ width, height: 850 });
      const [short, long] = [await heightOf("short"), await heightOf("long")];
      expect([width, Math.round(long / short)]).toEqual([width, 2]);
    }
    expect(await page.locator("#row-long .title").getAttribute("title")).toBe(name);
    await context.close();
  },
);

chromium.it("an error has two lines of a list, and the rest of it in its tooltip", async () => {
  await using server = await testServer({ agents: [spender] });
  const error = "The orders of the night could not be sent: connect ECONNREFUSED 10.0.0.12:443";
  const long = `${error}${", again".repeat(20)}`;
  await seedJob(server.service, { id: "one", agent: "spender", status: "failed", error: "no" });
  await seedJob(server.service, { id: "two", agent: "spender", status: "failed", error });
  await seedJob(server.service, { id: "more", agent: "spender", status: "failed", error: long });
  const { page, context } = await visit(browser, server.url, DESKTOP, {
    extraHTTPHeaders: { "x-api-key": server.key },
  });
  for (const path of ["jobs", "jobs/one/compare"]) {
    await page.goto(`${server.url}/admin/${path}`);
    await page.setViewportSize({ width: 360, height: 850 });
    const errors = page.locator(".err");
    const shown = await errors.evaluateAll((all) =>
      (
        all as unknown as { textContent: string; title: string; scrollHeight: number; clientHeight: number }[]
      ).map((one) => ({
        text: one.textContent,
        title: one.title,
        cut: one.scrollHeight > one.clientHeight + 1,
      })),
    );
    const cuts = Object.fromEntries(
      shown.map(({ title, text, cut }) => [title.length, [text === title, cut]]),
    );
    expect([path, cuts[error.length]]).toEqual([path, [true, false]]);
    expect([path, cuts[long.length]]).toEqual([path, [true, true]]);
  }
  await page.goto(`${server.url}/admin/jobs`);
  await page.locator("#row-two .err").click();
  await page.waitForURL("**/admin/jobs/two");
  await context.close();
});

/** Tables that are wider than their panel, as "path at width". */
const WIDE = `[...document.querySelectorAll(".scroll")].filter((one) => one.scrollWidth > one.clientWidth + 1).length`;

chromium.it(
  "tables of lists fit a phone and a tablet, and a line of the audit log has its time and its change there",
  async () => {
    const hook = { name: "billing", url: "http://127.0.0.1:9/", secret: `whsec_${"A".repeat(44)}` };
    const timezone = "America/Argentina/ComodRivadavia";
    await using server = await testServer({
      agents: [spender],
      plugins: [webhooks({ webhooks: [hook], allowPrivate: true })],
      schedules: [
        { id: "every-quarter-of-an-hour", cron: "*/15 8-18 * * MON-FRI", timezone, agent: spender },
      ],
    });
    await server.run(spender);
    await server.request("/admin/api/agents/spender/parameters", { json: { parameters: {} } });
    await server.request("/access", { json: { name: "warehouse", role: "viewer", expires_in: "90d" } });
    await seedJob(server.service, { id: "gone", name: "Refund", agent: "spender", status: "completed" });
    await server.request("/admin/api/jobs/gone", { method: "DELETE" });
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP, {
      extraHTTPHeaders: { "x-api-key": server.key },
    });

    for (const path of ["audit", "schedules", "deleted", "deliveries?state=waiting", "access"]) {
      await page.goto(`${server.url}/admin/${path}`);
      await page.locator("tbody tr").first().waitFor();
      for (const width of [360, 768, 1440]) {
        await page.setViewportSize({ width, height: 850 });
        expect([path, width, await page.evaluate<number>(WIDE)]).toEqual([path, width, 0]);
        if (path === "audit") {
          const line = page.locator("tbody tr", { hasText: "access.add" });
          await line.locator("time").waitFor();
          await line.getByText("name warehouse", { exact: false }).waitFor();
        }
      }
    }
    expect(complaints).toEqual([]);
    await context.close();
  },
);
