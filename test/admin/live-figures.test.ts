import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";

let release = () => {};
let released = Promise.resolve();
beforeEach(() => {
  released = new Promise((resolve) => {
    release = resolve;
  });
});

/** Spends in steps, then works on until it is released, or ends. */
const spender = defineAgent({
  name: "Spender",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [
        { name: "costs", field_type: "JSONField" },
        { name: "stays", field_type: "BooleanField" },
      ],
      run: async ({ job, fields }) => {
        for (const [at, cost] of (fields.costs as number[]).entries())
          await job.step(`model-${at}`, () => at, { cost });
        if (fields.stays) await job.step("long", () => released);
        return {};
      },
    },
  },
});

/** Jobs that run and have ended; `late` started 100 minutes after the others. */
async function startAll() {
  const server = await testServer({ agents: [spender] });
  onTestFinished(async () => {
    release();
    await server[Symbol.asyncDispose]();
  });
  const jobs = server.service.get(JOBS);
  const start = (id: string, costs: readonly number[], stays: boolean) =>
    server.request("/agents/spender/jobs", {
      json: { job_context: { job_id: id }, job_fields: { costs, stays } },
    });
  const costs = async () => (await jobs.list()).items.map(({ total_cost }) => total_cost);
  // All of it on one day.
  if (new Date().getUTCHours() >= 21) await server.advance("4h");
  await start("runaway", [0.7, 0.73], true);
  await start("modest", [0.01], true);
  await start("dear", [2], false);
  await start("cheap", [0.0005], false);
  await expect.poll(async () => (await costs()).reduce((sum, cost) => sum + cost, 0)).toBeCloseTo(3.4405);
  await expect.poll(async () => (await jobs.countBy("status")).completed).toBe(2);
  await server.advance("100m");
  await start("late", [1], true);
  await expect.poll(async () => (await jobs.get("late")).total_cost).toBe(1);
  const idsOf = async (query: string) => {
    const { items, total } = (await (await server.request(`/admin/api/jobs?${query}`)).json()) as Rows;
    return { ids: items.map(({ id }) => id), total };
  };
  return { server, jobs, idsOf };
}

interface Preview {
  readonly id: string;
  readonly hash: string;
}
interface Today {
  readonly cost_today: number;
}
interface Rows {
  readonly items: readonly { readonly id: string; readonly total_cost: number }[];
  readonly total: number;
}

describe("the list of jobs finds what it shows", () => {
  it("by what a job that runs has cost so far", async () => {
    const { idsOf } = await startAll();
    expect(await idsOf("min_cost=1&sort=-total_cost")).toEqual({
      ids: ["dear", "runaway", "late"],
      total: 3,
    });
    expect(await idsOf("min_cost=0.1&status=in_progress&sort=name")).toMatchObject({ total: 2 });
    expect((await idsOf("sort=-total_cost")).ids).toEqual(["dear", "runaway", "late", "modest", "cheap"]);
    expect(await idsOf("sort=total_cost&limit=2&skip=1")).toEqual({ ids: ["modest", "late"], total: 5 });
    expect(await idsOf("min_cost=1.5")).toEqual({ ids: ["dear"], total: 1 });
  });

  it("by how long a job that runs has taken so far", async () => {
    const { idsOf } = await startAll();
    expect((await idsOf("min_duration=6000&sort=-duration")).ids.sort()).toEqual(["modest", "runaway"]);
    expect((await idsOf("sort=-duration")).ids.slice(0, 2).sort()).toEqual(["modest", "runaway"]);
    expect(await idsOf("min_duration=6000&min_cost=1")).toEqual({ ids: ["runaway"], total: 1 });
    expect(await idsOf("min_duration=7000")).toEqual({ ids: [], total: 0 });
  });

  it("also where it counts and exports", async () => {
    const { server } = await startAll();
    const tabs = await (await server.request("/admin/api/jobs/tabs?min_cost=1")).text();
    const csv = await (await server.request("/admin/api/jobs/export?min_cost=1&sort=-total_cost")).text();

    expect(tabs.replaceAll(/<[^>]*>/g, " ")).toMatch(/All\s+3.*In progress\s+2|All\s+3.*Running\s+2/s);
    expect(
      csv
        .trim()
        .split("\r\n")
        .slice(1)
        .map((line) => line.split(",")[0]),
    ).toEqual(["dear", "runaway", "late"]);
  });

  it("and a bulk action applies to exactly that", async () => {
    const { server, jobs } = await startAll();
    const json = { kind: "jobs", action: "stop", filter: { min_cost: "1" } };
    const preview = (await (await server.request("/admin/api/bulk", { json })).json()) as Preview;
    await server.request(`/admin/api/bulk/${preview.id}/run`, { json: { hash: preview.hash } });
    release();
    await expect.poll(async () => (await jobs.get("late")).status).toBe("cancelled");

    expect(preview).toMatchObject({ count: 2, left_out: 1 });
    expect((await jobs.get("runaway")).status).toBe("cancelled");
    await expect.poll(async () => (await jobs.get("modest")).status).toBe("completed");
  });
});

it("the cost of today has what jobs that run have cost, once", async () => {
  const { server } = await startAll();
  const today = async () => {
    const { cost_today } = (await (await server.request("/admin/api/dashboard")).json()) as Today;
    return cost_today;
  };
  const first = await today();
  release();
  await expect.poll(async () => (await server.service.get(JOBS).countBy("status")).completed).toBe(5);

  expect(first).toBeCloseTo(4.4405);
  expect(await today()).toBeCloseTo(4.4405);
});
