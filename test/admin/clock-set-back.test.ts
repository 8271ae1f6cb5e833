// @long
import { STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";
import { DESKTOP, launch, PHONE, visit } from "./_browser.ts";
import { seedJob } from "./_seed.ts";

const chromium = requirement("chromium");
let browser: Browser;
beforeAll(async () => {
  if (chromium.met) browser = await launch();
});
afterAll(() => browser?.close());

interface Box {
  readonly left: number;
  readonly right: number;
}

chromium.it(
  "a wait that begins before its job, as of a clock that was set back, stays on the timeline",
  async () => {
    await using server = await testServer({ agents: [greeter] });
    await seedJob(server.service, { id: "back", status: "completed" });
    const store = server.service.get(STORE);
    const job = (await store.table("Job").get("back"))!;
    const at = (seconds: number) => new Date(Date.parse(job.created_at) + seconds * 1000).toISOString();
    await store.table("Job").change("back", (row) => ({ ...row, finished_at: at(60) }));
    const add = (entry: object) => store.log("Run").append("back", entry as never);
    const call = { call: "step", attempts: 1, cost: 0, case_id: null };
    await add({ type: "call", ...call, position: 0, name: "whole", started_at: at(-3600), at: at(-1800) });
    await add({ type: "call", ...call, position: 1, name: "half", started_at: at(-3600), at: at(30) });
    await add({ type: "call", ...call, position: 2, name: "right", started_at: at(30), at: at(60) });

    for (const view of [DESKTOP, PHONE]) {
      const { page, context, complaints } = await visit(browser, server.url, view, {
        extraHTTPHeaders: { "x-api-key": server.key },
      });
      await page.goto(`${server.url}/admin/jobs/back`);
      const boxes = (of: string) =>
        page
          .locator(of)
          .evaluateAll((all) =>
            all
              .map((one) => (one as unknown as { getBoundingClientRect(): Box }).getBoundingClientRect())
              .map(({ left, right }) => ({ left, right })),
          );
      const [axis] = await boxes(".fall .w-bars svg");
      const bars = await boxes(".fall .w-bars svg > rect");
      expect(bars.length).toBeGreaterThan(2);
      for (const bar of bars) {
        expect(bar.left).toBeGreaterThanOrEqual(axis!.left - 1);
        expect(bar.right).toBeLessThanOrEqual(axis!.right + 1);
      }
      const half = (await boxes('.fall .w-name:has-text("half") + .w-bars rect'))[0];
      expect(half, "the bar of half").toBeDefined();
      expect((half!.right - axis!.left) / (axis!.right - axis!.left)).toBeLessThan(0.6);
      expect(complaints).toEqual([]);
      await context.close();
    }
  },
);
