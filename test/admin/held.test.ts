import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type AgentDefinition, defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { ACCESS } from "../../src/core/service/tokens.ts";
import { requirement } from "../_require.ts";
import { DESKTOP, findings, launch, PHONE, signIn, type View, visit } from "./_browser.ts";

const chromium = requirement("chromium");
/** Widths of screenshots, in their names. */
const WIDTHS = [1440, 1024, 768, 390, 2560];
/** A word that fits no phone. */
const LONG_WORD = `https://erp.example.com/${"invoices/".repeat(12)}`;

let browser: Browser;
let axe: string;
beforeAll(async () => {
  if (!chromium.met) return;
  browser = await launch();
  axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
});
afterAll(() => browser?.close());

/** An agent that makes a step, and then asks. */
function payer(step: string, version: string): AgentDefinition {
  return defineAgent({
    name: "Payer",
    version,
    methods: {
      job_start: {
        fields: [],
        async run({ job }) {
          const item = await job.openCase({ id: job.id, name: "Invoice 42" });
          await item.step(LONG_WORD, () => 1);
          await item.step(step, () => version);
          const { yes } = await item.ask("approve", {
            question: "Pay it?",
            fields: [{ name: "yes", field_type: "BooleanField", required: true }],
          });
          await item.close();
          return { yes, version };
        },
      },
    },
  });
}

/** Jobs that wait for an answer, and are held since the service was started with other code. */
async function startWithHeldJobs(ids: readonly string[]): Promise<TestServer> {
  const dataDir = mkdtempSync(join(tmpdir(), "svc-held-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  const statuses = async ({ service }: TestServer) =>
    (await service.get(JOBS).list({})).items.map(({ status, held }) => `${status} ${held !== null}`);
  {
    await using before = await testServer({ agents: [payer("fetch", "1.0.0")], store: undefined, dataDir });
    for (const id of ids)
      await before.request("/agents/payer/jobs", { json: { job_context: contextOf(id) } });
    await expect.poll(() => statuses(before)).toEqual(ids.map(() => "awaiting false"));
  }
  const after = await testServer({ agents: [payer("load", "2.0.0")], store: undefined, dataDir });
  onTestFinished(() => after[Symbol.asyncDispose]());
  await expect.poll(() => statuses(after)).toEqual(ids.map(() => "awaiting true"));
  return after;
}

function contextOf(id: string) {
  const started = { started_by: "tests", started_at: "2026-01-01T00:00:00Z" };
  return { workspace_id: "w", job_id: id, ...started, mission_id: "m", mission_name: `Pay ${id}` };
}

/** All widths in both themes where screenshots are taken. */
const VIEWS: readonly View[] = process.env.SVC_SHOTS
  ? WIDTHS.flatMap((width) =>
      (["light", "dark"] as const).map((colorScheme) => ({
        name: String(width),
        width,
        height: 900,
        colorScheme,
      })),
    )
  : [DESKTOP, PHONE];

chromium.it(
  "a held job says which call no longer fits; a person continues one and restarts another",
  async () => {
    const server = await startWithHeldJobs(["one", "two"]);
    const { page, complaints } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    const look = async (name: string) => {
      const folder = process.env.SVC_SHOTS;
      for (const view of VIEWS) {
        await page.setViewportSize(view);
        await page.emulateMedia({ colorScheme: view.colorScheme });
        const where = `${name}-${view.name}-${view.colorScheme}`;
        complaints.push(...(await findings(page, axe, view)).map((one) => `${where}: ${one}`));
        const width = await page.evaluate<number>("document.documentElement.scrollWidth");
        if (width > view.width) complaints.push(`${where}: ${width} px wide`);
        if (folder)
          await page.screenshot({ path: `${folder}/${where}.png`, caret: "initial", fullPage: true });
      }
      await page.setViewportSize(DESKTOP);
    };

    await page.goto(`${server.url}/admin/jobs/one`);
    await page.getByText('step "fetch"').first().waitFor();
    await page.getByText('step "load"').first().waitFor();
    await look("held");
    await page.getByRole("link", { name: "Continue" }).click();
    await page.getByRole("heading", { name: "Continue with the current code?" }).waitFor();
    await look("continue");
    await page.getByRole("button", { name: "Continue" }).click();
    await page.waitForURL(`${server.url}/admin/jobs/one`);
    await expect.poll(async () => (await server.service.get(JOBS).get("one")).held).toBeNull();
    await page.goto(`${server.url}/admin/jobs/one`);
    await page.getByRole("link", { name: "Answer", exact: true }).waitFor();
    await look("continued");

    await page.goto(`${server.url}/admin/jobs/two`);
    await page.getByRole("link", { name: "Restart" }).click();
    await page.getByRole("heading", { name: "Restart this job?" }).waitFor();
    await look("restart");
    await page.getByRole("button", { name: "Restart" }).click();
    await page.waitForURL(`${server.url}/admin/jobs/two`);
    await expect
      .poll(async () => await server.service.get(JOBS).get("two"))
      .toMatchObject({ status: "awaiting", held: null, open_questions: 1 });

    await page.goto(`${server.url}/admin/jobs`);
    await look("jobs");
    for (const id of ["one", "two"])
      expect(await server.service.get(JOBS).get(id)).toMatchObject({ agent_version: "2.0.0" });
    expect(complaints).toEqual([]);
  },
  180_000,
);

it("held jobs have a status of their own, are listed on the dashboard, and their questions say that answers wait", async () => {
  const server = await startWithHeldJobs(["one", "two"]);
  const list = async (query: string) =>
    ((await (await server.request(`/admin/api/jobs?${query}`)).json()) as { total: number }).total;
  expect([await list("status=held"), await list("status=awaiting"), await list("")]).toEqual([2, 0, 2]);
  expect(await list("status=held&stop_reason=code_changed")).toBe(2);
  expect(await list("status=held&stop_reason=crash_loop")).toBe(0);

  const page = async (path: string, init: object = {}) =>
    (await server.request(path, { headers: { accept: "text/html" }, ...init })).text();
  const jobs = await page("/admin/jobs");
  expect(jobs).toMatch(/status=held"[^>]*>\s*Held\s*<span[^>]*>2</);
  expect(jobs).toMatch(/status=awaiting"[^>]*>\s*Waiting\s*<span[^>]*>0</);
  expect(jobs).toContain('<span class="st st-held">Held</span>');

  const dashboard = await page("/admin/");
  expect(dashboard).toContain("2 jobs of payer are held: the code changed.");
  expect(dashboard).toContain("/admin/jobs?status=held&amp;stop_reason=code_changed&amp;agent_name=payer");
  expect(dashboard).not.toContain("Nothing needs you.");

  const inbox = await page("/admin/inbox");
  expect(inbox).toContain("job held");
  expect(inbox).toContain("an answer is stored, and waits as well");
  const { items } = (await (await server.request("/admin/api/inbox")).json()) as {
    items: { case_id: string; question: { id: string } }[];
  };
  const { key } = await server.service.get(ACCESS).add({ name: "asked", role: "answerer" }, { kind: "key" });
  await server.request(`/admin/api/cases/${items[1]!.case_id}/assign`, { json: { to: "asked" } });
  // Who sees questions only reads the same.
  for (const [at, who] of [server.key, key].entries()) {
    const { case_id, question } = items[at]!;
    const response = await server.request(`/admin/cases/${case_id}/answer`, {
      method: "POST",
      redirect: "manual",
      headers: {
        "content-type": "application/x-www-form-urlencoded",
        origin: server.url,
        accept: "text/html",
        "hx-request": "true",
        "hx-target": "ask",
        "x-api-key": who,
      },
      body: new URLSearchParams({ "f.yes": "true", question_id: question.id }).toString(),
    });
    expect(await response.text()).toContain("it waits until somebody decides about the job");
  }
});
