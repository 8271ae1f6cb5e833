// @long
import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { shareOf } from "../_share.ts";
import { DESKTOP, launch, signIn, visit } from "./_browser.ts";

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
        await job.step("classify", () => said, { kind: "model", input, cost: 2 });
        if (fields.order === "lost") throw new Error("connect ECONNREFUSED 10.0.0.9:443");
        if (fields.order === "endless")
          await job.step("wait", () => new Promise((resolve) => signal.addEventListener("abort", resolve)));
        const questions = Number(/^asks-(\d+)$/.exec(String(fields.order))?.[1] ?? 0);
        if (questions === 0) return { message: "sent" };
        const ask = async (at: number) => {
          const item = await job.openCase({ id: `${job.id}-${at}`, name: `Order ${at}` });
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

const IMAGES = new URL("../../docs/images/", import.meta.url);

const chromium = requirement("chromium");
let browser: Browser;
let server: TestServer;
beforeAll(async () => {
  if (!chromium.met) return;
  [browser, server] = await Promise.all([launch(), testServer({ agents: [desk] })]);
});
afterAll(async () => {
  await browser?.close();
  await server?.[Symbol.asyncDispose]();
});

async function start(id: string, order: string, status: string): Promise<void> {
  const job_context = { job_id: id, mission_name: id };
  await server.request("/agents/desk/jobs", { json: { job_context, job_fields: { order } } });
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
        await one.press(one.link("Jobs").last());
        await one.press(one.page.getByText("More filters"));
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
  ];
}

/** The pictures of the readme and of docs/admin.md: pages, and how wide the window is. */
const PICTURES = {
  dashboard: ["", 1360],
  job: ["jobs/mouse-lost", 1360],
  inbox: ["inbox", 1360],
  failures: ["failures", 1360],
  compare: ["jobs/mouse-lost/compare?with=mouse-sent", 1360],
  agent: ["agents/desk", 1360],
  phone: ["jobs/mouse-asks", 390],
} as const;

chromium.it("the pictures of the documentation are pages of the admin interface, and small", async () => {
  const docs = ["../../README.md", "../../docs/admin.md"].map((path) =>
    readFileSync(new URL(path, import.meta.url), "utf8"),
  );
  const files = Object.keys(PICTURES).map((name) => `admin-${name}.png`);
  // They have times in them, so they are not compared: `SVC_UPDATE_DOCS=1` takes them again.
  if (process.env.SVC_UPDATE_DOCS === "1") {
    await startAll("mouse", 4);
    const { page, context } = await visit(browser, server.url, DESKTOP);
    await signIn(page, server.url, server.key);
    for (const [name, [path, width]] of Object.entries(PICTURES)) {
      await page.setViewportSize({ width, height: 850 });
      await page.goto(`${server.url}/admin/${path}`);
      await page.screenshot({ path: fileURLToPath(new URL(`admin-${name}.png`, IMAGES)) });
    }
    await context.close();
  }

  for (const file of files) {
    expect([file, docs.some((text) => text.includes(`images/${file})`))]).toEqual([file, true]);
    expect([file, statSync(new URL(file, IMAGES)).size < 150_000]).toEqual([file, true]);
  }
});

/** Tasks of the first half: the last of them answer questions. */
const ASKED = 7;

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

const VARIANTS = ["mouse", "keyboard"].flatMap((how) => [
  { how, half: "first" },
  { how, half: "second" },
]);

for (const { how, half } of shareOf(VARIANTS, 4)) {
  chromium.it(
    `the ${half} half of an operator's tasks is done with the ${how}, with as many clicks as the documentation says`,
    async () => {
      const name = `${how}-${half}`;
      const all = tasksOf(name);
      const tasks = half === "first" ? all.slice(0, ASKED) : all.slice(ASKED);
      await startAll(name, half === "first" ? 21 : 0);
      const { page, context, complaints } = await visit(browser, server.url, DESKTOP);
      await signIn(page, server.url, server.key);
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
      expect(Object.values(clicks).every((count) => count <= 5)).toBe(true);
      expect(complaints).toEqual([]);
      await context.close();
    },
    240_000,
  );
}
