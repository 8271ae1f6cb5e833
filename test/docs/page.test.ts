import { testServer } from "agent-control-service/testing";
import { chromium } from "playwright-core";
import { describe, expect, it } from "vitest";
import { findChromium, requirement } from "../_require.ts";
import { greeter } from "../_setup.ts";

describe("the page at /docs", () => {
  it("is served with a strict policy, and its files with an ETag", async () => {
    await using server = await testServer({ agents: [greeter] });

    const page = await server.request("/docs", { key: null });
    const script = await server.request("/docs/swagger-ui-bundle.js", { key: null });
    const again = await server.request("/docs/swagger-ui-bundle.js", {
      headers: { "if-none-match": script.headers.get("etag") ?? "" },
    });
    const other = await server.request("/docs/..%2f..%2fpackage.json");

    expect(page.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page.headers.get("content-security-policy")).not.toContain("unsafe");
    expect(script.headers.get("content-type")).toContain("text/javascript");
    expect((await script.text()).length).toBeGreaterThan(1_000_000);
    expect(again.status).toBe(304);
    expect(other.status).toBe(422);
  });

  requirement("chromium").it(
    "shows the routes in a browser in the colors of the system, and asks for nothing elsewhere",
    async () => {
      await using server = await testServer({ agents: [greeter] });
      const browser = await chromium.launch({
        executablePath: findChromium(),
        args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
      });
      try {
        const page = await browser.newPage();
        const requested: string[] = [];
        const complaints: string[] = [];
        page.on("request", (request) => requested.push(request.url()));
        page.on("console", (line) => line.type() === "error" && complaints.push(line.text()));
        page.on("pageerror", (error) => complaints.push(String(error)));

        await page.goto(`${server.url}/docs`);
        await page.locator('.opblock-tag[data-tag="Documentation"]').click();
        const paths = async () => {
          const texts = await page.locator(".opblock-summary-path").allInnerTexts();
          return texts.map((path) => path.replaceAll("\u200b", ""));
        };
        await expect.poll(paths).toContain("/openapi.json");
        const brightness = async () => {
          const color = await page.evaluate<string>(
            "getComputedStyle(document.querySelector('.info .title')).color",
          );
          return Math.max(...(color.match(/\d+/g) ?? []).slice(0, 3).map(Number));
        };
        for (const colorScheme of ["dark", "light"] as const) {
          await page.emulateMedia({ colorScheme });
          await expect.poll(brightness)[colorScheme === "dark" ? "toBeGreaterThan" : "toBeLessThan"](128);
        }

        const elsewhere = requested.filter((url) => !url.startsWith(server.url) && !url.startsWith("data:"));
        expect(elsewhere).toEqual([]);
        expect(complaints).toEqual([]);
      } finally {
        await browser.close();
      }
    },
  );
});
