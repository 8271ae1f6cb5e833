import { type AgentDefinition, defineAgent, events, type ServerOptions } from "agent-control-service";
import { CASES, CLOCK, CONTROL_SYSTEM, JOBS, RETENTION, RUNNER, STORE } from "agent-control-service/plugin";
import type { Store } from "agent-control-service/store";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { sweep } from "../../src/core/retention/sweep.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { bodies, sharedControl } from "../events/_control.ts";
import { agentOf } from "../runs/_agent.ts";
import { jobContext, startJob, until } from "../runs/_jobs.ts";

const HOUR = 3_600_000;
const shared = sharedControl();

/** Ends as its fields say, with as many cases as they say. */
const worker = defineAgent({
  name: "Worker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: [
        { name: "cases", field_type: "IntegerField", default: 0 },
        { name: "fail", field_type: "BooleanField", default: false },
      ],
      run: async ({ job, fields }) => {
        for (let n = 0; n < Number(fields.cases); n++) {
          const item = await job.openCase({ id: `${job.id}-case-${n}`, name: "Case" });
          await item.step("work", () => n);
          await item.close();
        }
        if (fields.fail) throw new Error("it was asked to fail");
        return "done";
      },
    },
  },
});

class Clock {
  #ahead = 0;
  readonly now = (): Date => new Date(Date.now() + this.#ahead);
  forward(milliseconds: number): void {
    this.#ahead += milliseconds;
  }
}

async function serve(
  options: Partial<ServerOptions> = {},
): Promise<{ server: TestServer; clock: Clock; run: () => Promise<number> }> {
  const clock = new Clock();
  const server = await testServer({ agents: [worker], clock: clock.now, ...options });
  const run = async () => {
    const removed = await server.service.get(RETENTION).run();
    return removed.reduce((sum, { jobs }) => sum + jobs, 0);
  };
  return { server, clock, run };
}

async function work(server: TestServer, id: string, fields: Record<string, unknown> = {}): Promise<void> {
  await startJob(server.service, { id, fields });
  await until(server.service, id);
}

const idsOf = async (server: TestServer): Promise<string[]> =>
  (await server.service.get(JOBS).list({ sort: "id" })).items.map(({ id }) => id);

describe("retention", () => {
  it("removes expired jobs with their cases and run logs, and keeps the others", async () => {
    const { server, clock, run } = await serve({ retention: { completed: "2h" } });
    await using _ = server;
    await work(server, "old", { cases: 3 });
    await work(server, "failed", { fail: true, cases: 1 });
    clock.forward(HOUR);
    await work(server, "young", { cases: 1 });
    clock.forward(HOUR + 1000);

    const removed = await run();

    expect(removed).toBe(1);
    expect(await idsOf(server)).toEqual(["failed", "young"]);
    const cases = await server.service.get(CASES).list({ sort: "id" });
    expect(cases.items.map(({ id }) => id)).toEqual(["failed-case-0", "young-case-0"]);
    expect(await server.service.get(STORE).log("Run").last("old")).toBe(0);
    expect(await server.service.get(STORE).log("Run").last("young")).toBeGreaterThan(0);
  });

  it("keeps everything by default", async () => {
    const { server, clock, run } = await serve();
    await using _ = server;
    await work(server, "one");
    clock.forward(20 * HOUR);

    expect(await run()).toBe(0);
    expect(await idsOf(server)).toEqual(["one"]);
  });

  it("counts from the end of a job, not from its beginning, and never removes a running one", async () => {
    const asker = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: `${job.id}-case`, name: "Case" });
      await item.ask({ question: "Continue?", fields: [{ name: "text" }] });
      await item.close();
    });
    const { server, clock, run } = await serve({
      agents: [asker],
      retention: { completed: "1h", failed: "1h", cancelled: "1h" },
    });
    await using _ = server;
    await startJob(server.service, { id: "long" });
    await until(server.service, "long", ["awaiting"]);
    clock.forward(10 * HOUR);
    expect(await run()).toBe(0);
    await server.service.get(RUNNER).answer("long", "long-case", { answer: {}, message: null });
    await until(server.service, "long");
    clock.forward(HOUR - 60_000);
    expect(await run()).toBe(0);
    clock.forward(2 * 60_000);

    expect(await run()).toBe(1);
  });

  it("an agent's own times override the service's, and can keep its jobs indefinitely", async () => {
    const named = (name: string, retention?: AgentDefinition["retention"]): AgentDefinition => ({
      ...worker,
      name,
      ...(retention && { retention }),
    });
    const agents = [
      named("Plain"),
      named("Longer", { completed: "5h" }),
      named("Archive", { completed: "keep" }),
    ];
    const { server, clock, run } = await serve({ agents, retention: { completed: "1h" } });
    await using _ = server;
    for (const slug of ["plain", "longer", "archive"]) {
      const request = { job_context: jobContext(slug), job_fields: {} };
      await server.service.get(RUNNER).start(slug, request);
      await until(server.service, slug);
    }
    clock.forward(2 * HOUR);
    expect(await run()).toBe(1);
    expect(await idsOf(server)).toEqual(["archive", "longer"]);
    clock.forward(6 * HOUR);
    expect(await run()).toBe(1);

    expect(await idsOf(server)).toEqual(["archive"]);
  });

  it.each([
    ["was restarted", false],
    ["was restarted and failed again", true],
  ])("keeps a job that %s since it was found", async (_what, ends) => {
    const { server, clock } = await serve({ retention: { failed: "1h" } });
    await using _ = server;
    await work(server, "again", { fail: true });
    await work(server, "gone", { fail: true });
    clock.forward(2 * HOUR);
    const store = server.service.get(STORE);
    const beginAgain: Store = new Proxy(store, {
      get(target, name) {
        if (name !== "table") return Reflect.get(target, name).bind(target);
        return (table: "Job") => ({
          ...target.table(table),
          ids: async (query: object) => {
            const ids = await target.table(table).ids(query);
            if (ids.length > 0) await server.service.get(RUNNER).retry("again", "start", "someone");
            if (ids.length > 0 && ends) await until(server.service, "again");
            return ids;
          },
        });
      },
    });

    const removed = await sweep(
      {
        store: beginAgain,
        ledger: server.service.get(LEDGER),
        policyOf: () => ({ completed: null, failed: HOUR, cancelled: null }),
        isOver: () => false,
        note: async () => {},
      },
      clock.now(),
    );

    expect(removed).toMatchObject([{ jobs: 1 }]);
    expect(await idsOf(server)).toEqual(["again"]);
  });

  it("removes many jobs in batches, none of which blocks others for long", async () => {
    // Without retention of its own, which could remove some of them first.
    const { server, clock } = await serve();
    await using _ = server;
    await Promise.all(Array.from({ length: 30 }, (_, n) => work(server, `job-${n}`, { cases: 20 })));
    clock.forward(2 * HOUR);

    const batches = await sweep(
      {
        ...{ store: server.service.get(STORE), ledger: server.service.get(LEDGER) },
        policyOf: () => ({ completed: HOUR, failed: null, cancelled: null }),
        isOver: () => false,
        note: async () => {},
      },
      clock.now(),
    );

    expect(await idsOf(server)).toEqual([]);
    expect(batches.length).toBeGreaterThan(2);
    for (const { jobs, cases } of batches) expect(jobs + cases).toBeLessThan(200 + 21);
  });

  it("undelivered events are sent after their job is removed, and its removal is not reported", async () => {
    const control = shared();
    await control.obey({ mode: "503", times: 1000 });
    const impatient = events({ backoff: { initial: 0.02, max: 0.2 }, breaker: { initial: 0.05, max: 0.3 } });
    const { server, clock, run } = await serve({
      retention: { completed: "1h" },
      account: control.account,
      plugins: [impatient],
    });
    await using _ = server;
    await work(server, "told", { cases: 1 });
    clock.forward(2 * HOUR);
    expect(await run()).toBe(1);
    expect(await idsOf(server)).toEqual([]);
    await control.obey({ mode: "ok" });

    await expect
      .poll(() => server.service.get(CONTROL_SYSTEM).counts())
      .toMatchObject({ waiting: 0, dead: 0 });

    const told = bodies((await control.received()).filter(({ kind }) => kind === "event"));
    const types = told.filter((body) => body.source.job === "told").map((body) => body.event_type);
    expect(new Set(types)).toContain("agent.job.end");
    expect(types.at(-1)).toBe("agent.job.end");
  });

  it("works by itself, and continues after a restart", async () => {
    const first = await serve({ store: undefined, retention: { completed: "keep" } });
    for (const id of ["one", "two"]) await work(first.server, id);
    await first.server.service.close();

    const { dataDir } = first.server;
    const second = await serve({ store: undefined, dataDir, retention: { completed: "1s" } });
    await using server = second.server;
    await using _ = first.server;

    await expect.poll(() => idsOf(server)).toEqual([]);
    const state = await server.service.get(RETENTION).state();
    expect(state).toMatchObject({ jobs: 2, cases: 0, last: { agent: worker.name.toLowerCase() } });
    await expect.poll(() => server.logs.join("")).toContain("expired jobs were removed");
  });

  it("does not remove anything immediately if the clock was set far forward, and says so", async () => {
    const { server, clock, run } = await serve({ retention: { completed: "30d" } });
    await using _ = server;
    await work(server, "one");
    expect(await run()).toBe(0);
    clock.forward(400 * 24 * HOUR);

    expect(await run()).toBe(0);

    expect(await idsOf(server)).toEqual(["one"]);
    expect(server.logs.join("")).toMatch(/WARN .*the clock is far ahead.* days=400/);
  });

  it("distrusts the clock at a start as much as while it runs", async () => {
    const first = await serve({ store: undefined });
    await work(first.server, "one");
    await first.server.service.close();
    const clock = new Clock();
    clock.forward(400 * 24 * HOUR);

    const { dataDir } = first.server;
    const options = { store: undefined, dataDir, clock: clock.now, retention: { completed: "30d" } } as const;
    const { server, run } = await serve(options);
    await using _first = first.server;
    await using _second = server;

    expect(server.service.get(CLOCK)().getTime()).toBeGreaterThan(Date.now() + 399 * 24 * HOUR);
    expect(await run()).toBe(0);
    expect(await idsOf(server)).toEqual(["one"]);
  });

  it("lists expired jobs without removing them", async () => {
    const { server, clock } = await serve({ retention: { completed: "1h", failed: "3h" } });
    await using _ = server;
    for (const id of ["a", "b"]) await work(server, id);
    await work(server, "c", { fail: true });
    const oldest = (await server.service.get(JOBS).get("a")).finished_at;
    clock.forward(2 * HOUR);

    const due = await server.service.get(RETENTION).due();

    expect(due).toMatchObject([{ status: "completed", jobs: 2, oldest }]);
    expect(await idsOf(server)).toHaveLength(3);
  });
});
