// @long
import { readFile } from "node:fs/promises";
import { type AgentDefinition, admin, defineAgent, defineChat } from "agent-control-service";
import { THREADS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import type { Browser, Locator, Page } from "playwright-core";
import * as v from "valibot";
import { afterAll, beforeAll, expect, vi } from "vitest";
import { requirement } from "../_require.ts";
import { DESKTOP, launch, signIn, type Visit, visit } from "./_browser.ts";

const DAY = 86_400_000;
const BULK = 1005;

/** What is read of a row in the browser. */
interface Row {
  querySelector(selector: string): { readonly textContent: string; readonly checked: boolean };
}

/** A bar of a chart. */
interface Label {
  readonly textContent: string;
  getAttribute(name: string): string | null;
}

/** Noon of the 20th: whole days of the month are over, and others are to come. */
const END = Date.UTC(2030, 3, 20, 12);

let release = () => {};
const hanging = new Promise<void>((resolve) => {
  release = resolve;
});

const ask = { fields: v.object({ approved: v.boolean() }) };
/** Does what an order says. */
const desk: AgentDefinition = defineAgent({
  name: "Desk",
  version: "3.1.0",
  instructions: { stop_on_error: false },
  methods: {
    job_start: {
      fields: v.object({ does: v.string(), customer: v.optional(v.string()), day: v.optional(v.string()) }),
      async run({ job, fields: { does, customer, day } }) {
        for (const n of [1, 2, 3]) await job.step(`poll ${n}`, () => n);
        if (customer) await job.tag(`customer:${customer}`);
        if (does === "sleep") await job.sleep("8h");
        if (does === "wait") await job.waitFor("payment");
        if (does === "hang") await job.step("poll 4", () => hanging);
        if (does.startsWith("fail")) throw new Error(does === "fail" ? "connect ECONNREFUSED" : "no price");
        if (does === "spend") {
          const said = { model: "gpt-5-mini", choices: [{ message: { role: "assistant", content: "So." } }] };
          const usage = { prompt_tokens: 120, completion_tokens: 30 };
          await job.model("classify", { model: "gpt-5-mini" }, () => ({ ...said, usage }), { cost: () => 3 });
        }
        if (does === "partly")
          for (const at of [1, 2, 3, 4, 5]) {
            const item = await job.openCase({ id: `${job.id}-${at}`, name: `Row ${at}` });
            await (at <= 2 ? item.fail("no match") : item.close());
          }
        if (does === "export" || does === "export badly")
          for (const name of [`Orders of ${day}`, "Totals", `Returns of ${day}`]) {
            const item = await job.openCase({ id: `${job.id}-${name.length}`, name });
            const isBad = does === "export badly" && name.startsWith("Returns");
            await item.step("send", () => (isBad ? "lost" : "sent"));
            await item.close();
          }
        if (does === "refund")
          await Promise.all(
            REFUNDS.map(async (options, at) => {
              const item = await job.openCase({ id: `refund-${at}`, name: `Order HL-${at}` });
              await item.ask("refund", { question: "Refund 60 EUR?", ...ask, ...options });
            }),
          );
        return "done";
      },
    },
  },
});
/** Questions of one kind: three are the same, and each other differs in something. */
const REFUNDS: readonly object[] = [
  ...[{}, {}, {}, { question: "Refund 4,000 EUR?" }, { assignTo: "finance" }, { approvers: 2 }],
];
const spenders = [
  ["Dear", 0.02],
  ["Cheap", 0.001],
].map(([name, cost]) =>
  defineAgent({
    name: String(name),
    version: "1.0.0",
    methods: {
      job_start: { run: ({ job }) => job.step("call", () => 1, { kind: "model", cost: Number(cost) }) },
    },
  }),
);
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });

const chromium = requirement("chromium");
let browser: Browser;
let server: TestServer;
let person: Visit;
let now = END - 6 * DAY;

const start = (id: string, json: object, agent = "desk") =>
  server.request(`/agents/${agent}/jobs`, {
    json: { job_context: { job_id: id, started_by: "ada" }, ...json },
  });
const jobsOf = async (query: string) =>
  (await (await server.request(`/admin/api/jobs?${query}`)).json()) as { items: object[]; total: number };
async function settled(id: string, state: string): Promise<void> {
  const read = async () => {
    const { items } = await jobsOf(`search=${id}`);
    expect(items).toContainEqual(expect.objectContaining({ id, state }));
  };
  await vi.waitFor(read, { timeout: 60_000 });
}
async function run(id: string, does: string, state: string, more: object = {}): Promise<void> {
  await start(id, { job_fields: { does, ...more } });
  await settled(id, state);
}

beforeAll(async () => {
  if (!chromium.met) return;
  const began = Date.now();
  [browser, server] = await Promise.all([
    launch(),
    testServer({
      agents: [desk, ...spenders, talker],
      plugins: [admin({ currency: "€" })],
      suspendAfter: "10ms",
      maxConcurrentJobs: 100,
      clock: () => new Date(now + Date.now() - began),
    }),
  ]);
  for (const at of [1, 2, 3, 4, 5]) await run(`old-${at}`, "fail", "failed");
  await run("spent-then", "spend", "completed");
  now = END - DAY;
  await run("spent-again", "spend", "completed");
  now = END;
  for (const at of [1, 2, 3]) await run(`new-${at}`, at === 3 ? "fail otherwise" : "fail", "failed");
  await run("sleeps", "sleep", "sleeping");
  await run("waits", "wait", "waiting_for_event");
  await server.service.get(THREADS).start("talker", { message: "hello" }, { id: "thread" });
  await run("partly", "partly", "completed");
  await run("good", "export", "completed", { day: "2030-04-19" });
  await run("bad", "export badly", "completed", { day: "2030-04-20" });
  await run("order-77", "nothing", "completed", { customer: "Łódź Lamps" });
  await run("refunds", "refund", "waiting_for_answer");
  for (let at = 0; at < BULK; at += 15)
    await Promise.all(Array.from({ length: 15 }, (_, one) => start(`dear-${at + one}`, {}, "dear")));
  for (const at of [1, 2, 3]) await start(`cheap-${at}`, {}, "cheap");
  const read = async () => (await jobsOf("status=completed&limit=1")).total;
  await vi.waitFor(async () => expect(await read()).toBe(BULK + 3 + 6), { timeout: 60_000 });
  await run("hangs", "hang", "running");
  now = END + DAY / 8;
  await settled("hangs", "stuck");
  person = await visit(browser, server.url, DESKTOP);
  await signIn(person.page, server.url, server.key);
}, 240_000);
afterAll(async () => {
  release();
  await browser?.close();
  await server?.[Symbol.asyncDispose]();
});

/** How a person finds what they look for. */
class Desk {
  readonly page: Page;
  constructor(page: Page) {
    this.page = page;
  }
  open(path: string) {
    return this.page.goto(`${server.url}/admin/${path}`);
  }
  link(name: string | RegExp): Locator {
    return this.page.getByRole("main").getByRole("link", { name }).first();
  }
  button(name: string | RegExp): Locator {
    return this.page.getByRole("main").getByRole("button", { name }).first();
  }
  panel(title: string | RegExp): Locator {
    return this.page.locator("section.panel", { has: this.page.getByRole("heading", { name: title }) });
  }
  rows(): Promise<string[]> {
    return this.page
      .locator("#results tr[data-id]")
      .evaluateAll((rows) =>
        (rows as unknown as { dataset: { id: string } }[]).map(({ dataset }) => dataset.id).sort(),
      );
  }
  /** Presses a tab of a list; gives its number. */
  async tab(name: string): Promise<number> {
    const tab = this.page.locator("#tabs a", { hasText: name });
    const count = Number(await tab.locator(".count").textContent());
    await tab.click();
    await this.page.locator("#tabs a[aria-current]", { hasText: name }).waitFor();
    return count;
  }
  /** Presses a link to a download; gives its lines. */
  async download(link: Locator): Promise<{ mark: number[]; columns: string[]; lines: string[] }> {
    const [download] = await Promise.all([this.page.waitForEvent("download"), link.click()]);
    const bytes = await readFile(await download.path());
    const [columns = "", ...lines] = bytes.subarray(3).toString().trim().split("\r\n");
    return { mark: [...bytes.subarray(0, 3)], columns: columns.split(","), lines };
  }
}
/** The byte order mark of UTF-8, without which spreadsheets take another encoding. */
const MARK = [0xef, 0xbb, 0xbf];

const SEEN: readonly (readonly [title: string, look: (desk: Desk) => Promise<void>])[] = [
  [
    "a list tells jobs that sleep, wait, chat and are stuck apart",
    async (desk) => {
      for (const [tab, label, ids] of [
        ["Sleeping", "Sleeping", ["sleeps"]],
        ["Waiting for an event", "Waiting for an event", ["waits"]],
        ["Chat", "Chat", ["thread"]],
        ["Stuck", "Stuck", ["hangs"]],
      ] as const) {
        await desk.open("jobs");
        expect([tab, await desk.tab(tab), await desk.rows()]).toEqual([tab, ids.length, ids]);
        expect(await desk.page.locator("#results td.state").allTextContents()).toEqual([label]);
      }
    },
  ],
  [
    "the dashboard names the job that is stuck, and leads to it",
    async (desk) => {
      await desk.open("");
      await desk.page.locator(".needs li", { hasText: "Stuck" }).getByRole("link").click();
      await desk.page.waitForURL(/status=stuck|\/jobs\/hangs/);
      await desk.page.getByRole("main").filter({ hasText: "hangs" }).waitFor();
    },
  ],
  [
    "the failures of a chosen time have its figures, also where they lead",
    async (desk) => {
      for (const [range, count, reasons] of [
        ["7 days", 8, ["7", "1"]],
        ["24 hours", 3, ["2", "1"]],
      ] as const) {
        await desk.open("");
        await desk.link(range).click();
        const panel = desk.panel(`Failures, last ${range}`);
        await panel.waitFor();
        expect([range, await panel.locator("header .count").textContent()]).toEqual([range, String(count)]);
        expect(await panel.locator(".groups .big").allTextContents()).toEqual(reasons);
        await panel.getByRole("link", { name: "By reason" }).click();
        await desk.page.getByText(`${count} failed jobs, 2 reasons.`).waitFor();
        expect(await desk.page.locator("#failures .big").allTextContents()).toEqual(reasons);
      }
    },
  ],
  [
    "the cost by agent is that of all its jobs, however many there are",
    async (desk) => {
      await desk.open("?range=30d");
      const meters = await desk.panel("Cost by agent").locator(".meter").allTextContents();
      expect(meters.map((text) => text.replace(/\s+/g, " ").trim())).toEqual([
        `dear€20.10 · ${BULK.toLocaleString("en-US")} jobs started`,
        expect.stringMatching(/^desk€6\.00 · \d+ jobs started$/),
        "cheap€0.003 · 3 jobs started",
      ]);
    },
  ],
  [
    "a completed job says in its row and on its page how many of its cases failed, and leads to them",
    async (desk) => {
      await desk.open("jobs?search=partly");
      await desk.link("2 of 5 cases failed").click();
      await desk.page.waitForURL(/\/admin\/cases\?/);
      expect(await desk.rows()).toEqual(["partly-1", "partly-2"]);
      await desk.open("jobs/partly");
      expect(await desk.page.locator(".verdict").first().textContent()).toContain("2 of 5 cases failed");
    },
  ],
  [
    "only questions that are the same are ticked to be answered together, and others say in what they differ",
    async (desk) => {
      await desk.open("inbox?question=refund-0");
      await desk.link("Answer all like this…").click();
      const picks = desk.page.locator(".picks li");
      await picks.first().waitFor();
      const shown = await picks.evaluateAll((items) =>
        (items as unknown as Row[]).map((item) => [
          item.querySelector(".sub bdi").textContent,
          item.querySelector("input").checked,
          item.querySelector(".warn").textContent,
        ]),
      );
      expect(shown.sort()).toEqual([
        ["Order HL-0", true, ""],
        ["Order HL-1", true, ""],
        ["Order HL-2", true, ""],
        ["Order HL-3", false, "asks something else"],
        ["Order HL-4", false, "for finance"],
        ["Order HL-5", false, "needs 2 people"],
      ]);
      await picks.filter({ hasText: "Order HL-5" }).getByRole("checkbox").check();
      await desk.page.getByLabel("Yes").check();
      await desk.button("Answer the ticked ones").click();
      await desk.page.getByText("3 questions answered. 1 question needs a further person.").waitFor();
      const left = await desk.page.locator(".asks li").allTextContents();
      expect(left.map((text) => /HL-\d/.exec(text)?.[0]).sort()).toEqual(["HL-3", "HL-4", "HL-5"]);
    },
  ],
  [
    "a job is found by a word of its input, by its tag and by who started it",
    async (desk) => {
      await desk.open("jobs");
      await desk.page.locator("#search").fill("Łódź");
      await expect.poll(() => desk.rows()).toEqual(["order-77"]);
      await desk.link("customer:Łódź Lamps").click();
      await desk.page.locator("#results .chip", { hasText: "customer:Łódź Lamps" }).waitFor();
      expect(await desk.rows()).toEqual(["order-77"]);
      await desk.open("jobs?search=order-77&started_by=ada");
      expect(await desk.rows()).toEqual(["order-77"]);
      await desk.open("jobs?search=order-77&started_by=ben");
      expect(await desk.rows()).toEqual([]);
      await desk.page.keyboard.press("Control+k");
      await desk.page.locator("#find").fill("lamps");
      await desk.page.getByRole("option", { name: /^Tag customer:Łódź Lamps/ }).click();
      await desk.page.locator("#row-order-77").waitFor();
    },
  ],
  [
    "two nights of one export are compared case by case, though the day is in their names",
    async (desk) => {
      await desk.open("jobs/bad");
      await desk.page.locator("details.menu > summary").click();
      await desk.link("Compare…").click();
      await desk.page.locator("tr", { hasText: "good" }).getByRole("link").click();
      const panel = desk.panel("What differs");
      await panel.waitFor();
      expect(await panel.locator("header .count").textContent()).toBe("1");
      expect(await panel.locator("tbody th").allTextContents()).toEqual([
        expect.stringMatching(/send\s+Returns of 2030-04-20/),
      ]);
      expect(await desk.page.getByText("Not in this job.").count()).toBe(0);
    },
  ],
  [
    "lists are downloaded as files that a spreadsheet opens, with what a bill needs",
    async (desk) => {
      const started = ["tags", "started_by", "currency"];
      for (const [path, link, columns, line] of [
        ["jobs?search=order-77", "CSV", started, /customer:Łódź Lamps,ada,€$/],
        ["cases?search=Returns", "CSV", ["total_cost", "currency"], /Returns of 2030-04-20.*,€$/],
        [
          "models",
          "CSV",
          ["input_tokens", "output_tokens", "cost", "currency"],
          /gpt-5-mini,1,0,120,30,.*,3,€$/,
        ],
        ["audit", "CSV", ["action"], /session/],
      ] as const) {
        await desk.open(path);
        const file = await desk.download(desk.link(link));
        expect([path, file.mark]).toEqual([path, MARK]);
        expect(file.columns).toEqual(expect.arrayContaining([...columns]));
        expect([path, file.lines.some((one) => line.test(one))]).toEqual([path, true]);
      }
    },
  ],
  [
    "the dashboard says what this month costs and will cost, and the page of models shows its days",
    async (desk) => {
      await desk.open("");
      // Of 19 whole days two cost 3; of this one the day is not over.
      const text = (await desk.page.getByText(/this month, about/).textContent()) ?? "";
      const [, month, whole] = /€([\d.]+) this month, about €([\d.]+) by its end/.exec(text) ?? [];
      expect(Number(month)).toBeCloseTo(26.1, 2);
      expect(Number(whole)).toBeGreaterThan(Number(month));
      await desk.open("models");
      const bars = desk.panel("Cost by day, UTC").locator("svg [aria-label], svg title");
      const labels = await bars.evaluateAll((all) =>
        (all as unknown as Label[]).map((one) => one.getAttribute("aria-label") ?? one.textContent),
      );
      for (const day of ["2030-04-14", "2030-04-19"])
        expect(labels.filter((label) => label?.includes(day) && label.includes("3"))).not.toEqual([]);
    },
  ],
  [
    "a reason of failures shows when it failed, what is new, and is quiet once it is resolved",
    async (desk) => {
      await desk.open("");
      const mark = desk.page.locator(".nav a[href='/admin/failures'] .count");
      expect(await mark.textContent()).toBe("3");
      await desk.page.locator(".nav a[href='/admin/failures']").click();
      const steady = desk.page.locator("#failures li", { hasText: "ECONNREFUSED" });
      const fresh = desk.page.locator("#failures li", { hasText: "no price" });
      expect(await steady.getByRole("img").getAttribute("aria-label")).toMatch(/^Over the last 30 days/);
      expect(await fresh.locator(".st").textContent()).toBe("New");
      await fresh.getByRole("button", { name: "Resolve" }).click();
      await desk.page.getByText("1 reason resolved or muted").waitFor();
      expect(await fresh.isVisible()).toBe(false);
      expect(await mark.textContent()).toBe("2");
    },
  ],
  [
    "an action on all jobs above a cost takes exactly those, by page and by program",
    async (desk) => {
      await desk.open("jobs?min_cost=1");
      expect(await desk.rows()).toEqual(["spent-again", "spent-then"]);
      await desk.page.getByLabel("all 2 that match").check();
      await desk.button("Delete…").click();
      await desk.page.getByRole("heading", { name: "Delete 2 jobs" }).waitFor();
      const json = JSON.stringify({ kind: "jobs", action: "delete", filter: { min_cost: 1 } });
      const send = `fetch("/admin/api/bulk", { method: "POST", headers: { "content-type": "application/json" }, body: ${JSON.stringify(json)} })`;
      expect(await desk.page.evaluate(`${send}.then((response) => response.json())`)).toMatchObject({
        ...{ count: 2, left_out: 0, sample: expect.arrayContaining(["spent-again", "spent-then"]) },
      });
    },
  ],
];

for (const [title, look] of SEEN)
  chromium.it(title, async () => {
    await look(new Desk(person.page));
    expect(person.complaints.splice(0)).toEqual([]);
  });
