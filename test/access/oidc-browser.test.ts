import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import type { Browser, Page } from "playwright-core";
import * as v from "valibot";
import { expect } from "vitest";
import { requirement } from "../_require.ts";
import { launch } from "../admin/_browser.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { start } from "./_signed-in.ts";

const chromium = requirement("chromium");

chromium.it(
  "a person signs in by a browser at a provider of another site, works, and signs out",
  async () => {
    await using at = await start();
    const browser = await launch();
    try {
      const page = await browser.newPage();
      await page.goto(`${at.server.url}/admin/jobs?status=failed`);

      await signIn(page, "ada");
      await page.getByRole("heading", { name: "Jobs" }).waitFor();

      expect(page.url()).toBe(`${at.server.url}/admin/jobs?status=failed`);
      const who = () => page.evaluate(async () => (await fetch("/admin/api/stats")).status);
      expect(await who()).toBe(200);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("API key").waitFor();
      expect(await who()).toBe(401);
    } finally {
      await browser.close();
    }
  },
);

const refund = defineAgent({
  name: "Refund",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const item = await job.openCase({ id: "order-7", name: "Order 7" });
        return item.ask("refund", {
          question: "Refund $4,000?",
          fields: v.object({ approved: v.boolean() }),
          assignTo: "group:platform",
          approvers: 2,
        });
      },
    },
  },
});

chromium.it(
  "a question for two is answered in the inbox by two people who sign in, and not by one",
  async () => {
    await using at = await start({ agents: [refund] });
    at.provider.accounts.set("ben", { ...at.ada, email: "ben@example.com" });
    await startJob(at.server.service, { id: "j" });
    await until(at.server.service, "j", ["awaiting"]);
    const browser = await launch();
    try {
      const ada = await inbox(browser, at.server.url, "ada");
      await ada.getByText("2 people must give the same answer").waitFor();
      await ada.getByLabel("Yes", { exact: true }).check();
      await ada.getByRole("button", { name: "Answer", exact: true }).click();
      await ada.getByText("1 of 2").first().waitFor();
      // The same person at another machine.
      const again = await inbox(browser, at.server.url, "ada");
      await again.getByText("ada@example.com answered").waitFor();
      await again.getByLabel("Yes", { exact: true }).check();
      await again.getByRole("button", { name: "Answer", exact: true }).click();
      await again.getByRole("alert").waitFor();
      const between = (await at.server.service.get(JOBS).get("j")).status;
      const ben = await inbox(browser, at.server.url, "ben");
      await ben.getByText("ada@example.com answered").waitFor();
      await ben.getByLabel("Yes", { exact: true }).check();
      await ben.getByRole("button", { name: "Answer", exact: true }).click();
      await ben.getByText("Answered. The agent continues.").waitFor();

      expect(between).toBe("awaiting");
      await until(at.server.service, "j", ["completed"]);
      await ben.goto(`${at.server.url}/admin/cases/order-7`);
      for (const name of ["ada@example.com", "ben@example.com"]) await ben.getByText(name).first().waitFor();
    } finally {
      await browser.close();
    }
  },
);

async function signIn(page: Page, account: string): Promise<void> {
  await page.getByRole("link", { name: /^Sign in with localhost/ }).click();
  await page.getByPlaceholder("Enter any login").fill(account);
  await page.getByPlaceholder("and password").fill("any");
  await page.getByRole("button", { name: "Sign-in" }).click();
  await page.getByRole("button", { name: "Continue" }).click();
}

/** The inbox in a window with nothing remembered, once somebody has signed in. */
async function inbox(browser: Browser, url: string, account: string): Promise<Page> {
  const page = await (await browser.newContext()).newPage();
  await page.goto(`${url}/admin/inbox`);
  await signIn(page, account);
  await page.getByRole("heading", { name: "Refund $4,000?" }).waitFor();
  return page;
}
