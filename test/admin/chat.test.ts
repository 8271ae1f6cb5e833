import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { defineChat } from "agent-control-service";
import { JOBS, THREADS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect } from "vitest";
import { requirement } from "../_require.ts";
import { DESKTOP, findings, launch, PHONE, signIn, visit } from "./_browser.ts";

const chromium = requirement("chromium");

chromium.it(
  "a person chats in the admin: sees the answer being written, the steps, and approves inline",
  async () => {
    let release = () => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const baker = defineChat({
      name: "Baker",
      version: "1.0.0",
      async reply({ message, turn }) {
        await turn.step("search", () => ({ found: ["rye"] }), { kind: "tool", input: { query: message } });
        if (message.startsWith("order")) {
          const { approved } = await turn.ask("order", {
            question: "Order ten loaves for 40 euros?",
            fields: v.object({ approved: v.boolean() }),
          });
          return approved ? "Ordered." : "Not ordered.";
        }
        return turn.step("model", async ({ emit }) => {
          emit("We bake ");
          await released;
          return "We bake rye bread.";
        });
      },
    });
    await using server = await testServer({ agents: [baker] });
    const browser = await launch();
    try {
      const { page, complaints } = await visit(browser, server.url, DESKTOP);
      await signIn(page, server.url, server.key);
      await page.goto(`${server.url}/admin/agents/baker`);
      await page.getByRole("link", { name: "Chat" }).click();
      await page.getByLabel("Message").fill("What do you <b>bake</b>?");
      await page.getByRole("button", { name: "Send" }).click();

      await page.locator("#tokens pre", { hasText: "We bake" }).waitFor();
      const { items } = await server.service.get(JOBS).list();
      expect(items[0]?.job_context.started_by).toContain("Ada");
      await shoot(page, "writing");
      release();
      await page.locator(".answer", { hasText: "We bake rye bread." }).waitFor();
      await page.locator("#tokens article").waitFor({ state: "detached" });
      expect(await page.locator(".said").textContent()).toBe("What do you <b>bake</b>?");
      await page.locator(".did > summary", { hasText: "2 steps" }).click();
      expect(await page.locator(".did").textContent()).toContain("search");

      await page.getByLabel("Message", { exact: true }).fill("order ten");
      await page.getByRole("button", { name: "Send" }).click();
      await page.getByText("Order ten loaves for 40 euros?").waitFor();
      await shoot(page, "asking");
      expect(await findings(page, await axe(), DESKTOP)).toEqual([]);
      await page.getByRole("radio", { name: "Yes" }).check();
      await page.getByRole("button", { name: "Answer" }).click();
      await page.locator(".answer", { hasText: "Ordered." }).waitFor();
      await shoot(page, "answered");
      await page.setViewportSize(PHONE);
      expect(await findings(page, await axe(), PHONE)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      expect(complaints).toEqual([]);
    } finally {
      await browser.close();
    }
  },
);

chromium.it("an open chat says what its thread does, and once it has ended takes no message", async () => {
  const baker = defineChat({ name: "Baker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });
  await using server = await testServer({ agents: [baker], suspendAfter: "10ms" });
  await server.service.get(THREADS).start("baker", { message: "hello" }, { id: "thread" });
  const browser = await launch();
  try {
    const { page, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/jobs/thread/chat`);
    const status = page.locator(".top .st");
    await expect.poll(() => status.textContent()).toBe("Chat");
    expect(await page.getByText("This thread has ended.").isVisible()).toBe(false);
    await page.getByLabel("Message", { exact: true }).fill("half a message");

    await server.request("/admin/api/jobs/thread/status", { json: { status: "stopped" } });
    await expect.poll(() => status.textContent()).toBe("Stopped");
    await server.request("/admin/api/jobs/thread/status", { json: { status: "in_progress" } });
    await expect.poll(() => status.textContent()).toBe("Chat");
    expect(await page.getByLabel("Message", { exact: true }).inputValue()).toBe("half a message");
    await server.request("/admin/api/jobs/thread/stop", { method: "POST" });
    await page.getByText("This thread has ended.").waitFor();
    expect(await page.getByLabel("Message", { exact: true }).isVisible()).toBe(false);
    expect(await status.textContent()).toBe("Cancelled");

    await server.request("/jobs/thread/retry", { json: { from: "last_step" } });
    await page.getByLabel("Message", { exact: true }).waitFor();
    expect(await page.getByText("This thread has ended.").isVisible()).toBe(false);
    expect(complaints).toEqual([]);
  } finally {
    await browser.close();
  }
});

const axe = () => readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Pictures for the eye, where a folder for them is named. */
async function shoot(page: import("playwright-core").Page, name: string): Promise<void> {
  const folder = process.env.SHOTS;
  if (!folder) return;
  for (const width of [390, 768, 1360, 2200]) {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.setViewportSize({ width, height: 850 });
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: `${folder}/${name}-${width}-${colorScheme}.png` });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(DESKTOP);
}
