import { createServer, defineAgent } from "agent-control-service";
import { RUNNER } from "agent-control-service/plugin";
import { createMemoryStore, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, test } from "vitest";
import { startTimer } from "../../src/core/base/timer.ts";
import { StartRates } from "../../src/core/runs/queue/start-rates.ts";
import { SimRandom } from "../store/sim-random.ts";
import { agentOf } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";

test("in any period, no more jobs of an agent start than its rate limit allows, also over crashes", async () => {
  const begun: string[] = [];
  const limited = agentOf(({ job }) => job.step("work", () => void begun.push(job.id)), {
    rateLimit: { limit: 2, period: "1h" },
  });
  const free = agentOf(({ job }) => void begun.push(job.id), { name: "Free" });
  await using server = await testServer({ agents: [limited, free] });
  const start = (id: string, slug = "worker") =>
    server.request(`/agents/${slug}/jobs`, { json: { job_context: jobContext(id) } });
  for (const id of ["1", "2", "3", "4", "5"]) expect((await start(id)).status).toBe(202);
  await start("other", "free");

  await expect.poll(() => begun.toSorted()).toEqual(["1", "2", "other"]);
  const { message } = (await (await server.request("/jobs/3")).json()) as { message: string };
  expect(message).toMatch(/^The job waits for the rate limit of its agent: the next one starts at 20/);
  expect(await server.service.get(RUNNER).position("4")).toEqual({ position: 2, queued: 3 });
  await server.advance("30m");
  await server.crash();
  await server.advance("29m");
  expect(begun).toHaveLength(3);
  await server.advance("2m");
  // Where instances share the store, the next search finds them.
  await expect.poll(() => begun.slice(3)).toEqual(["3", "4"]);
  await server.crash();
  await server.advance("1m");
  await start("6");
  expect(begun).toHaveLength(5);
  await server.advance("61m");
  await expect.poll(() => begun.slice(5)).toEqual(["5", "6"]);
});

test("starts of each key of a rate limit count apart, also over crashes; jobs without a key do not count", async () => {
  const begun: string[] = [];
  const customer = v.optional(v.string());
  const agent = defineAgent({
    ...{ name: "Worker", version: "1.0.0" },
    rateLimit: { limit: 1, period: "1h", key: "customer" },
    methods: {
      job_start: {
        fields: v.object({ customer }),
        run: ({ job }) => job.step("work", () => void begun.push(job.id)),
      },
    },
  });
  await using server = await testServer({ agents: [agent] });
  const start = (id: string, customer?: string) =>
    server.request("/agents/worker/jobs", {
      json: { job_context: jobContext(id), job_fields: { customer } },
    });
  for (const id of ["a1", "a2", "a3"]) await start(id, "a");
  await start("b1", "b");
  for (const id of ["free1", "free2"]) await start(id);

  await expect.poll(() => begun.toSorted()).toEqual(["a1", "b1", "free1", "free2"]);
  const { message } = (await (await server.request("/jobs/a2")).json()) as { message: string };
  expect(message).toMatch(/^The job waits for the rate limit of its agent: the next one starts at 20/);
  await server.advance("30m");
  await server.crash();
  await start("b2", "b");
  await start("c1", "c");
  await expect.poll(() => begun.slice(4)).toEqual(["c1"]);
  await server.advance("31m");
  await expect.poll(() => begun.slice(5).toSorted()).toEqual(["a2", "b2"]);
  await server.advance("61m");
  await expect.poll(() => begun.slice(7)).toEqual(["a3"]);
});

test("of many keys, those are forgotten that started no job for a period", () => {
  let now = 0;
  const rates = new StartRates({
    startTimer,
    rateOf: () => ({ limit: 1, period: 1000, isKeyed: true }),
    clock: () => new Date(now),
  });
  const names = Array.from({ length: 5000 }, (_, n) => rates.nameOf("a", `customer ${n}`)!);

  for (const name of names) {
    now++;
    rates.started(name);
  }

  expect(rates.size).toBeLessThanOrEqual(2002);
  expect(rates.nextAt(names[3999]!)).toBeUndefined();
  expect(rates.nextAt(names[4001]!)).toBe(5002);
});

test("a job that waits starts when its period is over, where the starts before it turn out to be earlier", () => {
  let now = 0;
  const timers = new Map<() => void, number>();
  const rates = new StartRates({
    rateOf: () => ({ limit: 1, period: 1000 }),
    clock: () => new Date(now),
    startTimer: (milliseconds, fn) => {
      timers.set(fn, now + milliseconds);
      return () => void timers.delete(fn);
    },
  });
  const free = () => {};
  now = 600;
  rates.started("a");
  rates.whenFree("a", free);
  expect([...timers.values()]).toEqual([1600]);

  // What another instance has started.
  rates.set("a", [100]);
  rates.whenFree("a", free);

  expect([...timers.values()]).toEqual([1100]);
});

test("a request that is repeated does not count as a start", async () => {
  const begun: string[] = [];
  const agent = agentOf(({ job }) => void begun.push(job.id), { rateLimit: { limit: 2, period: "1h" } });
  await using server = await testServer({ agents: [agent] });
  const start = (id: string) =>
    server.request("/agents/worker/jobs", { json: { job_context: jobContext(id) } });

  for (const id of ["1", "1", "1", "2"]) expect((await start(id)).ok).toBe(true);

  await expect.poll(() => begun).toEqual(["1", "2"]);
});

test("a job that resumes or is retried does not count as a start, and does not wait for the rate limit", async () => {
  let tries = 0;
  const agent = agentOf(
    async ({ job, fields }) => {
      if (fields.n === 2) await job.sleep("10m");
      if (++tries === 1) throw new Error("once");
      return tries;
    },
    { rateLimit: { limit: 2, period: "1d" } },
  );
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1 });
  const start = (id: string, n: number) =>
    server.request("/agents/worker/jobs", { json: { job_context: jobContext(id), job_fields: { n } } });
  const status = async (id: string) =>
    ((await (await server.request(`/jobs/${id}`)).json()) as { status: string }).status;

  await start("fails", 1);
  await expect.poll(() => status("fails")).toBe("failed");
  await start("sleeps", 2);
  await start("waits", 1);
  await server.request("/jobs/fails/retry", { json: {} });
  await expect.poll(() => status("fails")).toBe("completed");
  await server.advance("11m");
  await expect.poll(() => status("sleeps")).toBe("completed");

  expect(await status("waits")).toBe("stopped");
});

test("a clock that is set back delays a start by no more than a period", () => {
  let now = 1_000_000;
  const rates = new StartRates({
    startTimer,
    rateOf: () => ({ limit: 1, period: 1000 }),
    clock: () => new Date(now),
  });
  rates.started("a");
  now = 0;

  expect(rates.nextAt("a")).toBe(1000);
  now = 999;
  expect(rates.nextAt("a")).toBe(1000);
  now = 1000;
  expect(rates.nextAt("a")).toBeUndefined();
});

test("no window of a period has more starts than the limit, and none waits without need", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const sim = new SimRandom(seed);
    const rate = { limit: 1 + sim.below(4), period: 10 + sim.below(50) };
    let now = 0;
    const rates = new StartRates({ startTimer, rateOf: () => rate, clock: () => new Date(now) });
    const starts: number[] = [];
    for (let n = 0; n < 200; n++) {
      now += sim.below(12);
      const inPeriod = starts.filter((at) => at > now - rate.period).length;
      const next = rates.nextAt("a");
      expect(next === undefined, `seed ${seed}`).toBe(inPeriod < rate.limit);
      if (next !== undefined) continue;
      rates.started("a");
      starts.push(now);
    }
  }
});

test("a wrong rate limit is refused when the service is made", () => {
  const problem = (rateLimit: unknown) => {
    const agents = [agentOf(() => null, { rateLimit } as never)];
    try {
      createServer({ agents, store: createMemoryStore, dataDir: "never-made" });
      return "accepted";
    } catch (error) {
      return (error as Error).message;
    }
  };

  expect(problem({ limit: 1.5, period: "1h" })).toBe(
    'Agent "Worker": rateLimit.limit must be a whole number, at least 1',
  );
  expect(problem({ limit: 1, period: "hour" })).toContain("rateLimit.period must be a duration");
  expect(problem({ limit: 1, period: "1h", burst: 2 })).toContain("rateLimit.burst is not known");
  expect(problem({ limit: 1, period: "1h", key: "customer" })).toContain(
    'rateLimit.key "customer" is not a field of job_start',
  );
  expect(problem({ limit: 1, period: 60 })).toBe("accepted");
});
