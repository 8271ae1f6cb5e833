import { type AgentDefinition, defineAgent, type JobStartContext } from "agent-control-service";
import { expect, onTestFinished, test } from "vitest";
import type { ConcurrencyOptions } from "../../src/core/agents/concurrency.ts";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { Store } from "../../src/core/store/store.ts";
import { gate } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, Life } from "./_lives.ts";

/** Nobody is taken for dead. */
const PATIENT = { beat: 50, dead: 600_000, giveUp: 600_000, look: 20 };
/** So short that a test can wait for it, and so long that a busy machine does not miss it. */
const SHORT = { ...PATIENT, dead: 1000, giveUp: 700 };

type Options = NonNullable<ConstructorParameters<typeof Life>[2]>;
type Limits = Pick<AgentDefinition, "maxConcurrentJobs" | "rateLimit"> & {
  readonly concurrency?: ConcurrencyOptions<{ customer: string }>;
};

function agentOf(limits: Limits, run: (context: JobStartContext) => unknown): AgentDefinition {
  return defineAgent({
    ...{ name: "Worker", version: "1.0.0" },
    ...limits,
    methods: { job_start: { fields: [{ name: "customer" }], run } },
  } as AgentDefinition);
}

async function join(store: Store, agent: AgentDefinition, options: Options = {}): Promise<Life> {
  const life = new Life(store, agent, { shared: PATIENT, ...options });
  await life.resume();
  onTestFinished(() => void life.runner.close(0));
  return life;
}

const start = (life: Life, id: string, customer = "c") =>
  life.runner.start("worker", { job_context: jobContext(id), job_fields: { customer } });

async function allEnded(life: Life, ids: readonly string[]): Promise<void> {
  const isEnded = async (id: string) => isTerminal((await life.jobs.get(id)).status);
  await expect
    .poll(async () => (await Promise.all(ids.map(isEnded))).every(Boolean), { timeout: 30_000 })
    .toBe(true);
}

/** No row of a limit outlives the jobs that it counts. */
async function nothingLeft(store: Store): Promise<void> {
  await expect.poll(() => store.table("SharedLimit").ids()).toEqual([]);
}

/** Counts what runs at the same time. */
class Gauge {
  running = 0;
  most = 0;
  readonly begun: string[] = [];

  async during(id: string, work: () => Promise<unknown>): Promise<void> {
    this.begun.push(id);
    this.most = Math.max(this.most, ++this.running);
    await work();
    this.running--;
  }
}

const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

test.each<[string, Limits, number]>([
  ["a concurrency key", { concurrency: { key: "customer", limit: 1 } }, 1],
  ["a limit without a key", { concurrency: { limit: 2 } }, 2],
  ["a key that jobs keep", { concurrency: { key: "customer", limit: 2, scope: "job" } }, 2],
  ["the agent's maxConcurrentJobs", { maxConcurrentJobs: 2 }, 2],
])("%s holds for all instances together", async (_, limits, most) => {
  const store = await emptyStore();
  const gauge = new Gauge();
  const agent = () =>
    agentOf(limits, async ({ job }) => {
      await job.step("work", () => gauge.during(job.id, soon));
      await job.step("more", () => {});
    });
  const lives = [await join(store, agent()), await join(store, agent()), await join(store, agent())];
  const ids = Array.from({ length: 12 }, (_, n) => `job-${n}`);

  await Promise.all(ids.map((id, n) => start(lives[n % 3]!, id)));
  await allEnded(lives[0]!, ids);

  expect(gauge.most).toBe(most);
  expect(gauge.begun.toSorted()).toEqual(ids.toSorted());
  await nothingLeft(store);
});

test.each<[string, Limits]>([
  ["others wait for it", {}],
  ["others have the agent's limit", { maxConcurrentJobs: 1 }],
])("a job that keeps its key continues after a wait though %s", async (_, limits) => {
  const store = await emptyStore();
  const agent = () =>
    agentOf({ ...limits, concurrency: { key: "customer", limit: 1, scope: "job" } }, async ({ job }) => {
      await job.sleep(0.1);
      await job.step("work", () => new Promise((resolve) => setTimeout(resolve, 100)));
    });
  const lives = [await join(store, agent()), await join(store, agent())];
  const ids = Array.from({ length: 8 }, (_, n) => `job-${n}`);

  for (const [n, id] of ids.entries()) await start(lives[n % 2]!, id, n % 3 === 0 ? "a" : "b");

  await allEnded(lives[0]!, ids);
  await nothingLeft(store);
});

test("jobs of other keys, and of none, do not wait for a key that another instance's job has", async () => {
  const store = await emptyStore();
  const held = gate();
  const gauge = new Gauge();
  const agent = () =>
    agentOf({ concurrency: { key: "customer", limit: 1 } }, ({ job }) =>
      job.step("work", () => gauge.during(job.id, () => held.opened)),
    );
  const [a, b] = [await join(store, agent()), await join(store, agent())];
  await start(a, "a1", "a");
  await start(b, "a2", "a");
  await start(b, "a3", "a");
  await start(b, "b1", "b");

  await expect.poll(() => gauge.begun).toEqual(["a1", "b1"]);
  const { message } = b.runner.describe(await b.jobs.get("a3"));
  expect(message).toBe("The job waits for its concurrency key, which other jobs have: 1 before it");
  expect(await b.jobs.get("a2")).toMatchObject({ status: "stopped", run_count: 0 });
  held.open();
  await allEnded(a, ["a1", "a2", "a3", "b1"]);
  expect(gauge.begun).toEqual(["a1", "b1", "a2", "a3"]);
});

test("a job that waits leaves its key to a job at another instance, and waits for it before it continues", async () => {
  const store = await emptyStore();
  const held = gate();
  const did: string[] = [];
  const agent = () =>
    agentOf({ concurrency: { key: "customer", limit: 1 }, maxConcurrentJobs: 1 }, async ({ job }) => {
      if (job.id === "waits") await job.waitFor("news");
      await job.step("work", async () => {
        did.push(`${job.id} begins`);
        if (job.id === "other") await held.opened;
        did.push(`${job.id} ends`);
      });
    });
  const [a, b] = [await join(store, agent()), await join(store, agent())];
  await start(a, "waits");
  await expect.poll(() => store.table("EventWait").ids()).toHaveLength(1);
  await start(b, "other");
  await expect.poll(() => did).toEqual(["other begins"]);

  await a.runner.receive("news", { data: {} });
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(did).toEqual(["other begins"]);
  held.open();
  await allEnded(a, ["waits", "other"]);

  expect(did).toEqual(["other begins", "other ends", "waits begins", "waits ends"]);
  await nothingLeft(store);
});

test("a job keeps its key until it ends, also while it is suspended, wherever it is resumed or stopped", async () => {
  const store = await emptyStore();
  const begun: string[] = [];
  const agent = () =>
    agentOf({ concurrency: { key: "customer", limit: 1, scope: "job" } }, async ({ job }) => {
      await job.step("work", () => void begun.push(job.id));
      if (job.id !== "last") await job.waitFor(job.id);
    });
  const a = await join(store, agent(), { suspendAfter: 0 });
  const b = await join(store, agent(), { suspendAfter: 0 });
  await start(a, "first");
  await expect.poll(async () => (await a.jobs.get("first")).suspended).toBeTruthy();
  await start(b, "second");
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(begun).toEqual(["first"]);

  await b.runner.receive("first", { data: {} });
  await allEnded(b, ["first"]);
  await expect.poll(async () => (await a.jobs.get("second")).suspended).toBeTruthy();
  await start(a, "last");
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(begun).toEqual(["first", "second"]);

  await a.runner.stop("second");
  await allEnded(b, ["second", "last"]);
  expect(begun).toEqual(["first", "second", "last"]);
  await nothingLeft(store);
});

test("a rate limit counts the starts at all instances", async () => {
  const store = await emptyStore();
  const begun: string[] = [];
  const agent = () =>
    agentOf({ rateLimit: { limit: 3, period: "1h" } }, ({ job }) =>
      job.step("work", () => void begun.push(job.id)),
    );
  const [a, b] = [await join(store, agent()), await join(store, agent())];
  const ids = Array.from({ length: 6 }, (_, n) => `job-${n}`);

  await Promise.all(ids.map((id, n) => start([a, b][n % 2]!, id)));
  await expect.poll(() => begun).toHaveLength(3);
  await new Promise((resolve) => setTimeout(resolve, 100));
  const c = await join(store, agent());
  await start(c, "late");

  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(begun).toHaveLength(3);
  expect(c.runner.describe(await c.jobs.get("late")).message).toMatch(/^The job waits for the rate limit/);
});

test("a rate limit with a key counts the starts of each key at all instances, and keeps no key for longer than its period", async () => {
  const store = await emptyStore();
  const begun: string[] = [];
  const rateLimit = { limit: 1, period: "1h", key: "customer" } as never;
  const agent = () => agentOf({ rateLimit }, ({ job }) => job.step("work", () => void begun.push(job.id)));
  const [a, b] = [await join(store, agent()), await join(store, agent())];
  await start(a, "a1", "a");
  await expect.poll(() => begun).toEqual(["a1"]);

  await start(b, "a2", "a");
  await start(b, "b1", "b");
  await start(a, "b2", "b");

  await expect.poll(() => begun).toEqual(["a1", "b1"]);
  for (const id of ["a2", "b2"])
    await expect
      .poll(async () => b.runner.describe(await b.jobs.get(id)).message)
      .toMatch(/^The job (is queued|waits for the rate limit)/);
  expect(await store.table("SharedLimit").ids()).toHaveLength(2);
  const later: Store = new Proxy(store, {
    get: (target, name) => {
      if (name === "now") return async () => new Date(Date.now() + 3_700_000);
      const member: unknown = Reflect.get(target, name);
      return typeof member === "function" ? member.bind(target) : member;
    },
  });
  await Promise.all([a.runner.close(0), b.runner.close(0)]);
  await join(later, agent());
  await expect.poll(() => begun.toSorted()).toEqual(["a1", "a2", "b1", "b2"]);
  const last: Store = new Proxy(later, {
    get: (target, name) => {
      if (name === "now") return async () => new Date(Date.now() + 8_000_000);
      return Reflect.get(target, name) as unknown;
    },
  });
  await join(last, agent());
  await nothingLeft(store);
});

test("the key of a job whose instance died is free once the job has ended elsewhere, also where nobody gave it back", async () => {
  const store = await emptyStore();
  const gauge = new Gauge();
  const held = gate();
  const agent = (waits: boolean) =>
    agentOf({ concurrency: { key: "customer", limit: 1 } }, ({ job }) =>
      job.step("work", () => (waits ? held.opened : gauge.during(job.id, soon))),
    );
  const a = await join(store, agent(true), { shared: SHORT });
  await start(a, "first");
  const b = await join(store, agent(false), { shared: SHORT });
  await start(b, "second");
  a.die();

  await allEnded(b, ["first", "second"]);
  expect(gauge.begun.toSorted()).toEqual(["first", "second"]);
  expect(gauge.most).toBe(1);
  await store.transaction((tx) => tx.insert("SharedLimit", { id: "agent worker", holders: { first: 1 } }));
  const limited = await join(
    store,
    agentOf({ maxConcurrentJobs: 1 }, () => "done"),
  );
  await start(limited, "third");
  await allEnded(limited, ["third"]);
});

test("the queue is that of all instances: its length, the position of a job, and its limit", async () => {
  const store = await emptyStore();
  const held = gate();
  onTestFinished(held.open);
  const agent = () => agentOf({}, ({ job }) => job.step("work", () => held.opened));
  const [a, b] = [await join(store, agent(), { most: 2 }), await join(store, agent(), { most: 2 })];
  for (const [n, life] of [a, a, b, b].entries()) await start(life, `running-${n}`);
  await start(a, "first");
  await new Promise((resolve) => setTimeout(resolve, 10));
  await start(b, "second");

  expect(await b.runner.position("first")).toEqual({ position: 1, queued: 2 });
  expect(await a.runner.position("second")).toEqual({ position: 2, queued: 2 });
  expect(await a.runner.position("running-3")).toBeUndefined();
  // What it has counted is a second old at most.
  await new Promise((resolve) => setTimeout(resolve, 1100));
  await expect(start(a, "third")).rejects.toMatchObject({ type: "rate_limited" });
});

test("requests that arrive together at one instance do not exceed the limit of the queue", async () => {
  const store = await emptyStore();
  const held = gate();
  onTestFinished(held.open);
  const agent = agentOf({}, ({ job }) => job.step("work", () => held.opened));
  const a = await join(store, agent, { most: 2 });
  for (const id of ["running-1", "running-2"]) await start(a, id);

  const ids = Array.from({ length: 6 }, (_, n) => `job-${n}`);
  const started = await Promise.allSettled(ids.map((id) => start(a, id)));

  expect(started.filter(({ status }) => status === "fulfilled")).toHaveLength(2);
  expect(await store.table("Job").countBy("status")).toMatchObject({ stopped: 2, in_progress: 2 });
});
