import { admin } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agentOf } from "../runs/_agent.ts";
import { jobContext, until } from "../runs/_jobs.ts";

const DAY = 86_400_000;

/** Spends `n` in a step that calls a model. */
const spenders = ["Ärzte", "Small"].map((name) =>
  agentOf(
    async ({ job, fields }) => {
      const cost = Number(fields.n) / 100;
      await job.step("ask", () => "said", { kind: "model", cost });
      const item = await job.openCase({ id: `${job.id}-case`, name: 'Łódź; a "case"' });
      await item.close();
      return "done";
    },
    { name },
  ),
);

interface Dashboard {
  readonly cost_today: number;
  readonly cost_month: number;
  readonly cost_forecast: number | null;
  readonly well: { readonly costs: readonly { readonly agent: string; cost: number; jobs: number }[] };
}

async function serve() {
  let now = Date.UTC(2030, 3, 8, 12);
  const began = Date.now();
  const server = await testServer({
    agents: spenders,
    plugins: [admin({ currency: "€" })],
    clock: () => new Date(now + Date.now() - began),
  });
  const spend = async (id: string, n: number, agent = "arzte") => {
    await server.request(`/agents/${agent}/jobs`, {
      json: { job_context: jobContext(id), job_fields: { n: 100 * n } },
    });
    return until(server.service, id);
  };
  const pass = (days: number) => {
    now += days * DAY;
  };
  return { server, spend, pass };
}
const read = async (server: TestServer, range: string) =>
  (await (await server.request(`/admin/api/dashboard?range=${range}`)).json()) as Dashboard;

it("what agents spent is exact for each range, also of jobs that run over midnight or were deleted, with a forecast", async () => {
  const { server, spend, pass } = await serve();
  await using _ = server;
  const slug = ((await (await server.request("/agents")).json()) as { slug: string }[])[0]!.slug;
  await spend("a", 3, slug);
  expect(await read(server, "7d")).toMatchObject({ cost_today: 3, cost_month: 3, cost_forecast: null });
  pass(1);
  await spend("b", 1, slug);
  await spend("c", 0.5, "small");
  pass(1);
  await spend("d", 0.25, "small");
  await server.request("/admin/api/jobs/b?permanent=true", { method: "DELETE" });

  expect((await read(server, "30d")).well.costs).toEqual([
    { agent: slug, cost: 4, jobs: 1 },
    { agent: "small", cost: 0.75, jobs: 2 },
  ]);
  expect((await read(server, "24h")).well.costs).toEqual([{ agent: "small", cost: 0.25, jobs: 1 }]);
  // Two whole days have cost 4.5; twenty days are left after this one.
  expect(await read(server, "1h")).toMatchObject({
    cost_today: 0.25,
    cost_month: 4.75,
    cost_forecast: 4.5 + 2.25 + 20 * 2.25,
  });
  const html = await (await server.request("/admin/?range=7d", { headers: { accept: "text/html" } })).text();
  expect(html).toContain("€4.75 this month, about €51.75 by its end");
  pass(30);
  expect(await read(server, "24h")).toMatchObject({ cost_today: 0, cost_month: 0, well: { costs: [] } });
});

it("downloads of jobs, cases, models and the audit log open in a spreadsheet, and are JSON, too", async () => {
  const { server, spend } = await serve();
  await using _ = server;
  const slug = ((await (await server.request("/agents")).json()) as { slug: string }[])[0]!.slug;
  await spend("a", 3, slug);
  await server.request(`/admin/api/agents/${slug}/pause`, { method: "POST" });
  const download = async (path: string) => {
    const response = await server.request(`/admin/api/${path}`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    expect(response.headers.get("content-disposition")).toMatch(/^attachment; filename="\w+\.csv"$/);
    // The byte order mark of UTF-8.
    expect([...bytes.slice(0, 3)]).toEqual([0xef, 0xbb, 0xbf]);
    return new TextDecoder().decode(bytes).trim().split("\r\n");
  };

  const [columns, job, ...others] = await download("jobs/export");
  expect(columns).toMatch(/total_cost.*tags,started_by,currency$/);
  expect(job).toMatch(/,3,.*€$/);
  expect(others).toEqual([]);
  const cases = await download("cases/export?job_id=a");
  expect(cases).toHaveLength(2);
  expect(cases[1]).toContain('"Łódź; a ""case"""');
  const models = await download("models/export?days=7");
  expect(models[0]).toBe(
    "day,agent,model,calls,failed,input_tokens,output_tokens,cached_tokens,reasoning_tokens,cost,currency",
  );
  expect(models[1]).toBe(`2030-04-08,${slug},unknown,1,0,0,0,0,0,3,€`);
  const audit = await download("audit/export?action=agent.pause");
  expect(audit).toHaveLength(2);
  expect(audit[1]).toContain(`agent ${slug}`);
  for (const kind of ["jobs", "cases", "models", "audit"]) {
    const rows = (await (await server.request(`/admin/api/${kind}/export?format=json`)).json()) as object[];
    expect(rows.length).toBeGreaterThan(0);
  }
});

it("a forecast is about all days of the last week, also about those on which nothing was spent", async () => {
  const { server, spend, pass } = await serve();
  await using _ = server;
  await spend("a", 3, "small");
  pass(30);
  // On the eighth of May, after a week without costs.
  expect(await read(server, "24h")).toMatchObject({ cost_today: 0, cost_month: 0, cost_forecast: 0 });
  await spend("b", 7, "small");
  pass(1);
  // A day of the week has cost 7, the others nothing; 22 days are left after this one.
  expect(await read(server, "24h")).toMatchObject({ cost_month: 7, cost_forecast: 7 + 1 + 22 });
});
