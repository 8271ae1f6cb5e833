import { type AgentDefinition, defineAgent, defineChat } from "agent-control-service";
import { THREADS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { SHOWN_STATES, ShownStateSchema } from "../../src/core/models/job-state.ts";
import { jobContext, until } from "../runs/_jobs.ts";

let release = () => {};
const hanging = new Promise<void>((resolve) => {
  release = resolve;
});

/** Does what its field says. */
const worker: AgentDefinition = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ does: v.string() }),
      async run({ job, fields }) {
        for (const n of [1, 2, 3]) await job.step(`poll ${n}`, () => n);
        if (fields.does === "sleeping") await job.sleep("8h");
        if (fields.does === "waiting_for_event") await job.waitFor("payment");
        if (fields.does === "event or a day") await job.waitFor("payment", { deadline: "1d" });
        if (fields.does === "waiting_for_child")
          await (await job.start("worker", { does: "sleeping" })).result();
        if (fields.does === "waiting_for_answer") {
          const item = await job.openCase({ id: `case-${job.id}`, name: "Case" });
          await item.ask({ question: "Fine?", fields: v.object({ fine: v.boolean() }) });
        }
        if (fields.does === "running" || fields.does === "stuck") await job.step("poll 4", () => hanging);
        if (fields.does === "failed") throw new Error("no");
        return "done";
      },
    },
  },
});
const talker = defineChat({ name: "Talker", version: "1.0.0", reply: ({ message }) => `heard ${message}` });
const paused = defineAgent({ name: "Paused", version: "1.0.0", methods: { job_start: { run: () => 1 } } });

let ahead = 0;
let server: TestServer;
/** What each job is in, by its id. */
const EXPECTED: Readonly<Record<string, string>> = {
  "job-sleeping": "sleeping",
  "job-event": "waiting_for_event",
  "job-deadline": "waiting_for_event",
  "job-parent": "waiting_for_child",
  "job-answer": "waiting_for_answer",
  "job-running": "running",
  "job-failed": "failed",
  "job-done": "completed",
  "job-queued": "queued",
  "job-parked": "parked",
  "thread-1": "chat",
};

beforeAll(async () => {
  server = await testServer({
    agents: [worker, talker, paused],
    suspendAfter: "10ms",
    clock: () => new Date(Date.now() + ahead),
  });
  await server.request("/admin/api/agents/paused/pause", { method: "POST" });
  const start = (id: string, does: string, agent = "worker") =>
    server.request(`/agents/${agent}/jobs`, {
      json: { job_context: jobContext(id), job_fields: agent === "worker" ? { does } : {} },
    });
  await start("job-sleeping", "sleeping");
  await start("job-event", "waiting_for_event");
  await start("job-deadline", "event or a day");
  await start("job-parent", "waiting_for_child");
  await start("job-answer", "waiting_for_answer");
  await start("job-running", "running");
  await start("job-failed", "failed");
  await start("job-done", "nothing");
  await start("job-queued", "", "paused");
  await start("job-parked", "", "paused");
  await server.request("/admin/api/jobs/job-parked/status", { json: { status: "stopped" } });
  await server.service.get(THREADS).start("talker", { message: "hello" }, { id: "thread-1" });
  await until(server.service, "job-done");
  await vi.waitFor(async () => expect(await statesOf()).toMatchObject(EXPECTED), {
    timeout: 60_000,
    interval: 50,
  });
});
afterAll(async () => {
  release();
  await server[Symbol.asyncDispose]();
});

interface Row {
  readonly id: string;
  readonly state: string;
}
const list = async (query: string) =>
  (await (await server.request(`/admin/api/jobs?limit=100&${query}`)).json()) as {
    readonly items: readonly Row[];
    readonly total: number;
  };
async function statesOf() {
  return Object.fromEntries((await list("")).items.map(({ id, state }) => [id, state]));
}
const tabs = async () => {
  const html = await (await server.request("/admin/jobs", { headers: { accept: "text/html" } })).text();
  const found = html.matchAll(
    /href="\/admin\/jobs(?:\?status=(\w+))?"[^>]*>([^<]+)<span class="count">(\d+)</g,
  );
  return [...found].map(([, status, label, count]) => [status, label!.trim(), Number(count)] as const);
};

it("each job is in exactly one state, in lists, filters and counts of pages and of both APIs", async () => {
  const states = await statesOf();
  const child = Object.keys(states).find((id) => !(id in EXPECTED))!;
  expect(states).toEqual({ ...EXPECTED, [child]: "sleeping" });

  const found: Record<string, string> = {};
  for (const state of ShownStateSchema.options) {
    const { items, total } = await list(`status=${state}`);
    expect(items).toHaveLength(total);
    for (const { id } of items) found[id] = state;
    const machine = await server.request(`/jobs?state=${state}`);
    const listed = (await machine.json()) as { job_id: string; state: string }[];
    expect(listed.map(({ job_id, state }) => [job_id, state]).sort()).toEqual(
      items.map(({ id }) => [id, state]).sort(),
    );
  }
  expect(found).toEqual(states);
  expect(await (await server.request("/jobs?state=running&status=completed")).json()).toEqual([]);
  expect(Object.keys(SHOWN_STATES)).toEqual(ShownStateSchema.options);
});

const textOf = async (path: string) => {
  const response = await server.request(`/admin/${path}`, { headers: { accept: "text/html" } });
  return (await response.text()).replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
};

it.each([
  ["job-sleeping", /Sleeping Sleeping Duration.* It resumes in 8 h ?\./],
  [
    "job-deadline",
    /Waiting for event “payment”.* It resumes when what it waits for is there, at the latest in 1 d ?\./,
  ],
  ["job-event", /Waiting for event “payment”.* It resumes when what it waits for is there ?\./],
  ["thread-1", /Chat Waiting for a message .* Message .* Event Message Waiting/],
  ["job-queued", /Queued Queued .* Its agent is paused: the job starts when the agent is resumed\./],
  [
    "job-parked",
    /Stopped Stopped by an operator (?:(?!Its agent is paused).)* Set its status to In progress/,
  ],
])("the page of %s says what the job does, and when that ends", async (id, words) => {
  expect(await textOf(`jobs/${id}`)).toMatch(words);
});

it("a job that a person sets to stopped is called so where that is asked, and no one is called queued", async () => {
  for (const [id, now] of [
    ["job-parked", "Stopped \\(now\\)"],
    ["job-queued", "Stopped "],
    ["job-running", "Stopped "],
  ] as const) {
    const words = await textOf(`jobs/${id}/status`);
    expect(words).toMatch(new RegExp(`Status ${now}`));
    expect(words).not.toContain("Queued");
  }
  const audit = await textOf("audit?action=job.status");
  expect(audit).toMatch(/job job-parked .* Queued → Stopped /);
});

it("an agent is busy while a job of it runs, not while they only sleep or wait", async () => {
  const idle = defineAgent({
    name: "Idle",
    version: "1.0.0",
    methods: { job_start: { run: ({ job }) => job.sleep("8h") } },
  });
  await using other = await testServer({ agents: [idle], suspendAfter: "10ms" });
  await other.request("/agents/idle/jobs", { json: { job_context: jobContext("job-idle") } });
  const stateOf = async (id: string) =>
    ((await (await other.request(`/admin/api/jobs?search=${id}`)).json()) as { items: { state: string }[] })
      .items[0]?.state;
  await expect.poll(() => stateOf("job-idle")).toBe("sleeping");

  const healthOf = async (one: TestServer, slug: string) => {
    const { agents } = (await (await one.request("/agents/health")).json()) as {
      agents: Record<string, { slug: string; status: string; statistics: { in_progress_jobs: number } }>;
    };
    return Object.values(agents).find((agent) => agent.slug === slug);
  };
  expect(await healthOf(other, "idle")).toMatchObject({
    ...{ status: "available", statistics: { in_progress_jobs: 1 } },
  });
  expect(await healthOf(server, "worker")).toMatchObject({ status: "busy" });
  const page = await other.request("/admin/agents/idle", { headers: { accept: "text/html" } });
  expect(await page.text()).not.toContain("Busy");
});

it("the tabs count what they list, and all of them together all jobs", async () => {
  const shown = await tabs();
  const [, ...states] = shown;

  expect(shown[0]).toEqual([undefined, "All", 12]);
  expect(states.reduce((sum, [, , count]) => sum + count, 0)).toBe(12);
  for (const [status, , count] of states)
    expect([status, (await list(`status=${status}`)).total]).toEqual([status, count]);
  expect(shown.map(([, label]) => label)).toEqual([
    ...["All", "Running", "Sleeping", "Waiting for an event", "Waiting for a child", "Chat", "Waiting"],
    ...["Queued", "Stopped", "Completed", "Failed"],
  ]);
});

it("a job that is stuck has a tab of its own, and an action on all that are stuck takes no other", async () => {
  expect(await list("status=stuck")).toMatchObject({ total: 0 });
  ahead = 3_600_000;
  await expect
    .poll(async () => (await list("status=stuck")).items)
    .toMatchObject([{ id: "job-running", state: "stuck" }]);
  expect((await tabs()).find(([status]) => status === "stuck")).toEqual(["stuck", "Stuck", 1]);
  expect((await tabs()).find(([status]) => status === "running")).toEqual(["running", "Running", 1]);
  expect(await textOf("jobs/job-running")).toMatch(/Stuck Stuck in step “poll 4” Duration/);

  const preview = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "stop", filter: { status: "stuck" } },
  });
  expect(await preview.json()).toMatchObject({ count: 1, sample: ["job-running"] });
  release();
  await until(server.service, "job-running");
  ahead += 10_000;
  const none = await server.request("/admin/api/bulk", {
    json: { kind: "jobs", action: "stop", filter: { status: "stuck" } },
  });
  expect(await none.json()).toMatchObject({ count: 0 });
});
