import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Page, Request } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { DESKTOP, launch, PHONE, signIn, visit } from "./_browser.ts";
import { openRoad } from "./_road.ts";
import { seedCase, seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;

beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

const start = (server: TestServer, id: string) =>
  server.request("/agents/greeter/jobs", {
    json: {
      job_context: {
        workspace_id: "w",
        job_id: id,
        started_by: "tests",
        started_at: new Date().toISOString(),
        mission_id: "m",
        mission_name: id,
      },
      job_fields: { name: "Ada" },
    },
  });

const bar = (page: Page) => page.locator("#blind");
const live = (page: Page) => page.locator("#signal[data-state=live]").waitFor({ state: "attached" });
const count = (page: Page) =>
  page.locator(".figures li", { hasText: "Completed, last" }).locator("small").textContent();

for (const view of [PHONE, DESKTOP]) {
  chromium.it(
    `a page says that the service is gone, and is right again once it is back, on a ${view.name}`,
    async () => {
      await using server = await testServer({ agents: [greeter] });
      await using road = await openRoad(server.url);
      const { page, context } = await visit(browser, road.url, view);
      await signIn(page, road.url, server.key);
      await live(page);
      expect(await bar(page).isVisible()).toBe(false);
      expect(await count(page)).toBe("0 completed, 0 failed");

      road.become("dead");
      await bar(page).waitFor();
      expect(await bar(page).textContent()).toMatch(/^No connection to the service since \d\d:\d\d:\d\d\. /);
      // It is in sight also where the page was scrolled: nothing is over it.
      await page.setViewportSize({ width: view.width, height: 300 });
      await page.evaluate("scrollTo(0, 400)");
      expect(await page.evaluate("scrollY")).toBeGreaterThan(100);
      const { x, y, height } = (await bar(page).boundingBox())!;
      for (const at of [y + 2, y + height - 2]) {
        expect(await page.evaluate(`document.elementFromPoint(${x + 20}, ${at}).id`)).toBe("blind");
      }
      await start(server, "while-away");

      road.become("open");
      await bar(page).waitFor({ state: "hidden" });
      await expect.poll(() => count(page)).toBe("1 completed, 0 failed");
      await context.close();
    },
  );
}

chromium.it("what runs has no clock on a page that shows an earlier time", async () => {
  await using server = await testServer({ agents: [greeter] });
  await seedJob(server.service, { id: "runs", agent: "greeter", status: "in_progress" });
  await using road = await openRoad(server.url);
  const { page, context } = await visit(browser, road.url, DESKTOP);
  await page.clock.install();
  await signIn(page, road.url, server.key);
  await page.goto(`${road.url}/admin/jobs/runs`);
  await live(page);
  const duration = () => page.locator(".verdict [data-since]").first().textContent();
  const first = await duration();
  await page.clock.fastForward(10_000);
  expect(await duration()).not.toBe(first);

  road.become("silent");
  await page.clock.fastForward(50_000);
  await bar(page).waitFor();
  const last = await duration();
  await page.clock.fastForward(20_000);
  expect(await duration()).toBe(last);
  await context.close();
});

chromium.it("a page whose connection has fallen silent notices it, and connects again", async () => {
  await using server = await testServer({ agents: [greeter] });
  await using road = await openRoad(server.url);
  const { page, context } = await visit(browser, road.url, DESKTOP);
  await page.clock.install();
  await signIn(page, road.url, server.key);
  await live(page);

  road.become("silent");
  await page.clock.fastForward(34_000);
  expect(await bar(page).isVisible()).toBe(false);
  await page.clock.fastForward(10_000);
  await bar(page).waitFor();
  expect(await page.locator("#signal").getAttribute("data-state")).toBe("lost");
  await start(server, "unheard");

  // It tries again at least every few seconds, on connections that are not among the lost ones.
  road.become("open");
  const waiting = new Set<Request>();
  page.on("request", (request) => waiting.add(request));
  page.on("response", (response) => waiting.delete(response.request()));
  for (let second = 0; second < 10; second++) {
    await page.clock.fastForward(1000);
    for (let at = 0; at < 40 && (at < 4 || waiting.size > 0); at++) await page.waitForTimeout(25);
  }
  await bar(page).waitFor({ state: "hidden" });
  await expect.poll(() => count(page)).toBe("1 completed, 0 failed");
  await context.close();
});

chromium.it(
  "a page asks again for a part that failed, says so meanwhile, and is right after it",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await live(page);
    let refused = 0;
    let isBroken = true;
    await page.route("**/admin/api/dashboard*", (route) => {
      if (!isBroken) return route.fallback();
      refused++;
      return route.fulfill({ status: 502, body: "Bad gateway" });
    });
    await start(server, "unseen");
    await bar(page).waitFor();
    expect(await bar(page).textContent()).toMatch(
      /^Parts of this page cannot be refreshed since \d\d:\d\d:\d\d\. /,
    );
    expect(refused).toBeGreaterThan(1);
    expect(await page.locator(".toast").count()).toBe(0);

    isBroken = false;
    await bar(page).waitFor({ state: "hidden" });
    await expect.poll(() => count(page)).toBe("1 completed, 0 failed");
    expect(complaints.filter((complaint) => !complaint.includes("502"))).toEqual([]);
    await context.close();
  },
);

chromium.it("an open inbox whose session has ended says so", async () => {
  await using server = await testServer({ agents: [greeter] });
  const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
  await signIn(page, server.url, server.key);
  await page.goto(`${server.url}/admin/inbox`);
  await live(page);
  await context.clearCookies();
  await seedJob(server.service, { id: "after", status: "in_progress" });
  await seedCase(server.service, { job: "after", ref: "asked", question: "Fine?" });
  await bar(page).getByText("You are signed out. Load the page again to sign in.").waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});
