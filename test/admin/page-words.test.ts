import { hash } from "node:crypto";
import { defineAgent, defineChat, webhooks } from "agent-control-service";
import { THREADS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { changeOf } from "../../src/plugins/admin/audit/change.ts";
import { until } from "../runs/_jobs.ts";
import { seedJob } from "./_seed.ts";

const ERROR = `The file ${"x".repeat(400)} is missing`;
const SAID = { choices: [{ message: { role: "assistant", content: "**Damaged.** Refund it." } }] };

const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [{ name: "order", required: true }],
      async run({ job, fields }) {
        if (fields.order === "lost") throw new Error(ERROR);
        if (fields.order !== "asks") return "done";
        const item = await job.openCase({ id: "asking", name: "Order 7" });
        const usage = { prompt_tokens: 10, completion_tokens: 2 };
        await item.model("classify", { model: "m", messages: [] }, () => ({ ...SAID, usage }));
        await item.step("report", ({ file }) => file("report.csv", "a\n1\n"));
        return item.ask("refund", {
          question: "Refund it?",
          fields: [{ name: "yes", field_type: "BooleanField", required: true }],
          assignTo: "finance",
        });
      },
    },
  },
});

const talker = defineChat({
  name: "Talker",
  version: "1.0.0",
  reply: async () => "It was **shipped**:\n\n- by train <b>",
});

const key = `svck_test_finance_${"k".repeat(43)}`;
let server: TestServer;
beforeAll(async () => {
  const keys = [{ name: "finance", role: "answerer", sha256: hash("sha256", key, "hex") }] as const;
  server = await testServer({ agents: [worker, talker], access: { keys } });
  for (const [id, order, status] of [
    ["fine", "fine", "completed"],
    ["lost", "lost", "failed"],
    ["asks", "asks", "awaiting"],
  ] as const) {
    const job_context = { job_id: id, mission_name: id };
    await server.request("/agents/worker/jobs", { json: { job_context, job_fields: { order } } });
    await until(server.service, id, [status]);
  }
  await seedJob(server.service, { id: "queued", agent: "worker" });
  await seedJob(server.service, { id: "short", agent: "worker", status: "failed", error: "It is\ngone" });
  const threads = server.service.get(THREADS);
  await threads.start("talker", { message: "Where is it?" }, { id: "thread" });
  await threads.say("thread", "And the other one?");
  await vi.waitFor(async () => expect(await page("jobs/thread/chat")).toContain("shipped"), {
    timeout: 60_000,
  });
});
afterAll(() => server[Symbol.asyncDispose]());

const page = async (path: string, as = server.key) =>
  (await server.request(`/admin/${path}`, { key: as, headers: { accept: "text/html" } })).text();
/** The text of a page, without its tags. */
const wordsOf = (html: string) => html.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");

describe("figures", () => {
  it("a success rate is of the jobs that ended: one that waits is no failure", async () => {
    expect(wordsOf(await page("agents/worker"))).toMatch(/Success rate 33.3% of ended jobs/);
    expect(wordsOf(await page("agents"))).toMatch(/Success rate 33.3%/);
  });

  it("the forecast from one job says what that job was like, and nothing of a distribution", async () => {
    const words = wordsOf(await page("agents/worker/start"));

    expect(words).toMatch(/The last job took \d+ m?s and cost \$0\. /);
    expect(words).not.toContain("one in twenty");
  });

  it("what there is one of has no plural", async () => {
    await server.request("/admin/api/agents/worker/pause", { method: "POST" });
    expect(wordsOf(await page("audit"))).toContain(" 1 line in total");
    await server.request("/admin/api/agents/worker/resume", { method: "POST" });
    expect(wordsOf(await page("audit"))).toContain(" 2 lines in total");
  });
});

describe("texts", () => {
  it("an error that is cut ends with an ellipsis in lists and on the page of failures; a whole one does not", async () => {
    for (const path of ["failures", "jobs?status=failed"]) {
      const html = await page(path);
      expect(html).toContain(`The file ${"x".repeat(291)}…`);
      expect(html).toContain("It is<");
    }
  });

  it("the answer of a chat has its Markdown drawn, and what it says of HTML is text", async () => {
    const html = await page("jobs/thread/chat");

    expect(html).toContain("<strong>shipped</strong>");
    expect(html).toContain("by train &lt;b&gt;");
  });

  it("a message of a chat is called so among the events, with its job", async () => {
    const [received, waiting] = [wordsOf(await page("events")), wordsOf(await page("events/waiting"))];

    expect(received).toMatch(/Message of a chat [\w-]+ Data/);
    expect(waiting).toMatch(/Message of a chat thread/);
    expect(received + waiting).not.toContain("chat.thread");
  });

  it("a person without an account reads what a model said and the name of a file, and no JSON", async () => {
    const link = await server.request("/admin/api/cases/asking/links", {
      json: { name: "Mira", evidence: true },
    });
    const { path } = (await link.json()) as { path: string };
    const html = await (await fetch(server.url + path, { headers: { accept: "text/html" } })).text();

    expect(html).toContain("**Damaged.** Refund it.");
    expect(html).toContain("report.csv (4 B)");
    expect(html).not.toMatch(/&quot;(?:role|sha256)&quot;/);
  });

  it("a reader who does not see the agent of a question has no gap in its place", async () => {
    const words = wordsOf(await page("inbox", key));

    expect(words).toMatch(/Order 7 · for finance/);
    expect(words).not.toMatch(/· ·/);
  });
});

describe("the audit log", () => {
  it("says what changed in the words of the pages: statuses, times and lists", async () => {
    const made = await server.request("/access", {
      json: { name: "warehouse", role: "starter", agents: ["worker", "talker"], expires_in: "90d" },
    });
    expect(made.status).toBe(201);
    await seedJob(server.service, { id: "stops", agent: "worker", status: "in_progress" });
    await server.request("/admin/api/jobs/stops/stop", { method: "POST" });
    await server.request("/jobs/lost/retry", { json: { from: "last_step" } });
    await until(server.service, "lost", ["failed"]);
    const words = wordsOf(await page("audit"));

    expect(words).toMatch(/job\.stop job stops .* In progress /);
    expect(words).toMatch(/Failed → from last step /);
    expect(words).toMatch(/agents worker and talker, expires at \d{4}-\d\d-\d\d \d\d:\d\d UTC/);
    expect(words).not.toMatch(/in_progress|last_step|\["|\d{3}Z/);
  });
});

describe("the page Server", () => {
  it("has a unit or a word for each figure of the store", async () => {
    await using other = await testServer({ agents: [worker], store: undefined });
    const words = wordsOf(
      await (await other.request("/admin/server", { headers: { accept: "text/html" } })).text(),
    );

    expect(words).toMatch(/Number of the last write \d+ /);
    expect(words).not.toMatch(/Last write \d/);
  });
});

describe("the navigation", () => {
  it.each([
    ["deleted", "/admin/jobs"],
    ["deleted-cases", "/admin/cases"],
    ["sessions", "/admin/access"],
    ["cases/asking/alike", "/admin/inbox"],
    ["jobs/fine", "/admin/jobs"],
  ])("marks where %s belongs", async (path, href) => {
    const html = await page(path);

    expect(html.match(/<a href="([^"]+)" title="[^"]*" aria-current="page"/)?.[1]).toBe(href);
  });
});

it("the page Access is in the navigation where somebody uses named keys, and while it is open", async () => {
  await using other = await testServer({ agents: [worker] });
  const linkOn = async (path: string) =>
    /<a href="\/admin\/access" title="Access" (aria-current="page")?/.exec(
      await (await other.request(`/admin/${path}`, { headers: { accept: "text/html" } })).text(),
    )?.[1];

  expect(await linkOn("")).toBeUndefined();
  expect([await linkOn("access"), await linkOn("sessions")]).toEqual(
    Array.from({ length: 2 }, () => 'aria-current="page"'),
  );
});

it("a deleted job that is kept without a deadline says so", async () => {
  await using other = await testServer({ agents: [worker], deletedRetention: "keep" });
  await seedJob(other.service, { id: "old", agent: "worker", status: "completed" });
  await other.request("/admin/api/jobs/old", { method: "DELETE" });
  const html = await (await other.request("/admin/deleted", { headers: { accept: "text/html" } })).text();

  expect(wordsOf(html)).toContain("No deadline");
});

it("a list has no boxes to tick for who can do nothing with them, and a reader without agents reads so", async () => {
  const hook = { name: "billing", url: "http://127.0.0.1:9/", secret: `whsec_${"A".repeat(44)}` };
  await using other = await testServer({
    agents: [worker],
    plugins: [webhooks({ webhooks: [hook], allowPrivate: true })],
  });
  await seedJob(other.service, { id: "old", agent: "worker", status: "completed" });
  const headers = { accept: "text/html" };
  const waiting = await (await other.request("/admin/deliveries?state=waiting", { headers })).text();

  expect(waiting).toMatch(/<table aria-label="Events">[\s\S]*<span class="title">agent\./);
  expect(waiting).not.toContain('type="checkbox"');
  // A phone has no column for it.
  expect(waiting).toContain('<td class="soft error" data-to="webhook-billing">');
  expect(wordsOf(await page("agents", key))).toContain("There are no agents that you see.");
});

it("jobs that all failed for one reason are said to be all, and what is open is counted with its agent", async () => {
  await using other = await testServer({ agents: [worker] });
  const seed = { agent: "worker", status: "failed", error: "connect ECONNREFUSED" } as const;
  for (const id of ["one", "two"]) await seedJob(other.service, { id, ...seed });
  await seedJob(other.service, { id: "asks", agent: "worker", status: "awaiting" });
  await seedJob(other.service, { id: "queued", agent: "worker" });
  const shown = async (path: string) =>
    wordsOf(await (await other.request(`/admin/${path}`, { headers: { accept: "text/html" } })).text());

  expect(await shown("")).toContain("2 failed in the last 24 hours, all for one reason");
  expect(await shown("agents/worker")).toMatch(/Jobs 4 in total Open 2 not ended Completed 0/);
  expect(await shown("jobs/queued")).toContain("Duration – Cost");
  expect(await shown("jobs/one/retry")).toContain("Retry this job?");
});

it("the forecast from a few jobs says what they took at most, and nothing of one in twenty", async () => {
  await using other = await testServer({ agents: [worker] });
  for (const id of ["one", "two"]) await seedJob(other.service, { id, agent: "worker", status: "completed" });
  const response = await other.request("/admin/agents/worker/start", { headers: { accept: "text/html" } });
  const words = wordsOf(await response.text());

  expect(words).toMatch(
    /The last 2 jobs took \S+ m?s and cost \$0 in the median, and at most \S+ m?s and \$0\. /,
  );
  expect(words).not.toContain("one in twenty");
});

it.each([
  [{ parameters: null }, { parameters: "set" }, "parameters none → parameters set"],
  // What is only known to be set may have changed.
  [{ parameters: "set" }, { parameters: "set" }, "status none, parameters set → status none, parameters set"],
])("a line of the audit log names what has changed, and not what is as before", (before, after, words) => {
  const [from, to] = [before, after].map((part) => ({ status: null, ...part }));

  expect(changeOf({ action: "agent.parameters", before: from, after: to })).toBe(words);
});
