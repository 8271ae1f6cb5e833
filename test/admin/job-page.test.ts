import { defineAgent } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { openCase } from "../../src/core/entities/open-case.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { STORE } from "../../src/core/service/tokens.ts";
import { seedJob } from "./_seed.ts";
import { postForm, signIn } from "./_sign-in.ts";

const HOSTILE = `<img src=x onerror="alert(1)">`;

let seenToken: string | undefined;

const refunds = defineAgent({
  name: "Refunds",
  version: "1.0.0",
  parameters: [
    { name: "TOKEN", is_secret: true, is_required: true, value: "declared-token" },
    { name: "REGION", is_secret: false },
  ],
  methods: {
    job_start: {
      fields: [
        { name: "week", required: true },
        { name: "orders", field_type: "IntegerField", default: 2 },
        { name: "dry", field_type: "BooleanField", required: true },
      ],
      async run({ job, fields, log, parameters }) {
        seenToken = parameters.TOKEN;
        log.info("begins", { week: String(fields.week) });
        await job.step("fetch", () => ({ found: 2 }), { input: { week: fields.week } });
        if (fields.dry) await job.step("dry", () => "nothing is sent");
        for (let line = 0; line < (fields.orders as number); line++) log.info(`order ${line}`);
        const item = await job.openCase({ id: `${job.id}-a`, name: `Order ${HOSTILE}` });
        if (fields.dry) return;
        await item.step(
          "classify",
          () => ({ choices: [{ message: { role: "assistant", content: "damaged" } }] }),
          {
            kind: "model",
            input: { messages: [{ role: "user", content: "What is it?" }] },
          },
        );
        await item.step(
          "send",
          () => {
            throw new Error(`connect ECONNREFUSED ${HOSTILE}`);
          },
          { retries: 1, backoff: { initial: 1, max: 1 } },
        );
      },
    },
  },
});

let server: TestServer;
beforeAll(async () => {
  server = await testServer({ agents: [refunds] });
  await start("failed", { week: HOSTILE, dry: false });
});
afterAll(() => server[Symbol.asyncDispose]());

async function start(id: string, job_fields: Record<string, unknown>): Promise<void> {
  await server.request("/agents/refunds/jobs", { json: { job_context: { job_id: id }, job_fields } });
  await vi.waitUntil(async () => ["failed", "completed"].includes((await show(id)).status), {
    timeout: 60_000,
  });
}

async function show(id: string): Promise<{ status: string }> {
  return (await (await server.request(`/admin/api/jobs/${id}`)).json()) as { status: string };
}

async function page(path: string): Promise<string> {
  const response = await server.request(`/admin/${path}`, { headers: { accept: "text/html" } });
  expect([path, response.status]).toEqual([path, 200]);
  const text = await response.text();
  expect(text.includes("<img src=x")).toBe(false);
  return text;
}

/** The text of a part of a page. */
function textOf(html: string, from: RegExp, to: string): string {
  const start = html.search(from);
  const part = html.slice(start, html.indexOf(to, start));
  return part
    .replace(/<[^>]*>/g, " ")
    .replace(/\s+/g, " ")
    .trim();
}

it("the first panel of a failed job says in which step it failed and why, with a link to that step", async () => {
  const html = await page("jobs/failed");

  const verdict = textOf(html, /<section class="panel verdict bad"/, "</section>");
  expect(verdict).toContain("Failed in step “send” of Order &lt;img");
  expect(verdict).toContain("connect ECONNREFUSED &lt;img");
  expect(verdict).toContain("Retry");
  const step = textOf(html, /<section class="panel step"/, "</section>");
  expect(step).toMatch(/^Step send Failed 2 attempts/);
  expect(step).toContain("Attempt 1");
});

it("each step has an address, and is shown beside the timeline with its input and output", async () => {
  const timeline = (await (await server.request("/admin/api/jobs/failed/timeline")).json()) as {
    rows: { name: string; step?: string; work?: string }[];
  };
  const [fetch, classify] = ["fetch", "classify"].map(
    (name) => timeline.rows.find((row) => row.name === name)!,
  );

  const first = textOf(
    await page(`jobs/failed?step=${fetch!.step}`),
    /<section class="panel step"/,
    "</section>",
  );
  const model = textOf(
    await page(`jobs/failed?step=${classify!.step}`),
    /<section class="panel step"/,
    "</section>",
  );

  expect(first).toMatch(/Input week &lt;img.* Output found 2/);
  expect(model).toMatch(/^Model classify Completed/);
  expect(model).toMatch(/Answer assistant damaged Asked user What is it\?/);
  expect(classify!.work).toBe("model");
});

it("the page of a job shows one of its parts, each with an address, and no more than that", async () => {
  await expect.poll(() => logOf("failed")).toContain("begins");
  const tabs = ["", "?tab=log", "?tab=calls", "?tab=history"];
  const pages = await Promise.all(tabs.map((tab) => page(`jobs/failed${tab}`)));

  const has = (part: RegExp) => pages.map((html) => part.test(html));
  expect(has(/id="timeline-title"/)).toEqual([true, false, false, false]);
  expect(has(/<h2>Input<\/h2>/)).toEqual([true, false, false, false]);
  expect(has(/id="cases-title"/)).toEqual([true, false, false, false]);
  expect(has(/id="job-log"/)).toEqual([false, true, false, false]);
  expect(has(/id="work-title"/)).toEqual([false, false, true, false]);
  expect(has(/id="story-title"/)).toEqual([false, false, false, true]);
  expect(has(/id="limits-title"/)).toEqual([false, false, false, true]);
  // What failed, and why, is above each of them.
  expect(has(/Failed in step “send” of Order/)).toEqual([true, true, true, true]);
  for (const [at, html] of pages.entries()) {
    const nav = textOf(html, /<nav class="tabs" aria-label="Parts of this page"/, "</nav>");
    expect(nav).toBe("Timeline Log Model calls 1 History");
    const [, current] = /<a href="([^"]*)" aria-current="true">(?:Timeline|Log|Model|History)/.exec(html)!;
    expect(current).toBe(tabs[at] || "?");
  }
  const wrong = await server.request("/admin/jobs/failed?tab=other", { headers: { accept: "text/html" } });
  expect(wrong.status).toBe(422);
});

it("the timeline shows only the lines that failed, where that is wanted", async () => {
  const all = await page("jobs/failed");
  const [, href] = /<a class="more link" href="(\?[^"]+)">Failed only \((\d+)\)/.exec(all)!;
  const failed = await page(`jobs/failed${href}`);

  const namesIn = (html: string) =>
    [...html.matchAll(/<div class="w-name [^"]*">\s*<(?:a|span)[^>]*><bdi>([^<]*)/g)].map(([, name]) => name);
  expect(href).toBe("?only=failed");
  expect(namesIn(all)).toEqual(expect.arrayContaining(["fetch", "classify", "send"]));
  expect(namesIn(failed)).toEqual(expect.arrayContaining(["send"]));
  expect(namesIn(failed)).not.toEqual(expect.arrayContaining(["fetch"]));
  expect(namesIn(failed)).not.toEqual(expect.arrayContaining(["classify"]));
  expect(failed).toContain(">All lines</a>");
});

it("the history has the time since the job was created, and when that was", async () => {
  const html = await page("jobs/failed?tab=history");

  const times = [
    ...html.matchAll(/<time datetime="[^"]+" title="([^"]+)" data-relative="([^"]+)">([^<]+)</g),
  ];
  expect(times.length).toBeGreaterThan(4);
  for (const [, title, offset, text] of times) {
    expect(title).toMatch(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    expect(offset).toMatch(/^\+[\d.]+ (?:ms|s|min)/);
    expect(text).toBe(offset);
  }
});

it("a job has one main button, one beside its title, and the others in a menu, the most dangerous last", async () => {
  const html = await page("jobs/failed");

  const menu = textOf(html, /<details class="menu"/, "</details>");
  const verdict = textOf(html, /<section class="panel verdict/, "</section>");
  expect(menu).toMatch(/^Compare… Fork Set status Delete$/);
  expect(verdict).toMatch(/Retry connect ECONNREFUSED/);
  expect(textOf(html, /<div class="actions">/, "<details")).toBe("Run again…");
});

it("a step's panel forks the job from that step", async () => {
  const html = await page("jobs/failed?step=0");
  const [, href] = /href="(\/admin\/jobs\/failed\/fork\?line=\d+)"/.exec(html)!;

  expect(await page(href!.replace("/admin/", ""))).toContain(
    '<option value="step:fetch" selected>Step: fetch</option>',
  );
});

it("the form of a fork names calls as the timeline does, not by their keys", async () => {
  const agent = defineAgent({
    name: "Importer",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [],
        async run({ job }) {
          for (const key of ["a", "b"]) await job.step("read", () => key, { key });
          const item = await job.openCase({ id: "row-1", name: "Row 1" });
          await item.step("check", () => 1, { key: "c" });
        },
      },
    },
  });
  await using importer = await testServer({ agents: [agent] });
  await importer.request("/agents/importer/jobs", {
    json: { job_context: { job_id: "import" } },
    headers: { prefer: "wait=30" },
  });
  const form = await importer.request("/admin/jobs/import/fork", { headers: { accept: "text/html" } });

  const options = [...(await form.text()).matchAll(/<option value="([^"]*)"[^>]*>([^<]*)</g)];

  expect(Object.fromEntries(options.map(([, value, label]) => [value, label]))).toMatchObject({
    start: "Start: all calls",
    "step:a": "Step: read",
    "step:b": "Step: read #2",
    "row-1/step:c": "Step: check · Row 1",
    end: "End: only what comes after them",
  });
});

it("the list of model calls says of which case each is", async () => {
  expect(await page("jobs/failed?tab=calls")).toMatch(
    /<b[^>]*>classify<\/b> <span class="soft">Order &lt;img [^<]* · /,
  );
});

it("run again begins with the input of the job, and changes nothing of it", async () => {
  const form = await page("agents/refunds/start?from=failed");

  expect(form).toMatch(/<h1>Run again<\/h1>/);
  expect(form).toMatch(/name="f\.week" type="text" value="&lt;img/);
  expect(form).toContain('name="f.orders" type="number" step="1" value="2"');
  expect(form).toMatch(/value="false" checked/);
  const [, id] = /name="job_id" value="([\w-]+)"/.exec(form)!;
  expect(id).not.toBe("failed");
  const other = await server.request("/admin/agents/refunds/start?from=unknown");
  expect(other.status).toBe(404);
});

it("what a page is asked to show must be known", async () => {
  const wrong = await server.request("/admin/jobs/failed?stepp=1", { headers: { accept: "text/html" } });
  const gone = await page("jobs/failed?step=999.nothing&run=7");

  expect(wrong.status).toBe(422);
  expect(gone).toContain('<section class="panel step"');
});

it("a job of many cases and steps is a page below 100 kB, and all its lines can be reached", async () => {
  const account = { workspace_id: "w", api_key: null, api_url: null };
  await seedJob(server.service, { id: "large", status: "in_progress", agent: "refunds" });
  for (let index = 0; index < 240; index++)
    await server.service.get(LEDGER).write(async (unit) => {
      const ref = `large-${index}`;
      const named = { ref, name: `Order ${index}`, description: "" };
      // Cases that the page cannot read are named by the log.
      const { id } = index % 4 === 0 ? await openCase(unit, "large", named, account) : { id: ref };
      await unit.record("large", { type: "call", call: "open_case", name: ref, position: index, result: id });
      for (let position = 0; position < 10; position++)
        await unit.record("large", {
          ...{ type: "call", call: "step", name: `step ${position}`, position, case_id: id },
          ...{ started_at: unit.now, result: position, cost: 0.001 },
        });
    });

  const html = await page("jobs/large");
  const further = await page("jobs/large?line=120");

  expect(Math.max(html.length, further.length)).toBeLessThan(100_000);
  expect(html.includes("<bdi>Order 0</bdi>")).toBe(true);
  expect(html.includes('href="?line=45"')).toBe(true);
  expect(/<bdi>Order 1[2-5]\d<\/bdi>/.test(further)).toBe(true);
  expect(/<bdi>large-1[2-5]\d<\/bdi>/.test(further)).toBe(true);
});

async function logOf(id: string): Promise<string[]> {
  const answer = await server.request(`/admin/api/jobs/${id}/log`);
  const { items } = (await answer.json()) as { items: { message: string }[] };
  return items.map(({ message }) => message);
}

it("the last lines that a job has logged are on its page, are kept with it and removed with it", async () => {
  await start("chatty", { week: "w", dry: true, orders: 1200 });
  await expect.poll(() => logOf("chatty")).toContain("order 1199");

  const lines = await logOf("chatty");
  const html = await page("jobs/chatty?tab=log");
  await expect.poll(() => logOf("failed")).toContain("begins");
  expect((await page("jobs/failed?tab=log")).includes("week=&lt;img")).toBe(true);

  expect(lines.filter((line) => line.startsWith("order "))).toEqual(
    Array.from({ length: 1200 }, (_, line) => `order ${line}`).slice(-lines.length),
  );
  expect(lines.length).toBeGreaterThanOrEqual(500);
  expect(lines.length).toBeLessThanOrEqual(550);
  expect(textOf(html, /<section class="panel job-log"/, "</section>")).toMatch(
    /^Log \d+ The last 100 lines\./,
  );
  const table = server.service.get(STORE).table("JobLog");
  expect((await table.ids({ where: { job_id: "chatty" } })).length).toBeGreaterThan(5);
  await server.request("/admin/api/jobs/chatty?permanent=true", { method: "DELETE" });
  expect(await table.ids({ where: { job_id: "chatty" } })).toEqual([]);
});

it("two jobs are compared: what differs in input, output and each call, and what only one of them did", async () => {
  await start("dry-run", { week: "w", dry: true });
  const first = await page("jobs/failed/compare");
  const html = await page("jobs/failed/compare?with=dry-run");
  const answer = await server.request("/admin/api/jobs/failed/compare?with=dry-run");
  const { calls } = (await answer.json()) as { calls: { name: string; differs: string[] }[] };

  expect(first.includes('href="/admin/jobs/failed/compare?with=dry-run"')).toBe(true);
  expect(calls.map(({ name, differs }) => [name, ...differs])).toEqual([
    ["fetch", "input"],
    ["dry", "missing"],
    ["classify", "missing"],
    ["send", "missing"],
  ]);
  const different = textOf(html, /id="different-title"/, "</section>");
  expect(different).toMatch(/fetch input Step Completed .* Input week &lt;img.* Input week w/);
  expect(different).toMatch(/dry only in one Not in this job\. Step Completed/);
  const itself = await server.request("/admin/api/jobs/failed/compare?with=failed");
  expect(((await itself.json()) as typeof answer & { calls: { differs: string[] }[] }).calls).toMatchObject([
    { differs: [] },
    { differs: [] },
    { differs: [] },
  ]);
  expect((await server.request("/admin/jobs/failed/compare?with=none")).status).toBe(404);
});

it("an agent's parameters are set on its page: encrypted, for its next runs, and a secret is never shown", async () => {
  const set = async (parameters: Record<string, string | null>) => {
    const answer = await server.request("/admin/api/agents/refunds/parameters", { json: { parameters } });
    return { status: answer.status, body: await answer.text() };
  };
  const cookie = await signIn(server, "Ada");
  const form = await postForm(
    server,
    "/admin/agents/refunds/parameters",
    { "p.TOKEN": "first-secret", "p.REGION": "" },
    { cookie },
  );
  expect(form.status).toBe(303);
  await Promise.all([set({ REGION: "north" }), set({ TOKEN: "second-secret" })]);
  await start("with-token", { week: "w", dry: true });
  const html = await page("agents/refunds");
  const stored = await server.service.get(STORE).table("AgentSetting").get("refunds");

  expect(seenToken).toBe("second-secret");
  expect(JSON.stringify(stored)).not.toMatch(/secret"|north/);
  expect(stored?.parameters_encrypted).toMatch(/^v2\.refunds\./);
  expect(html).not.toContain("second-secret");
  expect(html).toMatch(/name="p\.TOKEN" type="password" value=""/);
  expect(html).toMatch(/name="p\.REGION" type="text" value="north"/);
  expect(textOf(html, /Version that runs/, "</dl>")).toMatch(
    /^Version that runs 1\.0\.0 \(code [0-9a-f]{12}\)/,
  );
  expect(textOf(html, /id="failed-title"/, "</section>")).toContain("connect ECONNREFUSED");

  const removed = await set({ TOKEN: null });
  expect(JSON.parse(removed.body)).toEqual({
    parameters: [
      { name: "TOKEN", source: "declared" },
      { name: "REGION", source: "stored" },
    ],
  });
  expect(await set({ OTHER: "x" })).toMatchObject({
    status: 422,
    body: expect.stringContaining("TOKEN, REGION"),
  });
  const audit = await (await server.request("/admin/api/audit")).text();
  expect(audit).toContain("agent.parameters");
  expect(audit).not.toMatch(/(first|second)-secret/);
});
