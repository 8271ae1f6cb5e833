// @long
import { crc32, gzipSync } from "node:zlib";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { requirement } from "../_require.ts";
import { until } from "../runs/_jobs.ts";
import { DESKTOP, launch, signIn, visit } from "./_browser.ts";
import { gallery, pdf, png, wav } from "./_gallery.ts";

const chromium = requirement("chromium");
let browser: Browser;
let server: TestServer;
beforeAll(async () => {
  if (!chromium.met) return;
  [browser, server] = await Promise.all([launch(), testServer({ agents: [gallery] })]);
});
afterAll(async () => {
  await browser?.close();
  await server?.[Symbol.asyncDispose]();
});

/** What a script of a file would do: it marks the pages that it reaches, and calls the service in the name of the person. */
const SCRIPT =
  "for (const w of [self, parent, top]) try { w.document.title = 'stolen'; w.stolen = true } catch {}; fetch('/admin/api/jobs', { credentials: 'include' }).then((r) => r.ok && (document.title = 'stolen')).catch(() => {}); location.href = 'https://elsewhere.example/';";
const PAGE = `<!doctype html><title>x</title><body onload="${SCRIPT}"><style>body{background:red}</style><p id="said">Hello</p><script>${SCRIPT}</script><img src=x onerror="${SCRIPT}"><form action="/admin/session/end" method="post"><button id="go">Sign out</button></form><meta http-equiv="refresh" content="0;url=https://elsewhere.example/"><a id="out" target="_top" href="https://elsewhere.example/">out</a><iframe src="/admin/"></iframe><base href="https://elsewhere.example/"></body>`;
const SVG = `<svg xmlns="http://www.w3.org/2000/svg" onload="${SCRIPT}"><script>${SCRIPT}</script><text y="20">drawn</text><foreignObject><iframe xmlns="http://www.w3.org/1999/xhtml" src="javascript:${SCRIPT}"/></foreignObject></svg>`;

interface Hostile {
  readonly name: string;
  readonly type?: string;
  readonly content: string | Uint8Array;
}
const HOSTILE: readonly Hostile[] = [
  { name: "page.html", type: "text/html", content: PAGE },
  { name: "page.xhtml", type: "application/xhtml+xml", content: PAGE },
  { name: "drawing.svg", type: "image/svg+xml", content: SVG },
  {
    name: "note.md",
    type: "text/markdown",
    content: `# A\n\n${PAGE}\n\n[x](javascript:${SCRIPT}) ![x](https://elsewhere.example/p.png)`,
  },
  { name: "rows.csv", type: "text/csv", content: `a,b\n"${PAGE.replaceAll('"', '""')}",=cmd()\n` },
  { name: "rows.json", type: "application/json", content: JSON.stringify([{ [PAGE]: PAGE }]) },
  { name: "plain.txt", type: "text/plain", content: PAGE },
  { name: "mail.eml", type: "message/rfc822", content: `Subject: x\nContent-Type: text/html\n\n${PAGE}` },
  { name: "change.diff", type: "text/x-diff", content: `+${PAGE}` },
  // Both what they say to be and a page.
  { name: "both.pdf", content: Buffer.concat([pdf(["harmless"]), Buffer.from(PAGE)]) },
  { name: "both.gif", content: Buffer.from(`GIF89a/*${PAGE}*/=1;${SCRIPT}`) },
  { name: "both.png", content: Buffer.concat([png(4, 4, [0, 0, 200]), Buffer.from(PAGE)]) },
  { name: "both.wav", content: Buffer.concat([wav(), Buffer.from(PAGE)]) },
  { name: "script.js", type: "text/javascript", content: SCRIPT },
  {
    name: "unknown.bin",
    type: "application/octet-stream",
    content: Buffer.from([0, 1, 2, ...Buffer.from(PAGE)]),
  },
  {
    name: "../../etc/<img src=x onerror=stolen=1>\r\nSet-Cookie: a=b\u202egnp.html",
    type: "text/html",
    content: PAGE,
  },
  { name: "empty.html", type: "text/html", content: "" },
  // Small as they are sent, and large for who unpacks, expands or draws them.
  { name: "bomb.csv.gz", content: gzipSync(Buffer.alloc(200_000_000)) },
  { name: "bomb.docx", content: Buffer.concat([Buffer.from("PK\x03\x04"), Buffer.alloc(2000)]) },
  { name: "bomb.png", content: hugePng() },
  { name: "laughs.svg", type: "image/svg+xml", content: laughs() },
  { name: "deep.json", type: "application/json", content: deep(30_000) },
  // Large, and of zeros: a disk may store none of them.
  { name: "sparse.bin", type: "application/octet-stream", content: Buffer.alloc(30_000_000) },
  { name: "sparse.txt", type: "text/plain", content: Buffer.alloc(30_000_001) },
  { name: "wide.csv", type: "text/csv", content: ",".repeat(30_000_000) },
  { name: "long.json", type: "application/json", content: `["${"a".repeat(30_000_000)}"]` },
];
/** What says to be something else than it is. */
const WRONG: readonly Hostile[] = [
  { name: "page.png", type: "image/png", content: PAGE },
  { name: "page.pdf", type: "application/pdf", content: `<!-- %PDF-1.7 -->${PAGE}` },
  { name: "page.wav", type: "audio/wav", content: PAGE },
  { name: "page.zip", type: "application/zip", content: PAGE },
];

/** A picture of 60,000 by 60,000 pixels, as its header says. */
function hugePng(): Buffer {
  const bytes = Buffer.from(png(4, 4, [0, 0, 200]));
  bytes.writeUInt32BE(60_000, 16);
  bytes.writeUInt32BE(60_000, 20);
  bytes.writeUInt32BE(crc32(bytes.subarray(12, 29)), 29);
  return bytes;
}

/** A table whose only cell has lists in lists. */
function deep(lists: number): string {
  return `[{"a":${"[".repeat(lists)}${"]".repeat(lists)}}]`;
}

/** A drawing whose text has ten times itself, nine times over. */
function laughs(): string {
  const entities = Array.from(
    { length: 9 },
    (_, at) => `<!ENTITY e${at + 1} "${`&e${at};`.repeat(10)}">`,
  ).join("");
  return `<!DOCTYPE svg [<!ENTITY e0 "ha">${entities}]><svg xmlns="http://www.w3.org/2000/svg"><text y="20">&e9;</text></svg>`;
}

async function startJob(id: string): Promise<void> {
  const files = await Promise.all(
    HOSTILE.map(async ({ name, type = "", content }) => {
      const response = await server.request(`/files?name=${encodeURIComponent(name)}`, {
        ...{ method: "POST", body: content as never },
        headers: type === "" ? { "content-type": "application/octet-stream" } : { "content-type": type },
      });
      expect(response.status, name).toBe(201);
      return { upload: ((await response.json()) as { upload: string }).upload };
    }),
  );
  const show = HOSTILE.slice(0, 4)
    .map(({ name }) => name)
    .join(";");
  const body = { job_context: { job_id: id }, job_fields: { files, show } };
  expect((await server.request("/agents/gallery/jobs", { json: body })).status).toBe(202);
  await until(server.service, id, ["awaiting"]);
}

/** What a file has reached of the page and of the session. */
async function reached(page: Page, url: string): Promise<string[]> {
  const problems: string[] = [];
  if ((await page.title()) === "stolen") problems.push("changed the title");
  if (await page.evaluate('"stolen" in window')) problems.push("ran in the page");
  if (!page.url().startsWith(url)) problems.push(`left to ${page.url()}`);
  for (const frame of page.frames().slice(1)) {
    if (frame.url().startsWith("https://elsewhere")) problems.push("left in its frame");
    // The viewer of PDF is an extension of the browser.
    if (!frame.url().startsWith(url)) continue;
    const own = await frame
      .evaluate<string[]>('[document.title, String("stolen" in self)]')
      .catch(() => ["", ""]);
    if (own.includes("stolen") || own.includes("true")) problems.push(`ran in its frame ${frame.url()}`);
  }
  return problems;
}

describe("hostile files", () => {
  chromium.it("no file runs a script, leaves its frame, or reaches the session", async () => {
    await startJob("hostile");
    const { context, page } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    const listed = (await (await server.request("/jobs/hostile/files")).json()) as {
      name: string;
      sha256: string;
    }[];
    const problems: string[] = [];
    const see = async (what: string, path: string) => {
      const response = await page.goto(server.url + path).catch((error: unknown) => {
        if (!String(error).includes("Download is starting") && !String(error).includes("ERR_ABORTED"))
          throw error;
      });
      if (response && response.status() >= 400)
        problems.push(`${what} is answered with ${response.status()}`);
      await page.waitForLoadState("load");
      for (const frame of await page.locator("iframe").all()) await frame.scrollIntoViewIfNeeded();
      for (const frame of page.frames().slice(1))
        if (frame.url().startsWith(server.url))
          await frame.waitForLoadState("load", { timeout: 5000 }).catch(() => {});
      problems.push(...(await reached(page, server.url)).map((one) => `${what} ${one}`));
      // Of a large content, a page has the beginning.
      if (path.includes("/view") && (await page.content()).length > 2_000_000)
        problems.push(`${what} is longer than two million characters`);
    };
    for (const { name, sha256 } of listed) {
      const path = `/admin/jobs/hostile/files/${sha256}`;
      const query = `name=${encodeURIComponent(name)}`;
      await see(`${name} on its page`, `${path}/view?${query}`);
      // The page of before stays where the browser downloads instead.
      await see(`${name} alone`, `${path}?inline=true&${query}`);
      await see(`${name} as a download`, `${path}?${query}`);
    }
    await see("a list", "/admin/jobs/hostile");
    await see("a question", "/admin/inbox?question=hostile-case");
    // Frames show what the files say, without their scripts.
    const frame = page.frameLocator('iframe[title="page.html"]');
    await expect.poll(() => frame.locator("#said").textContent()).toBe("Hello");
    await frame.locator("#go").click();
    await frame.locator("#out").click();
    await see("a question, once more", "/admin/inbox?question=hostile-case");
    expect(problems).toEqual([]);
    // The person is signed in still, and nothing set a cookie.
    await page.goto(`${server.url}/admin/`);
    await page.getByRole("heading", { name: "Dashboard" }).waitFor();
    expect((await context.cookies()).map(({ name }) => name)).toEqual(["svc-admin"]);
    await context.close();
  });

  it("what says to be something else than it is, is refused", async () => {
    const server = await testServer({ agents: [gallery] });
    onTestFinished(() => server[Symbol.asyncDispose]());
    const statuses: Record<string, number> = {};
    for (const { name, type = "", content } of WRONG) {
      const form = new FormData();
      form.append("file", new Blob([content as never], { type }), name);
      const sent = await server.request("/files", { method: "POST", body: form });
      statuses[name] = sent.status;
    }

    expect(statuses).toEqual({
      ...{ "page.png": 415, "page.pdf": 415, "page.wav": 415, "page.zip": 415 },
    });
  });

  chromium.it("files are chosen or dropped on a form, and sent by its script", async () => {
    const { context, page, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    await page.goto(`${server.url}/admin/agents/gallery/start`);
    await page.getByLabel("Contract").setInputFiles({
      ...{ name: "contract.pdf", mimeType: "application/pdf", buffer: pdf(["Clause 1"]) },
    });
    // In its field, beside the input.
    await page.evaluate(`(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["one"], "one.txt", { type: "text/plain" }));
      dataTransfer.items.add(new File(["two"], "two.txt", { type: "text/plain" }));
      const label = [...document.querySelectorAll("label")].find((one) => one.textContent.startsWith("Files"));
      for (const kind of ["dragover", "drop"])
        label.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }));
    })()`);
    await page.getByRole("button", { name: "Start" }).click();
    await page.waitForURL(/\/admin\/jobs\//);
    const files = page.getByRole("region", { name: "Files" });
    for (const name of ["contract.pdf", "one.txt", "two.txt"])
      await files.getByRole("link", { name, exact: true }).waitFor();
    expect(complaints).toEqual([]);
    await context.close();
  });
});
