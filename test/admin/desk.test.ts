// @long
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type AgentDefinition, defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, vi } from "vitest";
import { fillDesk } from "../../bench/desk/seed.ts";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { DESKTOP, launch, PHONE, signIn, visit } from "./_browser.ts";

/** What an operator does at night: fails, asks, runs away, talks to a model. */
const desk = defineAgent({
  name: "Desk",
  version: "2.1.0",
  parameters: [{ name: "TOKEN", is_secret: true }],
  methods: {
    job_start: {
      fields: [{ name: "order", required: true }],
      async run({ job, fields, log, signal }) {
        log.info("order received", { order: String(fields.order) });
        const said = { choices: [{ message: { role: "assistant", content: "A damaged lamp." } }] };
        const input = { messages: [{ role: "user", content: "What arrived?" }] };
        await job.step("search", () => ({ found: "a lamp" }), {
          kind: "tool",
          input: { order: fields.order },
        });
        await job.step("classify", () => said, { kind: "model", input, cost: 2 });
        if (fields.order === "lost") throw new Error("connect ECONNREFUSED 10.0.0.9:443");
        if (fields.order === "endless")
          await job.step("wait", () => new Promise((resolve) => signal.addEventListener("abort", resolve)));
        const questions = Number(/^asks-(\d+)$/.exec(String(fields.order))?.[1] ?? 0);
        if (questions === 0) return { message: "sent" };
        const ask = async (at: number) => {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Order ${at} of ${job.id}` });
          await item.ask("refund", {
            question: "Refund this order?",
            fields: [{ name: "approved", field_type: "BooleanField", required: true }],
          });
        };
        await Promise.all(Array.from({ length: questions }, (_, at) => ask(at + 1)));
        return { message: "asked" };
      },
    },
  },
});

/** An agent whose jobs wait for an answer; other code than that of its jobs holds them. */
function keeper(how: string, step: string): AgentDefinition {
  return defineAgent({
    name: `Keeper ${how}`,
    version: step,
    methods: {
      job_start: {
        fields: [],
        async run({ job }) {
          await job.step(step, () => 1);
          const item = await job.openCase({ id: job.id, name: "Parcel" });
          return await item.ask("send", {
            question: "Send it?",
            fields: [{ name: "yes", field_type: "BooleanField", required: true }],
          });
        },
      },
    },
  });
}

/** A service that was started with new code over two open jobs of each keeper. */
async function startServer(): Promise<TestServer> {
  const dataDir = mkdtempSync(join(tmpdir(), "svc-desk-"));
  removeFolder = () => rmSync(dataDir, { recursive: true, force: true });
  const agents = (step: string) => [desk, ...HOWS.map((how) => keeper(how, step))];
  const options = { store: undefined, dataDir, shutdownGrace: 0 };
  {
    await using before = await testServer({ ...options, agents: agents("pack") });
    for (const how of HOWS)
      for (const at of [1, 2])
        await before.request(`/agents/keeper-${how}/jobs`, {
          json: { job_context: { job_id: `${how}-kept-${at}` } },
        });
    await waitForFour(before, "awaiting");
  }
  const schedules = [{ id: "nightly", cron: "0 3 * * *", agent: desk, fields: { order: "nightly" } }];
  const after = await testServer({ ...options, agents: agents("wrap"), schedules });
  await waitForFour(after, "held");
  return after;
}

async function waitForFour(server: TestServer, status: string): Promise<void> {
  const count = async () =>
    ((await (await server.request(`/admin/api/jobs?status=${status}`)).json()) as { total: number }).total;
  await vi.waitFor(async () => expect(await count()).toBe(4), { timeout: 60_000 });
}

const HOWS = ["mouse", "keyboard"] as const;
const IMAGES = new URL("../../docs/images/", import.meta.url);

const chromium = requirement("chromium");
let browser: Browser;
/** The service of a test: without held jobs, or with them. */
let server: TestServer;
let plain: TestServer;
let holding: TestServer;
let removeFolder: (() => void) | undefined;
beforeAll(async () => {
  if (!chromium.met) return;
  [browser, plain, holding] = await Promise.all([launch(), testServer({ agents: [desk] }), startServer()]);
  server = plain;
});
afterAll(async () => {
  await browser?.close();
  await plain?.[Symbol.asyncDispose]();
  await holding?.[Symbol.asyncDispose]();
  removeFolder?.();
});

async function start(id: string, order: string, status: string): Promise<void> {
  const job_context = { job_id: id, mission_name: id };
  const tags = [`customer:of-${id}`];
  await server.request("/agents/desk/jobs", { json: { job_context, job_fields: { order }, tags } });
  await expect
    .poll(async () => (await server.request(`/admin/api/jobs/${id}`)).json())
    .toMatchObject({ status });
}

/** A person at the desk, with a mouse or with a keyboard alone. */
class Person {
  clicks = 0;
  readonly page: Page;
  readonly #hasMouse: boolean;

  constructor(page: Page, how: string) {
    this.page = page;
    this.#hasMouse = how === "mouse";
  }

  /** A click, or Tab until it has the focus and then the key that presses it. */
  async press(target: Locator): Promise<void> {
    this.clicks++;
    if (this.#hasMouse) return target.click();
    await target.waitFor();
    const type = await target.getAttribute("type");
    if (type !== "radio") {
      await this.#tabTo(target);
      return this.page.keyboard.press(type === "checkbox" ? "Space" : "Enter");
    }
    // Tab reaches a group of choices, the arrows select one.
    const group = this.page.getByRole("radiogroup").filter({ has: target });
    await this.#tabTo(group.getByRole("radio").first());
    await this.page.keyboard.press("Space");
    for (let at = 0; at < 5 && !(await target.isChecked()); at++) await this.page.keyboard.press("ArrowDown");
  }

  async type(target: Locator, text: string): Promise<void> {
    this.clicks++;
    if (this.#hasMouse) await target.click();
    else await this.#tabTo(target);
    await target.fill(text);
  }

  /** The first that is found for a text in the palette. */
  async choose(option: RegExp): Promise<void> {
    this.clicks++;
    const target = this.page.getByRole("option", { name: option }).first();
    await target.waitFor();
    if (this.#hasMouse) return target.click();
    for (let at = 0; at < 20 && (await target.getAttribute("aria-selected")) !== "true"; at++)
      await this.page.keyboard.press("ArrowDown");
    await this.page.keyboard.press("Enter");
  }

  link(name: string | RegExp): Locator {
    return this.page.getByRole("link", { name, exact: typeof name === "string" }).first();
  }

  nav(name: string): Locator {
    return this.page.getByRole("navigation", { name: "Admin" }).getByRole("link", { name });
  }

  button(name: string | RegExp): Locator {
    return this.page.getByRole("button", { name }).first();
  }

  async #tabTo(target: Locator): Promise<void> {
    const { keyboard } = this.page;
    const isFresh = await this.page.locator("body").evaluate(hasFocus);
    if (isFresh && (await this.page.getByRole("main").filter({ has: target }).count()) > 0) {
      // The first stop of each page skips its navigation.
      await keyboard.press("Tab");
      await keyboard.press("Enter");
    }
    for (let at = 0; at < 200; at++) {
      if (await target.evaluate(hasFocus)) return;
      await keyboard.press("Tab");
    }
    throw new Error(`The keyboard does not reach ${target}`);
  }
}

function hasFocus(element: object): boolean {
  return (element as { ownerDocument: { activeElement: unknown } }).ownerDocument.activeElement === element;
}

interface Task {
  readonly name: string;
  readonly run: (person: Person) => Promise<void>;
}

/** The tasks of docs/admin.md, each from the dashboard to the moment at which it is done. */
function tasksOf(how: string): Task[] {
  return [
    {
      name: "See why a job failed",
      run: async (one) => {
        await one.press(one.link(`${how}-lost`));
        await one.page.locator(".verdict.bad", { hasText: "ECONNREFUSED" }).waitFor();
      },
    },
    {
      name: "See what the model was asked and what it said",
      run: async (one) => {
        await one.press(one.link(`${how}-lost`));
        await one.press(one.link("classify"));
        await one.page.locator("#step", { hasText: "What arrived?" }).waitFor();
      },
    },
    {
      name: "Share a link to a step",
      run: async (one) => {
        await one.press(one.link(`${how}-lost`));
        await one.press(one.link("classify"));
        await one.page.waitForURL(/\?step=\d/);
        const shared = await one.page.context().newPage();
        await shared.goto(one.page.url());
        await shared.locator("#step", { hasText: "A damaged lamp." }).waitFor();
        await shared.close();
      },
    },
    {
      name: "Compare two jobs",
      run: async (one) => {
        await one.press(one.link(`${how}-lost`));
        await one.press(one.page.locator("details.menu > summary"));
        await one.press(one.link("Compare…"));
        await one.press(one.link(`${how}-sent`));
        await one.page.getByRole("heading", { name: "What differs" }).waitFor();
      },
    },
    {
      name: "Follow the log of a job",
      run: async (one) => {
        await one.press(one.link(`${how}-endless`));
        await one.press(one.link("Log"));
        await one.page.locator("#job-log", { hasText: "order=endless" }).waitFor();
      },
    },
    {
      name: "Answer a question with a form",
      run: async (one) => {
        await one.press(one.nav("Inbox"));
        await one.press(one.page.getByLabel("Yes").first());
        await one.press(one.button("Answer"));
        await one.page
          .getByText(/^Answered/)
          .first()
          .waitFor();
      },
    },
    {
      name: "Answer twenty similar questions",
      run: async (one) => {
        await one.press(one.nav("Inbox"));
        await one.press(one.link("Answer all like this…"));
        await one.press(one.page.getByLabel("No"));
        await one.press(one.button("Answer the ticked ones"));
        await one.page.getByText("20 questions answered.").waitFor();
      },
    },
    {
      name: "Retry all jobs that failed for one reason",
      run: async (one) => {
        await one.press(one.link("By reason"));
        await one.press(one.button("Retry these…"));
        await one.press(one.button(/^Retry \d+ jobs?$/));
        await one.page.getByText(/failed again/).waitFor();
      },
    },
    {
      name: "Stop a runaway job",
      run: async (one) => {
        await one.press(one.link(`${how}-endless`));
        await one.press(one.link("Stop"));
        await one.press(one.page.getByRole("dialog").getByRole("button", { name: /^Stop/ }));
        await one.page.getByText(/^(The job was asked to stop|The job is cancelled)/).waitFor();
      },
    },
    {
      name: "Find the jobs of an agent above a cost, since a day",
      run: async (one) => {
        await one.press(one.nav("Agents"));
        await one.press(one.page.getByRole("main").getByRole("link", { name: "Jobs" }).first());
        await one.type(one.page.getByLabel("Created from"), "2026-01-01");
        await one.page.waitForURL(/since=2026-01-01/);
        await one.page.locator("#results .chip", { hasText: "2026-01-01" }).waitFor();
        await one.type(one.page.getByLabel("Cost from"), "1");
        await one.page.keyboard.press("Enter");
        await one.page.waitForURL(/min_cost=1/);
        await one.page
          .getByText(/of \d+ jobs/)
          .first()
          .waitFor();
      },
    },
    {
      name: "Start a job with its form",
      run: async (one) => {
        await one.press(one.nav("Agents"));
        await one.press(one.link("Start a job"));
        await one.type(one.page.getByLabel("Order"), "new");
        await one.press(one.button("Start"));
        await one.page.waitForURL(/\/admin\/jobs\/[\w-]+$/);
      },
    },
    {
      name: "Change a parameter of an agent",
      run: async (one) => {
        await one.press(one.nav("Agents"));
        await one.press(one.link("Desk"));
        await one.type(one.page.getByLabel("TOKEN"), `secret-of-${how}`);
        await one.press(one.button("Save parameters"));
        await one.page.getByText("Changed: TOKEN.").waitFor();
      },
    },
    {
      name: "See which version of an agent runs",
      run: async (one) => {
        await one.press(one.nav("Agents"));
        await one.page.getByText("v2.1.0").waitFor();
      },
    },
    {
      name: "Download the jobs of a list as CSV",
      run: async (one) => {
        await one.press(one.nav("Jobs"));
        const [download] = await Promise.all([one.page.waitForEvent("download"), one.press(one.link("CSV"))]);
        expect(download.suggestedFilename()).toBe("jobs.csv");
      },
    },
    {
      name: "See whether a failure still happens",
      run: async (one) => {
        await one.press(one.nav("Failures"));
        await one.page
          .getByRole("img", { name: /^Over the last/ })
          .first()
          .waitFor();
      },
    },
    {
      name: "Find the jobs of a customer",
      run: async (one) => {
        await one.press(one.link(/^Find…/));
        await one.type(one.page.getByRole("combobox"), `of-${how}-sent`);
        await one.choose(/^Tag customer:of-/);
        await one.page.locator(`#row-${how}-sent time`).first().waitFor();
      },
    },
    {
      name: "See who answered a question",
      run: async (one) => {
        await one.press(one.nav("Cases"));
        await one.press(one.link(`Order 1 of ${how}-asks`));
        await one.page.locator(".facts", { hasText: /Answered by.*Ada/ }).waitFor();
      },
    },
    {
      name: "See what this month costs",
      run: async (one) => {
        await one.page
          .getByText(/this month/)
          .first()
          .waitFor();
      },
    },
    {
      name: "Pause an agent",
      run: async (one) => {
        await one.press(one.nav("Agents"));
        await one.press(one.link("Desk"));
        await one.press(one.button("Pause"));
        await one.page.getByText("The agent is paused: new jobs wait in line.").waitFor();
        await server.request("/admin/api/agents/desk/resume", { method: "POST" });
      },
    },
    {
      name: "See what runs, and what of it is dear",
      run: async (one) => {
        await one.press(one.link(/^\d+ running$/));
        await one.press(one.link("Cost"));
        await one.page.locator("th[aria-sort=descending]", { hasText: "Cost" }).waitFor();
        await one.page.locator(`#row-${how}-endless`, { hasText: "$2" }).waitFor();
      },
    },
    {
      name: "Tell a good run from a bad one",
      run: async (one) => {
        await one.press(one.link(`${how}-lost`));
        await one.press(one.page.locator("details.menu > summary"));
        await one.press(one.link("Compare…"));
        await one.press(one.link(`${how}-sent`));
        await one.page.getByRole("heading", { name: "What differs" }).waitFor();
      },
    },
    {
      name: "Continue the jobs that a deploy holds",
      run: async (one) => {
        const own = one.page.locator(".needs li", { hasText: `keeper-${how.split("-")[0]}` });
        await one.press(own.getByRole("link", { name: "Decide" }));
        await one.press(one.page.getByLabel("all 2 that match"));
        await one.press(one.button("Continue held…"));
        await one.press(one.button(/^Continue 2 jobs/));
        await one.page.getByText("2 of 2 done.").waitFor();
      },
    },
    {
      name: "Hand a question to somebody",
      run: async (one) => {
        await one.press(one.nav("Inbox"));
        await one.type(one.page.getByLabel("Assigned to"), "finance");
        await one.press(one.button("Assign"));
        await one.page.getByText("Assigned to finance.").waitFor();
      },
    },
    {
      name: "Read a conversation with its tools",
      run: async (one) => {
        await one.press(one.link(`${how}-lost`));
        await one.press(one.link(/^Model calls/));
        await one.page.getByText("A damaged lamp.").first().waitFor();
        await one.page.locator(".work", { hasText: "search" }).waitFor();
      },
    },
    {
      name: "See when a schedule runs next",
      run: async (one) => {
        await one.press(one.nav("Schedules"));
        await one.page
          .locator("tr", { hasText: "nightly" })
          .getByText(/^in \d+/)
          .waitFor();
      },
    },
    {
      name: "Retry a job on a phone",
      run: async (one) => {
        await one.page.setViewportSize(PHONE);
        await one.press(one.link(`${how}-lost`));
        await one.press(one.link("Retry"));
        await one.press(
          one.page.getByRole("dialog").getByRole("button", { name: "From the last successful step" }),
        );
        await one.page
          .getByText(/^The job (?:was|is|runs|starts)/)
          .first()
          .waitFor();
        await one.page.setViewportSize(DESKTOP);
      },
    },
  ];
}

/** The pictures of the readme and of docs/admin.md: pages of jobs in some states, and how wide the window is. */
const PICTURES = {
  dashboard: ["?range=30d", 1360],
  job: ["jobs/{failed}", 1360],
  inbox: ["inbox", 1360],
  failures: ["failures", 1360],
  compare: ["jobs/{failed}/compare?with={completed}", 1360],
  agent: ["agents/refund-desk", 1360],
  phone: ["jobs/{awaiting}", 390],
} as const;

/** Takes the pictures: of a desk with the jobs of thirty days. */
async function takePictures(): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), "svc-pictures-"));
  onTestFinished(() => rmSync(dataDir, { recursive: true, force: true }));
  await using desk = await fillDesk(dataDir, 1500);
  const { page, context } = await visit(browser, desk.server.url, DESKTOP);
  await page.clock.setFixedTime(desk.now());
  await signIn(page, desk.server.url, desk.server.key);
  const newest = async (status: string) => {
    const response = await desk.server.request(`/admin/api/jobs?status=${status}&limit=1`);
    return ((await response.json()) as { items: { id: string }[] }).items[0]!.id;
  };
  for (const [name, [path, width]] of Object.entries(PICTURES)) {
    let filled: string = path;
    for (const [place, status] of path.matchAll(/\{(\w+)\}/g))
      filled = filled.replace(place, await newest(status!));
    await page.setViewportSize({ width, height: 850 });
    await page.goto(`${desk.server.url}/admin/${filled}`);
    await page.screenshot({ path: fileURLToPath(new URL(`admin-${name}.png`, IMAGES)) });
  }
  await context.close();
}

chromium.it(
  "the pictures of the documentation are pages of the admin interface, and small",
  async () => {
    const docs = ["../../README.md", "../../docs/admin.md"].map((path) =>
      readFileSync(new URL(path, import.meta.url), "utf8"),
    );
    const files = Object.keys(PICTURES).map((name) => `admin-${name}.png`);
    // They have times in them, so they are not compared: `SVC_UPDATE_DOCS=1` takes them again. `pngquant --quality=75-95`
    // makes a third of their size.
    if (process.env.SVC_UPDATE_DOCS === "1") await takePictures();

    for (const file of files) {
      expect([file, docs.some((text) => text.includes(`images/${file})`))]).toEqual([file, true]);
      expect([file, statSync(new URL(file, IMAGES)).size < 60_000]).toEqual([file, true]);
    }
  },
  600_000,
);

/** Where the parts of the tasks begin: the last of the first one answer questions. */
const PARTS = { first: [0, 7], second: [7, 14], third: [14, 27] } as const;

async function startAll(how: string, questions: number): Promise<void> {
  await start(`${how}-lost`, "lost", "failed");
  await start(`${how}-sent`, "fine", "completed");
  if (questions > 0) await start(`${how}-asks`, `asks-${questions}`, "awaiting");
  await start(`${how}-endless`, "endless", "in_progress");
}

/** Clicks by task, as the documentation has them. */
function documented(): Record<string, number> {
  const text = readFileSync(new URL("../../docs/admin.md", import.meta.url), "utf8");
  const [, table = ""] = /## Tasks and clicks\n([\s\S]*?)(?=\n## )/.exec(text) ?? [];
  return Object.fromEntries(
    [...table.matchAll(/^\| ([A-Z][^|]*?) +\| +(\d+) +\|$/gm)].map(([, task, clicks]) => [
      task,
      Number(clicks),
    ]),
  );
}

const VARIANTS = HOWS.flatMap((how) =>
  (["first", "second", "third"] as const).map((part) => ({ how, part })),
);

for (const { how, part } of shareOf(VARIANTS, 6)) {
  chromium.it(
    `the ${part} part of an operator's tasks is done with the ${how}, with as many clicks as the documentation says`,
    async () => {
      const name = `${how}-${part}`;
      const all = tasksOf(name);
      server = part === "third" ? holding : plain;
      const tasks = all.slice(...PARTS[part]);
      await startAll(name, { first: 21, second: 0, third: 2 }[part]);
      const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
      await signIn(page, server.url, server.key);
      if (part === "third") {
        await page.goto(`${server.url}/admin/cases/${name}-asks-1`);
        await page.getByLabel("Yes").check();
        await page.getByRole("button", { name: "Answer" }).click();
        await page.getByText("Answered").first().waitFor();
      }
      const clicks: Record<string, number> = {};

      for (const { name, run } of tasks) {
        await page.goto(`${server.url}/admin/`);
        const person = new Person(page, how);
        await run(person);
        clicks[name] = person.clicks;
      }

      const named = documented();
      expect(Object.keys(named)).toEqual(all.map((task) => task.name));
      expect(clicks).toEqual(Object.fromEntries(tasks.map((task) => [task.name, named[task.name]])));
      expect(Object.values(clicks).every((count) => count <= 4)).toBe(true);
      expect(complaints).toEqual([]);
      await context.close();
    },
    240_000,
  );
}
