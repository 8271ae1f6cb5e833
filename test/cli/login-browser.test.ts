// @long
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { requirement } from "../_require.ts";
import { start } from "../access/_signed-in.ts";
import { launch } from "../admin/_browser.ts";
import { beginSvc, PROCESS_TIME, svc } from "./_svc.ts";

const chromium = requirement("chromium");

chromium.it(
  "a person signs in at a provider by a browser, approves the program, and its commands act as that person",
  async () => {
    await using at = await start();
    const home = await mkdtemp(join(tmpdir(), "svc-home-"));
    onTestFinished(() => rm(home, { recursive: true, force: true }));
    const options = { cwd: home, env: { HOME: home, XDG_CONFIG_HOME: home, SERVICE_URL: at.server.url } };
    const login = beginSvc(["login"], options);
    const [, address] = await login.prints(/Sign in at (\S+)/);
    const [, check] = await login.prints(/The page shows ([\w-]+)\./);
    const browser = await launch();
    try {
      const page = await browser.newPage();
      await page.goto(address!);
      await page.getByRole("link", { name: /^Sign in with localhost/ }).click();
      await page.getByPlaceholder("Enter any login").fill("ada");
      await page.getByPlaceholder("and password").fill("any");
      await page.getByRole("button", { name: "Sign-in" }).click();
      await page.getByRole("button", { name: "Continue" }).click();
      await page.getByRole("button", { name: "Allow" }).waitFor();
      const asked = await page.locator("body").textContent();
      await page.getByRole("button", { name: "Allow" }).click();
      // The provider vouches for the program's own sign-in, too.
      const closing = page.getByText("You can close this page");
      const consent = page.getByRole("button", { name: "Continue" });
      await closing.or(consent).waitFor();
      if (await consent.isVisible()) await consent.click();
      await closing.waitFor();
      const done = await login.finished;

      expect(asked).toContain(check);
      expect(asked).toContain("ada@example.com");
      expect([done.code, done.stdout]).toEqual([0, expect.stringContaining("as ada@example.com (operator)")]);
      expect((await svc(["job", "list"], options)).code).toBe(0);
      expect((await svc(["access", "list"], options)).stderr).toContain('the right "manage"');
    } finally {
      await browser.close();
    }
  },
  PROCESS_TIME,
);
