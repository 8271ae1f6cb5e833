import { defineAgent } from "agent-control-service";
import { definePlugin, EVENTS, JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agentOf } from "./_agent.ts";
import { jobContext, until } from "./_jobs.ts";

const HOUR = 3_600_000;

/** Spends `n`, in four ways. */
const spender = agentOf(
  async ({ job, fields }) => {
    const quarter = Number(fields.n) / 4;
    const item = await job.openCase({ id: `${job.id}-case`, name: "Case" });
    await item.step("pay", () => 1, { cost: quarter });
    let fails = 1;
    const flaky = () => {
      if (fails-- > 0) throw new Error("no");
    };
    await job.step("flaky", flaky, { cost: quarter / 2, retries: 1, backoff: { initial: 0.01 } });
    await item.update({ name: "charged", cost: quarter });
    await item.close({}, { cost: quarter });
    return "done";
  },
  { name: "Spender", budget: { day: 10, month: 11, refuse: true } },
);
const free = agentOf(() => "free", { name: "Free" });

interface Anomaly {
  readonly source: object;
  readonly details: Readonly<Record<string, unknown>>;
}

let ahead = 0;
async function serve() {
  const noon = new Date(Date.UTC(2030, 4, 10, 12)).getTime() - Date.now();
  ahead = noon;
  const told: Anomaly[] = [];
  const receiver = definePlugin({
    name: "receiver",
    dependsOn: ["events"],
    setup: ({ get }) =>
      get(EVENTS).addTarget({
        name: "receiver",
        accepts: ({ type }) => type === "agent.anomaly",
        send: async ({ body }) => void told.push(body as Anomaly),
      }),
  });
  const server = await testServer({
    agents: [spender, free],
    plugins: [receiver()],
    clock: () => new Date(Date.now() + ahead),
  });
  return { server, told };
}
const start = (server: TestServer, id: string, n: number, agent = "spender") =>
  server.request(`/agents/${agent}/jobs`, { json: { job_context: jobContext(id), job_fields: { n } } });
async function spend(server: TestServer, id: string, n: number): Promise<number> {
  await start(server, id, n);
  return (await until(server.service, id)).total_cost;
}
const budgets = async (server: TestServer) =>
  ((await (await server.request("/admin/api/dashboard")).json()) as { budgets: object[] }).budgets;

it("all that an agent's jobs spend counts, by day and month, also what was deleted", async () => {
  const { server } = await serve();
  await using _ = server;

  expect(await spend(server, "a", 2)).toBe(2);
  await server.request("/admin/api/jobs/a?permanent=true", { method: "DELETE" });
  expect(await spend(server, "b", 1)).toBe(1);
  await until(server.service, "b");
  expect(await budgets(server)).toEqual([
    { agent: "spender", period: "day", since: "2030-05-10", budget: 10, spent: 3, refuses: true },
    { agent: "spender", period: "month", since: "2030-05", budget: 11, spent: 3, refuses: true },
  ]);

  ahead += 24 * HOUR;
  expect(await spend(server, "c", 4)).toBe(4);
  expect(await budgets(server)).toMatchObject([
    { since: "2030-05-11", spent: 4 },
    { since: "2030-05", spent: 7 },
  ]);
  const metrics = await (await server.request("/metrics")).text();
  expect(metrics).toContain('svc_agent_spent{agent="spender",period="month"} 7');
  expect(metrics).toContain('svc_agent_budget{agent="spender",period="month"} 11');
});

it("a job is refused once the budget is used up, until the next day; others are not", async () => {
  const { server } = await serve();
  await using _ = server;
  await spend(server, "a", 10);

  const refused = await start(server, "b", 1);
  const fork = await server.request("/jobs/a/fork", { json: { from: "start" } });
  const repeated = await start(server, "a", 10);
  const other = await start(server, "c", 1, "free");
  const text = JSON.stringify(await refused.json());
  ahead += 12 * HOUR;
  const tomorrow = await start(server, "b", 1);

  expect([refused.status, fork.status]).toEqual([429, 429]);
  expect([refused.status, repeated.status, other.status, tomorrow.status]).toEqual([429, 202, 202, 202]);
  const seconds = Number(refused.headers.get("retry-after"));
  expect([seconds > 11.9 * 3600, seconds <= 12 * 3600]).toEqual([true, true]);
  expect(text).toContain("has spent 10 of 10, its budget of the day");
  expect(await until(server.service, "b")).toMatchObject({ status: "completed" });
  expect(server.service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
  expect(await server.service.get(JOBS).find("c")).toBeTruthy();
});

it("an event is sent once when 80 % and when 100 % of a budget are used, also over a crash", async () => {
  const { server, told } = await serve();
  await using _ = server;
  const shares = () => told.map(({ details }) => [details.period, details.share, details.spent]);

  await spend(server, "a", 8);
  await expect.poll(shares).toEqual([["day", 0.8, 8]]);
  await spend(server, "b", 1);
  await expect.poll(shares).toEqual([
    ["day", 0.8, 8],
    ["month", 0.8, 9],
  ]);
  // What needs a person is kept for two seconds.
  ahead += 3000;
  const page = await (await server.request("/admin/", { headers: { accept: "text/html" } })).text();
  await spend(server, "c", 2);
  await server.crash();
  await expect
    .poll(() => shares().slice(2))
    .toEqual([
      ["day", 1, 11],
      ["month", 1, 11],
    ]);
  ahead += 30 * 24 * HOUR;
  await spend(server, "d", 9);
  await expect
    .poll(() => shares().slice(4))
    .toEqual([
      ["day", 0.8, 9],
      ["month", 0.8, 9],
    ]);

  expect(told[0]).toMatchObject({
    source: { agent: "spender" },
    type: "agent.anomaly",
    object_type: "agent",
    details: { reason: "budget", agent: "spender", since: "2030-05-10", budget: 10 },
  });
  expect(page).toContain("spender has used 90% of its budget of the day.");
  expect(page).toMatch(/Health<\/span> The service is well/);
  expect(page).toContain("$9.00 of $10.00 today");
});

it.each([
  [{}, " needs day or month"],
  [{ month: 0 }, " must have amounts above 0"],
  [{ week: 5 }, ".week is not known here, only day, month, refuse"],
  [{ day: 5, refuse: "yes" }, " must have true or false as refuse"],
])("the budget %j is refused", async (budget, problem) => {
  const methods = { job_start: { run: () => null } };
  const agent = defineAgent({ name: "Wrong", version: "1", budget: budget as never, methods });

  await expect(testServer({ agents: [agent] })).rejects.toThrow(`Agent "Wrong": budget${problem}`);
});
