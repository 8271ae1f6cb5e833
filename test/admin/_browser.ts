import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { findChromium } from "../_require.ts";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** How a page is viewed. */
export interface View {
  readonly name: string;
  readonly width: number;
  readonly height: number;
  readonly colorScheme: "light" | "dark";
}

export const DESKTOP: View = { name: "desktop", width: 1360, height: 850, colorScheme: "light" };
export const PHONE: View = { name: "phone", width: 390, height: 844, colorScheme: "dark" };

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: findChromium(), args: FLAGS });
}

export interface Visit {
  readonly context: BrowserContext;
  readonly page: Page;
  /** What no page may do: errors in the console, refused content, requests to other places. */
  readonly complaints: string[];
}

/** A window with nothing remembered, watched for complaints. */
export async function visit(browser: Browser, url: string, view: View, options: object = {}): Promise<Visit> {
  const { width, height, colorScheme } = view;
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, ...options });
  // As long as `expect.poll` waits.
  context.setDefaultTimeout(60_000);
  const complaints: string[] = [];
  await context.route("**/*", (route) => {
    const target = new URL(route.request().url());
    // The viewer of PDF is an extension that the browser has.
    const isOwn = /^(?:data|chrome|chrome-extension):$/.test(target.protocol);
    if (target.origin === url || isOwn) return route.continue();
    complaints.push(`request to ${target.href}`);
    return route.abort();
  });
  const page = await context.newPage();
  page.on("console", (message) => {
    // The sign-in page is a 401 answer: a browser notes that, as it should. Containers of other tests come and go, and
    // with them networks of this machine.
    const expected = /status of 401|ERR_NETWORK_CHANGED/;
    if (message.type() !== "error" || expected.test(message.text())) return;
    complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  return { context, page, complaints };
}

/** Signs in as Ada; the dashboard is open then. */
export async function signIn(page: Page, url: string, key: string): Promise<void> {
  await page.goto(`${url}/admin/`);
  await page.getByLabel("API key").fill(key);
  await page.getByLabel("Your name").fill("Ada");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Dashboard" }).waitFor();
  // Keys are handled by a script that is run after the page has been parsed.
  await page.waitForLoadState("load");
}

interface Finding {
  readonly id: string;
  readonly nodes: readonly { readonly target: readonly string[]; readonly failureSummary?: string }[];
}

/**
 * All findings of axe-core, as text; colors in light and dark. It runs in an isolated world, so that the
 * page's policy is unchanged.
 */
export async function findings(page: Page, source: string, view: View): Promise<string[]> {
  // A page that a form has just opened may be there before its style sheet.
  await page.waitForLoadState("load");
  const client = await page.context().newCDPSession(page);
  const { frameTree } = (await client.send("Page.getFrameTree")) as { frameTree: { frame: { id: string } } };
  const world = { frameId: frameTree.frame.id };
  const { executionContextId: contextId } = await client.send("Page.createIsolatedWorld", world);
  const evaluate = (expression: string) =>
    client.send("Runtime.evaluate", { expression, contextId, awaitPromise: true, returnByValue: true });
  const run = async (options: string): Promise<Finding[]> => {
    const { result } = await evaluate(`axe.run(document, ${options}).then((results) => results.violations)`);
    return result.value as Finding[];
  };
  await evaluate(`${source};0`);
  // A color on its way to another one is none of the page's.
  await page.emulateMedia({ reducedMotion: "reduce" });
  const found = await run("{ rules: { 'target-size': { enabled: true } }, resultTypes: ['violations'] }");
  await page.emulateMedia({ colorScheme: view.colorScheme === "dark" ? "light" : "dark" });
  found.push(...(await run("{ runOnly: ['color-contrast'], resultTypes: ['violations'] }")));
  await page.emulateMedia({ colorScheme: view.colorScheme, reducedMotion: "no-preference" });
  await client.detach();
  return found.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map((node) => `${node.target.join(" ")} ${node.failureSummary ?? ""}`).join("; ")}`,
  );
}
