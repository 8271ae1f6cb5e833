import { type AgentDefinition, defineAgent, type ServerOptions } from "agent-control-service";
import { JOBS, RETENTION, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, Life } from "./_lives.ts";

/** Counts what runs at the same time, by workspace: the beginning of the id of a job. */
class Gauge {
  readonly running: Record<string, number> = {};
  readonly most: Record<string, number> = {};
  readonly #meet: Readonly<Record<string, number>>;
  readonly #met = new Map<string, ReturnType<typeof gate>>();

  /** `meet` says of which workspaces jobs wait until so many run at the same time. */
  constructor(meet: Readonly<Record<string, number>> = {}) {
    this.#meet = meet;
  }

  async during(id: string, work: () => Promise<unknown>): Promise<void> {
    const workspace = id.split("-")[0]!;
    this.running[workspace] = (this.running[workspace] ?? 0) + 1;
    this.most[workspace] = Math.max(this.most[workspace] ?? 0, this.running[workspace]!);
    await this.#meeting(workspace);
    await work();
    this.running[workspace]!--;
  }

  #meeting(workspace: string): Promise<unknown> | undefined {
    const count = this.#meet[workspace];
    if (count === undefined) return undefined;
    const met = this.#met.get(workspace) ?? gate();
    this.#met.set(workspace, met);
    if (this.most[workspace]! >= count) met.open();
    return met.opened;
  }
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 20));

/** Works, waits without a slot, and works again. */
const worker = (gauge: Gauge): AgentDefinition =>
  agentOf(
    async ({ job }) => {
      await job.step("work", () => gauge.during(job.id, soon));
      await job.sleep(0.05);
      await job.step("more", () => gauge.during(job.id, soon));
    },
    { name: "Worker" },
  );

describe("the limit of a workspace", () => {
  it("holds for its jobs, those that come back from a wait too, and not for those of others", async () => {
    const gauge = new Gauge({ free: 5, small: 2 });
    const workspaces = { acme: { maxConcurrentJobs: 1 }, small: { maxConcurrentJobs: 2 } };
    await using server = await testServer({ agents: [worker(gauge)], workspaces });
    const ids = ["acme", "small", "free"].flatMap((name) => [1, 2, 3, 4, 5].map((n) => `${name}-${n}`));

    for (const id of ids) {
      const job_context = { job_id: id, workspace_id: id.split("-")[0] };
      await server.request("/agents/worker/jobs", { json: { job_context } });
    }
    const jobs = server.service.get(JOBS);
    const isOver = async () => (await jobs.list({ where: { status: "completed" }, limit: 0 })).total;
    await expect.poll(isOver, { timeout: 20_000 }).toBe(15);

    expect(gauge.most).toEqual({ acme: 1, small: 2, free: 5 });
  });

  it("is one for each workspace without a line of its own, where that is declared", async () => {
    const gauge = new Gauge({ large: 3 });
    const workspaces = { "*": { maxConcurrentJobs: 1 }, large: { maxConcurrentJobs: 3 } };
    await using server = await testServer({ agents: [worker(gauge)], workspaces });
    const ids = ["one", "two", "large"].flatMap((name) => [1, 2, 3, 4].map((n) => `${name}-${n}`));

    for (const id of ids) {
      const job_context = { job_id: id, workspace_id: id.split("-")[0] };
      await server.request("/agents/worker/jobs", { json: { job_context } });
    }
    const jobs = server.service.get(JOBS);
    const isOver = async () => (await jobs.list({ where: { status: "completed" }, limit: 0 })).total;
    await expect.poll(isOver, { timeout: 20_000 }).toBe(12);

    expect(gauge.most).toEqual({ one: 1, two: 1, large: 3 });
  });

  it("holds for a workspace with any name", async () => {
    const gauge = new Gauge();
    await using server = await testServer({
      agents: [worker(gauge)],
      workspaces: { "*": { maxConcurrentJobs: 1 } },
    });
    const jobs = server.service.get(JOBS);

    const statuses = await Promise.all(
      ['"half', "a b", "half \ud800", "half \ud800"].map(async (workspace_id, n) => {
        const json = { job_context: { job_id: `any-${n}`, workspace_id } };
        return (await server.request("/agents/worker/jobs", { json })).status;
      }),
    );
    const isOver = async () => (await jobs.list({ where: { status: "completed" }, limit: 0 })).total;
    await expect.poll(isOver, { timeout: 20_000 }).toBe(4);

    expect(statuses).toEqual([202, 202, 202, 202]);
  });

  it("holds for all instances together, and leaves no row", async () => {
    const store = await emptyStore();
    const gauge = new Gauge({ acme: 2, free: 3 });
    const shared = { beat: 50, dead: 600_000, giveUp: 600_000, look: 20 };
    const join = async () => {
      const life = new Life(store, worker(gauge), { shared, workspaces: { acme: { maxConcurrentJobs: 2 } } });
      await life.resume();
      onTestFinished(() => void life.runner.close(0));
      return life;
    };
    const lives = [await join(), await join(), await join()];
    const ids = ["acme", "free"].flatMap((name) => [1, 2, 3, 4, 5, 6].map((n) => `${name}-${n}`));

    await Promise.all(
      ids.map((id, n) =>
        lives[n % 3]!.runner.start("worker", {
          job_context: { ...jobContext(id), workspace_id: id.split("-")[0]! },
          job_fields: {},
        }),
      ),
    );
    const isEnded = async (id: string) => isTerminal((await lives[0]!.jobs.get(id)).status);
    await expect
      .poll(async () => (await Promise.all(ids.map(isEnded))).every(Boolean), { timeout: 30_000 })
      .toBe(true);

    expect(gauge.most.acme).toBe(2);
    expect(gauge.most.free).toBeGreaterThan(2);
    await expect.poll(() => store.table("SharedLimit").ids()).toEqual([]);
  });
});

/** Spends `n`, in each of the ways in which a job can. */
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
  },
  { name: "Spender" },
);

const HOUR = 3_600_000;
let ahead = 0;
async function serve(options: Partial<ServerOptions>): Promise<TestServer> {
  ahead = new Date(Date.UTC(2030, 4, 10, 12)).getTime() - Date.now();
  const server = await testServer({
    agents: [spender],
    clock: () => new Date(Date.now() + ahead),
    ...options,
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}
async function spend(server: TestServer, workspace_id: string, n: number) {
  const response = await server.request("/agents/spender/jobs", {
    json: { job_context: { workspace_id }, job_fields: { n } },
  });
  const job = (await response.json()) as { id: string; error?: string };
  if (response.status === 202)
    await expect
      .poll(async () => (await server.service.get(JOBS).get(job.id)).status, { timeout: 10_000 })
      .toBe("completed");
  return { status: response.status, error: job.error, id: job.id };
}

describe("the budget of a workspace", () => {
  const workspaces = { acme: { budget: { day: 10, month: 11, refuse: true } } };

  it("counts all that its jobs spend, of all agents, and refuses more jobs until the next day or month", async () => {
    const server = await serve({ workspaces });

    const first = await spend(server, "acme", 4);
    const second = await spend(server, "acme", 6);
    const refused = await spend(server, "acme", 1);
    const other = await spend(server, "other", 100);
    await server.request(`/admin/api/jobs/${first.id}?permanent=true`, { method: "DELETE" });
    const still = await spend(server, "acme", 1);
    ahead += 24 * HOUR;
    const nextDay = await spend(server, "acme", 1);
    const month = await spend(server, "acme", 1);

    expect([first.status, second.status, other.status]).toEqual([202, 202, 202]);
    expect(refused).toMatchObject({
      status: 429,
      error: 'Workspace "acme" has spent 10 of 10, its budget of the day: it starts no more jobs',
    });
    expect(still.status).toBe(429);
    expect(nextDay.status).toBe(202);
    expect(month.error).toContain("has spent 11 of 11, its budget of the month");
  });

  it("refuses a fork, too", async () => {
    const server = await serve({ workspaces });
    const { id } = await spend(server, "acme", 10);

    const fork = await server.request(`/jobs/${id}/fork`, { json: { from: "start" } });

    expect(fork.status).toBe(429);
  });

  it("is warned of once at 80 %, and once when it is used up", async () => {
    const lines: string[] = [];
    const budget = { day: 10 };
    const server = await serve({ workspaces: { "*": { budget } }, logTo: (line) => lines.push(line) });
    const warned = () => lines.filter((line) => line.includes("a workspace has used"));

    await spend(server, "acme", 8);
    await expect.poll(warned, { timeout: 10_000 }).toHaveLength(1);
    await spend(server, "acme", 4);
    await expect.poll(warned, { timeout: 10_000 }).toHaveLength(2);
    await spend(server, "other", 1);

    expect(warned()[0]).toContain("80%");
    expect(warned()[1]).toContain("100%");
    expect(warned().every((line) => line.includes("acme"))).toBe(true);
  });
});

it("the warnings of many workspaces read the sums of those that have spent something", async () => {
  const lines: string[] = [];
  const server = await serve({
    workspaces: { "*": { budget: { day: 10 } } },
    logTo: (line) => lines.push(line),
  });
  const warned = (name: string) => lines.some((line) => line.includes("has used") && line.includes(name));
  const store = server.service.get(STORE);
  const read: unknown[] = [];
  const { table } = store;
  store.table = (name) => {
    const found = table.call(store, name);
    if (name !== "WorkspaceSpending") return found as never;
    const list: typeof found.list = (query) => {
      read.push(query?.where?.workspace);
      return found.list(query);
    };
    return { ...found, list } as never;
  };

  await spend(server, "first", 9);
  await expect.poll(() => warned("first"), { timeout: 10_000 }).toBe(true);
  await spend(server, "second", 9);
  await expect.poll(() => warned("second"), { timeout: 10_000 }).toBe(true);

  expect(read.filter((name) => name !== undefined).length).toBeGreaterThan(0);
  expect(read.slice(-1)).toEqual(["second"]);
  expect(read.filter((name) => name === undefined).length).toBeLessThanOrEqual(1);
});

describe("the retention of a workspace", () => {
  it("comes before that of the agent and of the service, for its own jobs only", async () => {
    const server = await serve({
      retention: { completed: "10h" },
      workspaces: { short: { retention: { completed: "1h" } }, long: { retention: { completed: "keep" } } },
    });
    for (const name of ["short", "long", "other"]) await spend(server, name, 1);
    const left = async () =>
      (await server.service.get(JOBS).list()).items.map(({ job_context }) => job_context.workspace_id).sort();
    const retention = server.service.get(RETENTION);

    ahead += 2 * HOUR;
    const dueSoon = (await retention.due()).map(({ jobs, workspaces }) => [jobs, workspaces]);
    await retention.run();
    const early = await left();
    ahead += 10 * HOUR;
    await retention.run();

    expect(dueSoon).toEqual([[1, ["short"]]]);
    expect(early).toEqual(["long", "other"]);
    expect(await left()).toEqual(["long"]);
  });

  it("keeps deleted jobs as long as any workspace says, unless their own time is over", async () => {
    const server = await serve({
      deletedRetention: "keep",
      retention: { completed: "1h" },
      workspaces: { long: { retention: { completed: "10h" } } },
    });
    const { id } = await spend(server, "long", 1);
    await server.request(`/admin/api/jobs/${id}`, { method: "DELETE" });
    const retention = server.service.get(RETENTION);

    ahead += 2 * HOUR;
    await retention.run();
    const kept = (await server.service.get(JOBS).deleted()).total;
    ahead += 10 * HOUR;
    await retention.run();

    expect([kept, (await server.service.get(JOBS).deleted()).total]).toEqual([1, 0]);
  });
});

it.each([
  [{ acme: { budgets: { day: 1 } } }, 'workspaces["acme"]: budgets is not known: did you mean budget?'],
  [{ acme: { budget: { days: 1 } } }, "days is not known: did you mean day?"],
  [{ acme: { budget: { day: 0 } } }, "budget must have amounts above 0"],
  [{ acme: { maxConcurrentJobs: 0 } }, "maxConcurrentJobs must be a whole number of 1 or more"],
  [{ acme: { retention: { completed: "soon" } } }, "retention.completed must be a duration"],
  [{ acme: null }, "must be an object"],
])("a wrong line of workspaces is refused at the start, by name: %j", async (workspaces, problem) => {
  const agents = [defineAgent({ name: "A", version: "1.0.0", methods: { job_start: { run: () => 1 } } })];

  await expect(testServer({ agents, workspaces: workspaces as never })).rejects.toThrow(problem);
});
