import { existsSync, readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { testServer } from "agent-control-service/testing";
import { expect } from "vitest";
import { replyDesk } from "../../examples/reply-desk/controller.ts";
import { requirement } from "../_require.ts";
import { launch, signIn } from "../admin/_browser.ts";
import { waitFor } from "../http/_client.ts";

const PICTURE = fileURLToPath(new URL("../../docs/images/reply-desk.png", import.meta.url));

requirement("chromium").it("the picture of the readme is the inbox of its agent, and small", async () => {
  await using server = await testServer({ agents: [replyDesk] });
  await server.request("/agents/reply-desk/jobs", { json: { job_context: { job_id: "monday" } } });
  await waitFor(server, "monday", "awaiting");
  await using browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1100, height: 590 }, colorScheme: "light" });
  await signIn(page, server.url, server.key);

  await page.goto(`${server.url}/admin/inbox`);
  const questions = page.getByRole("region", { name: "Open questions" }).getByRole("listitem");
  await expect.poll(() => questions.count()).toBe(2);
  await page.getByRole("button", { name: "Answer" }).waitFor();
  const text = await page.locator("main").textContent();
  // It has times in it, so it is not compared: `SVC_UPDATE_DOCS=1` takes it again, and `pngquant --quality=75-95` makes
  // a third of its size.
  if (process.env.SVC_UPDATE_DOCS === "1") await page.screenshot({ path: PICTURE });

  expect(text).toContain("Where is order 12?");
  expect(text).toContain("Please refund order 34.");
  expect(readFileSync(new URL("../../README.md", import.meta.url), "utf8")).toContain(
    "(docs/images/reply-desk.png)",
  );
  expect(existsSync(PICTURE) && statSync(PICTURE).size).toBeLessThan(30_000);
});
