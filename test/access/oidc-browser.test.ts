import { expect } from "vitest";
import { requirement } from "../_require.ts";
import { launch } from "../admin/_browser.ts";
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

      await page.getByRole("link", { name: /^Sign in with localhost/ }).click();
      await page.getByPlaceholder("Enter any login").fill("ada");
      await page.getByPlaceholder("and password").fill("any");
      await page.getByRole("button", { name: "Sign-in" }).click();
      await page.getByRole("button", { name: "Continue" }).click();
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
