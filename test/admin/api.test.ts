import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { greeter } from "../_setup.ts";
import { seedCase, seedJob } from "./_seed.ts";

async function start() {
  let now = Date.parse("2026-03-01T10:00:00.000Z");
  const clock = () => {
    now += 1000;
    return new Date(now);
  };
  const server = await testServer({ agents: [greeter], clock });
  await seedJob(server.service, { id: "a", name: "Alpha", status: "in_progress" });
  await seedCase(server.service, { job: "a", ref: "a-1", name: "Cheap", cost: 0.25, close: { paid: true } });
  await seedCase(server.service, {
    job: "a",
    ref: "a-2",
    name: "Dear",
    description: "from Nordwind",
    cost: 4,
  });
  await seedJob(server.service, { id: "b", name: "beta", status: "completed" });
  await seedJob(server.service, {
    id: "c",
    name: "Gamma",
    status: "failed",
    agent: "other-agent",
    stop_reason: "max_cost",
  });
  await seedJob(server.service, { id: "d", name: "Delta", status: "cancelled" });
  const get = async (path: string) => (await server.request(`/admin/api${path}`)).json() as Promise<Page>;
  const ids = async (path: string) => (await get(path)).items.map((item) => item.id);
  return { server, get, ids, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

interface Page {
  items: { id: string; [field: string]: unknown }[];
  [field: string]: unknown;
}

it("statistics count jobs and cases by status and name the store", async () => {
  await using world = await start();

  expect(await world.get("/stats")).toEqual({
    jobs: {
      total: 4,
      running: 1,
      completed: 1,
      failed: 2,
      by_status: { in_progress: 1, completed: 1, failed: 1, cancelled: 1 },
    },
    cases: { total: 2, running: 1, completed: 1, failed: 0, by_status: { in_progress: 1, completed: 1 } },
    system: { database: "memory", status: "healthy", collections: 2 },
    collections: 2,
  });
});

it("a list has the position of its page, and its rows have the fields of the contract", async () => {
  await using world = await start();

  const page = await world.get("/jobs?limit=2&skip=1");

  expect(page).toMatchObject({ total: 4, limit: 2, skip: 1, has_next: true, has_prev: true });
  expect(page.items.map((job) => job.id)).toEqual(["c", "b"]);
  expect(Object.keys(page.items[0]!)).toEqual(
    expect.arrayContaining([
      "id",
      "name",
      "agent_name",
      "status",
      "created_at",
      "updated_at",
      "finished_at",
      "case_count",
    ]),
  );
  expect(Object.keys((await world.get("/cases")).items[0]!)).toEqual(
    expect.arrayContaining([
      "id",
      "name",
      "description",
      "status",
      "job_id",
      "created_at",
      "updated_at",
      "finished_at",
      "total_cost",
    ]),
  );
});

it.each([
  ["/jobs", ["d", "c", "b", "a"]],
  ["/jobs?status=failed", ["c"]],
  ["/jobs?agent_name=OTHER", ["c"]],
  ["/jobs?stop_reason=max_cost", ["c"]],
  ["/jobs?stop_reason=code_changed", []],
  ["/jobs?stop_reason=&status=cancelled", ["d"]],
  ["/jobs?search=LPH", ["a"]],
  ["/jobs?search=a&status=in_progress", ["a"]],
  ["/jobs?search=a&status=completed&agent_name=greet", ["b"]],
  ["/jobs?sort=created_at", ["a", "b", "c", "d"]],
  ["/jobs?sort=-case_count&limit=1", ["a"]],
  ["/cases?sort=total_cost", ["a-1", "a-2"]],
  ["/cases?sort=-total_cost", ["a-2", "a-1"]],
  ["/cases?search=nordwind", ["a-2"]],
  ["/cases?job_id=a&status=completed", ["a-1"]],
  ["/cases?job_id=b", []],
  ["/jobs?status=&search=&agent_name=", ["d", "c", "b", "a"]],
])("GET %s lists %j", async (path, expected) => {
  await using world = await start();

  expect(await world.ids(path)).toEqual(expected);
});

it.each([
  "/jobs?limit=0",
  "/jobs?limit=101",
  "/jobs?limit=ten",
  "/jobs?skip=-1",
  "/jobs?status=done",
  "/jobs?stop_reason=none",
  "/jobs?sort=payload",
  "/cases?sort=agent_name",
  "/cases?job_id=../etc",
  "/inbox?limit=0",
  "/jobs?statuss=failed",
  "/jobs?created_after=2026-11-14",
  "/cases?agent_name=greeter",
  "/inbox?agent=greeter",
  "/deliveries?states=dead",
])("GET %s is refused with 422 and the field's name", async (path) => {
  await using world = await start();

  const response = await world.server.request(`/admin/api${path}`);

  expect(response.status).toBe(422);
  const body = (await response.json()) as { detail: string; error_type: string };
  expect(body.error_type).toBe("invalid_request");
  expect(body.detail).toContain(/\?(\w+)=/.exec(path)![1]);
});

it("a job comes with its cases, a case with its updates and delivery", async () => {
  await using world = await start();

  const job = await world.get("/jobs/a");
  const item = await world.get("/cases/a-1");

  expect(job).toMatchObject({ id: "a", case_ids: ["a-1", "a-2"], job_context: { job_id: "a" } });
  expect((job.cases as { id: string }[]).map(({ id }) => id)).toEqual(["a-1", "a-2"]);
  expect(job).not.toHaveProperty("fingerprint");
  expect(item).toMatchObject({
    id: "a-1",
    final_delivery: { paid: true },
    total_cost: 0.25,
    account: { api_key: null },
  });
  expect(item.updates).toHaveLength(2);
  expect((await world.server.request("/admin/api/jobs/none")).status).toBe(404);
  expect((await world.server.request("/admin/api/cases/none")).status).toBe(404);
});

it("recent activity is the newest ten changes of jobs and cases", async () => {
  await using world = await start();
  for (let index = 0; index < 12; index++) await seedJob(world.server.service, { id: `more-${index}` });

  const { items } = await world.get("/recent-activity");

  expect(items).toHaveLength(10);
  expect(items[0]).toMatchObject({ type: "job", id: "more-11", agent_name: "greeter" });
  expect([...items].sort((x, y) => (String(x.updated_at) < String(y.updated_at) ? 1 : -1))).toEqual(items);
});

it("the inbox lists open questions, the oldest deadline first, then those without one", async () => {
  await using world = await start();
  const ask = (ref: string, deadline?: string) =>
    seedCase(world.server.service, { job: "a", ref, question: `Pay ${ref}?`, deadline });
  await seedJob(world.server.service, { id: "e", status: "in_progress" });
  await ask("open-1");
  await seedCase(world.server.service, {
    job: "e",
    ref: "late",
    question: "Late?",
    deadline: "2026-05-01T00:00:00.000Z",
  });
  await seedJob(world.server.service, { id: "f", status: "in_progress" });
  await seedCase(world.server.service, {
    job: "f",
    ref: "soon",
    question: "Soon?",
    deadline: "2026-04-01T00:00:00.000Z",
  });

  const all = await world.get("/inbox");
  const second = await world.get("/inbox?limit=1&skip=1");
  const last = await world.get("/inbox?limit=1&skip=2");

  expect(all.items.map((item) => item.case_id)).toEqual(["soon", "late", "open-1"]);
  expect(all.total).toBe(3);
  expect(second.items.map((item) => item.case_id)).toEqual(["late"]);
  expect(last.items.map((item) => item.case_id)).toEqual(["open-1"]);
});

it("the dashboard shows the questions that are due first, whenever they were asked", async () => {
  await using world = await start();
  const { service } = world.server;
  for (let index = 0; index < 8; index++)
    await seedCase(service, { job: "a", ref: `calm-${index}`, question: "Calm?" });
  const deadline = new Date(Date.now() + 3_600_000).toISOString();
  await seedCase(service, { job: "a", ref: "urgent", question: "Urgent?", deadline });

  const page = await (await world.server.request("/admin/", { headers: { accept: "text/html" } })).text();

  expect(page).toContain("Urgent?");
  expect(page.indexOf("Urgent?")).toBeLessThan(page.indexOf("Calm?"));
});

it("an agent's page data holds statistics and no parameter value", async () => {
  await using world = await start();

  const agent = await world.get("/agents/greeter");

  expect(agent).toMatchObject({
    slug: "greeter",
    status: "busy",
    statistics: { total_jobs: 3, completed_jobs: 1 },
  });
  expect(agent).not.toHaveProperty("server_encrypted_parameters");
  expect((await world.server.request("/admin/api/agents/none")).status).toBe(404);
});

it("the server page's data masks secrets", async () => {
  await using server = await testServer({
    agents: [greeter],
    account: {
      workspace_id: "w",
      api_key: "account-key-secret",
      api_url: "http://127.0.0.1:9",
    },
  });

  const response = await server.request("/admin/api/server");
  const text = await response.text();

  expect(JSON.parse(text)).toMatchObject({ configuration: { apiKey: "set" }, store: { database: "memory" } });
  expect(text).not.toContain(server.key);
  expect(text).not.toMatch(/account-key-secret|PRIVATE KEY/);
});
