// @alone
// @long
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { checkSite } from "../../site/check-site.ts";
import { turnLinks } from "../../site/links.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { launch, type View, visit } from "../admin/_browser.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DESKTOP: View = { name: "desktop", width: 1440, height: 900, colorScheme: "light" };
const PHONE: View = { name: "phone", width: 390, height: 844, colorScheme: "dark" };
const VIEWS: readonly View[] = [
  DESKTOP,
  { ...PHONE, colorScheme: "light" },
  { ...DESKTOP, colorScheme: "dark" },
  PHONE,
];

let folder: string;
let site: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-site-"));
  site = join(folder, "site");
}, 10_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the site", () => {
  it("is built by npm run docs, with every page, a reference and its Markdown for language models", async () => {
    const { code, output } = await buildSite();

    expect(code, output).toBe(0);
    const pages = readdirSync(site, { recursive: true }).filter((name) => String(name).endsWith(".html"));
    expect(pages).toEqual(
      expect.arrayContaining([
        "index.html",
        "agents.html",
        "examples/reply-desk.html",
        "reference/plugin.html",
      ]),
    );
    const reference = readFileSync(join(site, "reference/index.html"), "utf8");
    for (const name of ["createServer", "defineAgent", "StepFailedError"]) expect(reference).toContain(name);
    const list = readFileSync(join(site, "llms.txt"), "utf8");
    const listed = [...list.matchAll(/\]\(\/([^)]*\.md)\)/g)].map(([, path]) => path!);
    expect(list).toMatch(/^# agent-control-service\n\n> Put AI agents/);
    expect(listed.length).toBeGreaterThan(25);
    expect(listed.filter((path) => !existsSync(join(site, path)))).toEqual([]);
    const full = readFileSync(join(site, "llms-full.txt"), "utf8");
    for (const sentence of ["# Agents\n", "# Durability\n", "# Reply desk\n"])
      expect(full).toContain(sentence);
  }, 300_000);

  requirement("chromium").it(
    "asks no other site, finds pages by search, and fits a desktop and a phone in both themes",
    async () => {
      const { server, url } = await serve(site);
      await using browser = await launch();
      try {
        for (const view of shareOf(VIEWS, 4)) {
          const { page, context, complaints } = await visit(browser, url, view);
          for (const path of ["", "agents.html", "durability.html", "reference/index.html"]) {
            await page.goto(`${url}/${path}`, { waitUntil: "networkidle" });
            const tooWide = await page.evaluate(
              "document.documentElement.scrollWidth > document.documentElement.clientWidth",
            );
            if (tooWide) complaints.push(`${path} is too wide at ${view.width} pixels`);
            if (process.env.SVC_SHOTS) {
              const name = `${path.replaceAll(/\W+/g, "-") || "home"}-${view.name}-${view.colorScheme}`;
              await page.screenshot({ path: `${process.env.SVC_SHOTS}/site-${name}.png` });
            }
          }
          expect(complaints).toEqual([]);
          await context.close();
        }
        const { page, complaints } = await visit(browser, url, DESKTOP);
        await page.goto(url);
        await page.getByRole("button", { name: "Search" }).click();
        await page.getByPlaceholder("Search").fill("idempotencyKey");
        await page.locator(".VPLocalSearchBox .result").first().waitFor();

        expect(await page.locator(".VPLocalSearchBox .result").first().getAttribute("href")).toMatch(
          /\.html#/,
        );
        expect(complaints).toEqual([]);
      } finally {
        server.close();
      }
    },
    180_000,
  );
});

describe("the check of the site", () => {
  const check = async (pages: Readonly<Record<string, string>>): Promise<string[]> => {
    const place = await mkdtemp(join(folder, "pages-"));
    for (const [name, text] of Object.entries(pages)) {
      await mkdir(join(place, name, ".."), { recursive: true });
      await writeFile(join(place, name), text);
    }
    return checkSite(place);
  };

  it("finds nothing if all links and headings exist", async () => {
    const index =
      '<a href="/b/c.html#here">c</a> <a href="b/c#here">c</a> <a href="https://example.com">away</a>';

    expect(
      await check({ "index.html": index, "b/c.html": '<h2 id="here"></h2><a href="../index.html">up</a>' }),
    ).toEqual([]);
  });

  it.each([
    ["a page", '<a href="/nowhere.html">x</a>', "index.html links to /nowhere.html"],
    ["a heading", '<a href="#nowhere">x</a>', "index.html links to #nowhere, and there is no such heading"],
    ["an image", '<img src="/nowhere.png">', "index.html shows /nowhere.png, which is not there"],
  ])("finds %s that does not exist", async (_what, html, problem) => {
    expect(await check({ "index.html": html })).toEqual([problem]);
  });

  it.each([
    ["a script", { "index.html": '<script src="https://cdn.example/x.js"></script>' }],
    ["a style", { "index.html": '<link rel="stylesheet" href="//cdn.example/x.css">' }],
    ["a font", { "assets/x.css": '@font-face{src:url("https://fonts.example/x.woff2")}' }],
  ])("finds %s from another site", async (_what, pages) => {
    expect(await check(pages)).toEqual([expect.stringContaining("asks another site")]);
  });

  it("refuses a broken link in Markdown, and ignores code", () => {
    const page = { source: "docs/a.md", target: "a.md", title: "A" };
    const find = (path: string) =>
      path === "docs/b.md" ? { page: { ...page, source: path, target: "b.md" } } : undefined;

    expect(turnLinks("[b](b.md#x) `[c](c.md)`", page, find).text).toBe("[b](b.md#x) `[c](c.md)`");
    expect(() => turnLinks("[c](c.md)", page, find)).toThrow("docs/a.md links to c.md, which is not there");
  });
});

async function buildSite(): Promise<{ code: number | null; output: string }> {
  const jiti = join(ROOT, "node_modules/jiti/lib/jiti-cli.mjs");
  const child = spawn(process.execPath, [jiti, "site/build.ts", site], { cwd: ROOT });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (output += String(text)));
  const code = await new Promise<number | null>((done) => child.on("close", done));
  return { code, output };
}

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".json": "application/json",
  ".png": "image/png",
  ".woff2": "font/woff2",
};

async function serve(root: string): Promise<{ server: Server; url: string }> {
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url!, "http://localhost").pathname);
    const file = join(root, path.endsWith("/") ? `${path}index.html` : path);
    const isFile = existsSync(file) && statSync(file).isFile();
    response.writeHead(isFile ? 200 : 404, { "content-type": TYPES[extname(file)] ?? "text/plain" });
    response.end(isFile ? await readFile(file) : "");
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}
