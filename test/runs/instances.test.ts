import { setTimeout as delay } from "node:timers/promises";
import { type AgentDefinition, defineAgent } from "agent-control-service";
import { expect, onTestFinished, test } from "vitest";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, JOB, Life, withParts } from "./_lives.ts";

/** So short that a test can wait for it, and so long that a busy machine does not miss it. */
const SHORT = { beat: 50, dead: 1000, giveUp: 700, look: 20 };
/** Nobody is taken for dead. */
const PATIENT = { ...SHORT, dead: 600_000, giveUp: 600_000 };

type Options = NonNullable<ConstructorParameters<typeof Life>[2]>;

/** An instance that has joined those of the store. */
async function join(
  store: Store,
  agents: AgentDefinition | readonly AgentDefinition[],
  options: Options = {},
): Promise<Life> {
  const life = new Life(store, agents, { shared: PATIENT, ...options });
  await life.resume();
  onTestFinished(() => void life.runner.close(0));
  return life;
}

async function ended(life: Life, id = JOB): Promise<StoredJob> {
  await expect.poll(async () => isTerminal((await life.jobs.get(id)).status), { interval: 10 }).toBe(true);
  return life.jobs.get(id);
}

const start = (life: Life, id: string, workspace_id = "w") =>
  life.runner.start("worker", { job_context: { ...jobContext(id), workspace_id }, job_fields: {} });

/** What ran, and where. */
class Tally {
  readonly did: string[] = [];

  /** An agent whose steps are counted; it waits in step `at` for `held`, the first time. */
  agent(where: string, { at, held, begun }: { at?: number; held?: Promise<void>; begun?: () => void } = {}) {
    return agentOf(async ({ job }) => {
      for (let n = 0; n < 4; n++)
        await job.step(`s${n}`, async () => {
          if (n === at) begun?.();
          if (n === at) await held;
          this.did.push(`${where} s${n}`);
        });
      return where;
    });
  }

  count(step: string): number {
    return this.did.filter((one) => one.endsWith(` ${step}`)).length;
  }
}

test("an instance that starts beside another one leaves its jobs alone", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const tally = new Tally();
  const a = await join(store, tally.agent("a", { at: 2, held: held.opened, begun: begun.open }));
  await a.start();
  await begun.opened;

  const b = await join(store, tally.agent("b"));
  await delay(100);
  held.open();

  expect(await ended(b)).toMatchObject({ status: "completed", result: "a", run_count: 1, owner: null });
  expect(tally.did).toEqual(["a s0", "a s1", "a s2", "a s3"]);
});

test.each([-3_600_000, 3_600_000])(
  "an instance is alive by the clock of the store, which is %d ms ahead of its own",
  async (ahead) => {
    const store = await emptyStore();
    const [begun, held] = [gate(), gate()];
    const tally = new Tally();
    const skewed: Store = { ...bound(store), now: async () => new Date(Date.now() + ahead) };
    const shared = { ...SHORT, dead: 60_000, giveUp: 50_000 };
    const a = await join(skewed, tally.agent("a", { at: 2, held: held.opened, begun: begun.open }), {
      shared,
    });
    await a.start();
    await begun.opened;
    const b = await join(skewed, tally.agent("b"), { shared });
    await delay(100);
    expect(await b.jobs.get(JOB)).toMatchObject({ run_count: 1 });

    const later: Store = { ...skewed, now: async () => new Date(Date.now() + ahead + 61_000) };
    a.die();
    await b.runner.close(0);
    const c = await join(later, tally.agent("c"), { shared });

    expect(await ended(c)).toMatchObject({ result: "c" });
    held.open();
  },
);

test("the jobs of an instance that is killed are claimed by another one, and no finished step runs again", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const tally = new Tally();
  const a = await join(store, tally.agent("a", { at: 2, held: held.opened, begun: begun.open }), {
    shared: SHORT,
  });
  await a.start();
  await begun.opened;
  const b = await join(store, tally.agent("b"), { shared: SHORT });
  const c = await join(store, tally.agent("b"), { shared: SHORT });

  a.die();

  expect(await ended(b)).toMatchObject({ status: "completed", result: "b", owner: null });
  expect(tally.did).toEqual(["a s0", "a s1", "b s2", "b s3"]);
  const lines = (await c.entries()).filter(({ type }) => type === "call");
  expect(lines).toHaveLength(4);
  expect((await store.table("Instance").ids()).length).toBe(3);
});

test("the row of an instance that was killed is removed after a while", async () => {
  const store = await emptyStore();
  const a = await join(store, new Tally().agent("a"), { shared: SHORT });
  a.die();
  await join(store, new Tally().agent("b"), { shared: { ...SHORT, forget: 1500 } });
  expect(await store.table("Instance").ids()).toHaveLength(2);

  await expect.poll(() => store.table("Instance").ids(), { timeout: 10_000 }).toHaveLength(1);
});

test("an instance that was frozen stores nothing once another one has claimed its job", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const tally = new Tally();
  // It does not notice by itself that it counts as dead.
  const a = await join(store, tally.agent("a", { at: 2, held: held.opened, begun: begun.open }), {
    shared: { ...SHORT, giveUp: 600_000, look: 600_000 },
  });
  await a.start();
  await begun.opened;
  const thaw = a.freeze();
  held.open();
  const b = await join(store, tally.agent("b"), { shared: SHORT });
  expect(await ended(b)).toMatchObject({ status: "completed", result: "b" });
  const before = await b.entries();

  thaw();
  await expect.poll(() => a.runner.load().running).toBe(0);
  await delay(50);

  expect(await b.entries()).toEqual(before);
  expect(tally.did).toEqual(["a s0", "a s1", "a s2", "b s2", "b s3"]);
  expect(a.logs.filter((line) => /error|failed/i.test(line))).toEqual([]);
  expect(await b.jobs.get(JOB)).toMatchObject({ status: "completed", result: "b" });
});

test("an instance that cannot renew its sign of life ends its own runs, and is back once it can", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  onTestFinished(held.open);
  const tally = new Tally();
  const a = await join(store, tally.agent("a", { at: 1, held: held.opened, begun: begun.open }), {
    shared: SHORT,
  });
  await a.start();
  await begun.opened;

  const thaw = a.freeze();
  await expect.poll(() => a.runner.load().running).toBe(0);
  expect(a.logs.join("\n")).toContain("its jobs are left to others");
  held.open();
  thaw();

  expect(await ended(a)).toMatchObject({ status: "completed", result: "a" });
  expect(tally.count("s0")).toBe(1);
});

test("an instance that was stopped for so long that it may count as dead begins no further step of its runs", async () => {
  const store = await emptyStore();
  const runs: string[] = [];
  let run = 0;
  const agent = agentOf(async ({ job }) => {
    const mine = ++run;
    await job.step("s0", () => void runs.push(`s0 of run ${mine}`));
    // Nothing of the process happens meanwhile.
    if (mine === 1) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, SHORT.giveUp + 50);
    await job.step("s1", () => void runs.push(`s1 of run ${mine}`));
    return mine;
  });
  const a = await join(store, agent, { shared: SHORT });

  await a.start();

  expect(await ended(a)).toMatchObject({ status: "completed", result: 2 });
  expect(runs).toEqual(["s0 of run 1", "s1 of run 2"]);
});

test("an instance that hears so late of a job's stored beginning that it counted as dead meanwhile does not run the job", async () => {
  const store = await emptyStore();
  const back = gate();
  let isAway = false;
  const tally = new Tally();
  const distant = withParts(store, {
    now: async () => {
      if (isAway) throw new Error("the store is away");
      return store.now();
    },
    // It is stored, and the acknowledgement comes late.
    transaction: async (...args: Parameters<Store["transaction"]>) => {
      const result = await store.transaction(...args);
      if (isAway) await back.opened;
      return result as never;
    },
  });
  const a = await join(distant, tally.agent("a"), { shared: SHORT });
  const ids = () => store.table("Instance").ids();
  const [former] = await ids();
  isAway = true;
  const started = a.start();
  const begun = async () => (await store.table("Job").get(JOB))?.status;
  await expect.poll(begun).toBe("in_progress");

  const b = await join(store, tally.agent("b"), { shared: SHORT });
  expect(await ended(b)).toMatchObject({ status: "completed", result: "b" });
  isAway = false;
  back.open();
  await started;
  await expect.poll(ids).not.toContain(former);
  await delay(100);

  expect(tally.did).toEqual(["b s0", "b s1", "b s2", "b s3"]);
});

test("an instance that counts as dead, and whose store answers again, begins no job before it is stored as alive", async () => {
  const store = await emptyStore();
  let isAway = false;
  const tally = new Tally();
  const distant = withParts(store, {
    now: async () => {
      if (isAway) throw new Error("the store is away");
      return store.now();
    },
  });
  const a = await join(distant, tally.agent("a"), { shared: SHORT });
  isAway = true;
  await expect.poll(() => a.logs.some((line) => line.includes("left to others"))).toBe(true);

  const { status } = await a.start();

  expect(status).toBe("stopped");
  const b = await join(store, tally.agent("b"), { shared: SHORT });
  expect(await ended(b)).toMatchObject({ status: "completed", result: "b" });
  expect(tally.did).toEqual(["b s0", "b s1", "b s2", "b s3"]);
});

test("a job that waits for its start here, and that another instance begins and gives up, is claimed as an interrupted one", async () => {
  const store = await emptyStore();
  const [busy, begun, held] = [gate(), gate(), gate()];
  const tally = new Tally();
  // It hears nothing of the others, and does not look.
  const deaf = withParts(store, { hints: { ...store.hints, tell: () => {}, on: () => () => {} } });
  const other = { name: "Other", version: "1.0.0", methods: { job_start: { run: () => busy.opened } } };
  const b = await join(deaf, [tally.agent("b"), defineAgent(other)], {
    shared: { ...PATIENT, look: 600_000 },
    most: 1,
  });
  await b.runner.start("other", { job_context: jobContext("other"), job_fields: {} });
  await b.start();
  const a = await join(store, tally.agent("a", { at: 2, held: held.opened, begun: begun.open }));
  await begun.opened;
  await a.runner.close(0);
  expect(await b.jobs.get(JOB)).toMatchObject({ status: "in_progress", owner: null });

  busy.open();
  await ended(b, "other");
  await join(store, tally.agent("c"));

  expect(await ended(b)).toMatchObject({ status: "completed", result: "c" });
  const log = await b.jobs.log(JOB);
  const marks = log.flatMap(({ entry }) => (entry.type === "mark" ? [entry.mark] : []));
  expect(marks).toEqual(["interrupted", "resumed"]);
});

test("a held job is tried again by an instance that joins with code that fits", async () => {
  const store = await emptyStore();
  const begun = gate();
  const agent = (names: string[], end?: () => Promise<unknown>) =>
    agentOf(async ({ job }) => {
      for (const name of names) await job.step(name, () => name);
      await end?.();
      return names;
    });
  const forever = () => {
    begun.open();
    return new Promise(() => {});
  };
  const a = await join(store, agent(["one"], forever), { shared: SHORT });
  await a.start();
  await begun.opened;
  a.die();
  const b = await join(store, agent(["uno"]), { shared: SHORT });
  await expect.poll(async () => (await b.jobs.get(JOB)).held).toBeTruthy();

  const c = await join(store, agent(["one"]), { shared: SHORT });

  expect(await ended(c)).toMatchObject({ status: "completed", result: ["one"], held: null });
});

test("a job that an older instance holds is tried again by a newer one whose code fits, once the older one is gone", async () => {
  const store = await emptyStore();
  const begun = gate();
  const agent = (version: string, name: string, end?: () => Promise<unknown>) =>
    agentOf(
      async ({ job }) => {
        await job.step(name, () => name);
        await end?.();
        return version;
      },
      { version },
    );
  const forever = () => {
    begun.open();
    return new Promise(() => {});
  };
  const a = await join(store, agent("1.0.0", "one", forever), { shared: SHORT });
  await a.start();
  await begun.opened;
  const b = await join(store, agent("1.0.0", "uno"), { shared: SHORT });
  const c = await join(store, agent("2.0.0", "one"), { shared: SHORT });
  a.die();
  await expect.poll(async () => (await c.jobs.get(JOB)).held).toBeTruthy();

  await b.runner.close(0);

  expect(await ended(c)).toMatchObject({ status: "completed", result: "2.0.0", held: null });
});

test("an instance that closes gives its jobs up at the end of their steps, and others claim them immediately", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const tally = new Tally();
  const a = await join(store, tally.agent("a", { at: 2, held: held.opened, begun: begun.open }));
  const b = await join(store, tally.agent("b"), { shared: { ...PATIENT, look: 600_000 } });
  await a.start();
  await begun.opened;

  const closed = a.runner.close(10);
  held.open();
  await closed;

  expect(await ended(b)).toMatchObject({ status: "completed", result: "b" });
  expect(tally.did).toEqual(["a s0", "a s1", "a s2", "b s3"]);
  expect(await store.table("Instance").ids()).toHaveLength(1);
});

test("an instance that closes gives each job up as soon as its own steps are over", async () => {
  const store = await emptyStore();
  const held = { short: gate(), long: gate() };
  for (const { open } of Object.values(held)) onTestFinished(open);
  const begun = new Set<string>();
  const agent = (where: string) =>
    agentOf(async ({ job }) => {
      await job.step("first", async () => {
        begun.add(job.id);
        await held[job.id as keyof typeof held].opened;
      });
      await job.step("second", () => {});
      return where;
    });
  const a = await join(store, agent("a"));
  const b = await join(store, agent("b"));
  for (const id of Object.keys(held)) await start(a, id);
  await expect.poll(() => begun.size).toBe(2);

  const closed = a.runner.close(60);
  held.short.open();

  expect(await ended(b, "short")).toMatchObject({ result: "b" });
  expect((await b.jobs.get("long")).owner).toBe(a.runner.instance);
  held.long.open();
  await closed;
  expect(await ended(b, "long")).toMatchObject({ result: "b" });
});

test("of many instances that find a job without an owner, one runs it", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  const tally = new Tally();
  const a = await join(store, tally.agent("a", { at: 1, held: held.opened, begun: begun.open }));
  await a.start();
  await begun.opened;
  const others = await Promise.all(["b", "c", "d", "e"].map((name) => join(store, tally.agent(name))));
  const closed = a.runner.close(10);
  held.open();
  await closed;
  await ended(others[0]!);

  for (const step of ["s0", "s1", "s2", "s3"]) expect(tally.count(step), step).toBe(1);
  // It was started, given up, claimed and resumed, each once.
  expect(await a.jobs.get(JOB)).toMatchObject({ run_count: 4 });
  const marks = (await a.entries()).flatMap((entry) => (entry.type === "mark" ? [entry.mark] : []));
  expect(marks).toEqual(["interrupted", "resumed"]);
});

test("a job that finds no place is claimed by an instance that has one", async () => {
  const store = await emptyStore();
  const [held, heldThere, begunThere] = [gate(), gate(), gate()];
  onTestFinished(held.open);
  onTestFinished(heldThere.open);
  const agent = (where: string) =>
    agentOf(async ({ job }) => {
      await job.step("work", () => {
        if (where === "b") begunThere.open();
        return where === "a" ? held.opened : heldThere.opened;
      });
      return where;
    });
  const a = await join(store, agent("a"), { most: 1 });
  await start(a, "first");
  await start(a, "second");
  const b = await join(store, agent("b"), { most: 1 });

  await begunThere.opened;
  // Its turn comes here, too, while it runs there.
  held.open();
  expect(await ended(b, "first")).toMatchObject({ result: "a" });
  await expect.poll(() => a.runner.load()).toEqual({ running: 0, queued: 0 });
  heldThere.open();
  expect(await ended(b, "second")).toMatchObject({ result: "b", run_count: 1 });
});

test("an instance claims no more jobs than it has places for, from each workspace in turn", async () => {
  const store = await emptyStore();
  const held = gate();
  onTestFinished(held.open);
  const ran: string[] = [];
  const agent = agentOf(async ({ job }) => {
    const { workspace_id } = job.context;
    await job.step("work", () => {
      ran.push(workspace_id);
      return held.opened;
    });
  });
  const full = await join(store, agent, { most: 4 });
  for (let n = 0; n < 4; n++) await start(full, `blocked-${n}`, "other");
  await expect.poll(() => ran.length).toBe(4);
  for (let n = 0; n < 3; n++) await start(full, `big-${n}`, "big");
  await start(full, "small", "small");
  ran.length = 0;

  const b = await join(store, agent, { most: 2 });
  await expect.poll(() => ran.length).toBe(2);
  await delay(80);

  expect(ran.sort()).toEqual(["big", "small"]);
  const { items } = await b.jobs.list({ where: { status: "in_progress" } });
  expect(items).toHaveLength(6);
});

test("a job goes to an instance that hosts its version, while one is alive", async () => {
  const store = await emptyStore();
  const held = gate();
  onTestFinished(held.open);
  const begun = gate();
  const of = (version: string, where: string, wait?: Promise<void>) =>
    agentOf(
      async ({ job }) => {
        await job.step("work", () => {
          begun.open();
          return wait;
        });
        return where;
      },
      { version },
    );
  const a = await join(store, of("1.0.0", "a", held.opened));
  const other = await join(store, of("2.0.0", "other"));
  const same = await join(store, of("1.0.0", "same"), { most: 1 });
  await a.start();
  await begun.opened;
  const closed = a.runner.close(0.05);
  await closed;

  expect(await ended(other)).toMatchObject({ result: "same", agent_version: "1.0.0" });
  await same.runner.close(0);
});

test("older code leaves a job alone that newer code has started, until a person moves it", async () => {
  const store = await emptyStore();
  const [begun, held] = [gate(), gate()];
  onTestFinished(held.open);
  const of = (version: string, where: string, wait?: Promise<void>) =>
    agentOf(
      async ({ job }) => {
        await job.step("work", () => {
          begun.open();
          return wait;
        });
        return where;
      },
      { version },
    );
  const newer = await join(store, of("2.0.0", "newer", held.opened), { shared: SHORT });
  await newer.start();
  await begun.opened;
  const older = await join(store, of("1.10.0", "older"), { shared: SHORT });

  newer.die();
  await expect
    .poll(async () => JSON.stringify(older.runner.describe(await older.jobs.get(JOB))))
    .toContain("waits for version 2.0.0 of its agent, or a newer one");
  await delay(200);
  expect(await older.jobs.get(JOB)).toMatchObject({ agent_version: "2.0.0", status: "in_progress" });
  await older.runner.move(JOB, "1.10.0");

  expect(await ended(older)).toMatchObject({ result: "older", agent_version: "1.10.0" });
});

test("jobs that nobody here may run do not keep those behind them from being claimed", async () => {
  const store = await emptyStore();
  const held = gate();
  onTestFinished(held.open);
  const of = (version: string, wait?: Promise<void>) =>
    agentOf(
      async ({ job }) => {
        await job.step("work", () => wait);
        return version;
      },
      { version },
    );
  const newer = await join(store, of("2.0.0", held.opened), { most: 20 });
  for (let n = 0; n < 20; n++) await start(newer, `newer-${n}`);
  const first = await join(store, of("1.0.0", held.opened));
  await start(first, "behind");
  await newer.runner.close(0);
  await first.runner.close(0);

  const older = await join(store, of("1.0.0"), { most: 1 });

  expect(await ended(older, "behind")).toMatchObject({ result: "1.0.0" });
});

test("suspended jobs that nobody here may run do not keep those behind them from being woken", async () => {
  const store = await emptyStore();
  const of = (version: string, time: "1h" | "2h") =>
    agentOf(
      async ({ job }) => {
        await job.sleep(time);
        return version;
      },
      { version },
    );
  const newer = await join(store, of("2.0.0", "1h"), { most: 120, suspendAfter: 0 });
  for (let n = 0; n < 120; n++) await start(newer, `newer-${n}`);
  const first = await join(store, of("1.0.0", "2h"), { suspendAfter: 0 });
  await start(first, "behind");
  await expect.poll(() => store.table("Job").ids({ where: { wake_at: { gte: 0 } } })).toHaveLength(121);
  await newer.runner.close(0);
  await first.runner.close(0);

  const later = () => new Date(Date.now() + 3 * 3_600_000);
  const older = await join(store, of("1.0.0", "2h"), { suspendAfter: 0, clock: later });

  expect(await ended(older, "behind")).toMatchObject({ result: "1.0.0" });
});

test("newer code continues a job of older code that nobody hosts any longer", async () => {
  const store = await emptyStore();
  const begun = gate();
  const of = (version: string, wait?: Promise<void>) =>
    agentOf(
      async ({ job }) => {
        await job.step("work", () => {
          begun.open();
          return wait;
        });
        return version;
      },
      { version },
    );
  const older = await join(store, of("9.0.0", new Promise(() => {})), { shared: SHORT });
  await older.start();
  await begun.opened;
  const newer = await join(store, of("10.0.0"), { shared: SHORT });
  older.die();

  expect(await ended(newer)).toMatchObject({ result: "10.0.0" });
});

test("a job that is stopped, overridden or removed at another instance ends where it runs", async () => {
  const store = await emptyStore();
  const cleaned: string[] = [];
  const signals: AbortSignal[] = [];
  const agent = agentOf(
    ({ signal }) => {
      signals.push(signal);
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
    { methods: { job_stop: { run: ({ job }) => void cleaned.push(job.id) } } },
  );
  const a = await join(store, agent);
  const b = await join(store, agent);
  const by = "operator";
  for (const id of ["stopped", "failed", "parked", "removed"]) await start(a, id);
  await expect.poll(() => signals.length).toBe(4);

  expect((await b.runner.stop("stopped")).status).toBe("cancelling");
  await b.runner.override("failed", "failed", by as never);
  await b.runner.override("parked", "stopped", by as never);
  await b.runner.remove("removed", by as never);

  expect(await ended(b, "stopped")).toMatchObject({ status: "cancelled", stop_reason: "stopped" });
  await expect.poll(() => a.runner.load().running).toBe(0);
  expect(cleaned).toEqual(["stopped"]);
  expect(await b.jobs.get("failed")).toMatchObject({ status: "failed", stop_reason: "overridden" });
  expect(await b.jobs.get("parked")).toMatchObject({ status: "stopped", parked: true });
  expect(await b.jobs.find("removed")).toBeUndefined();
});

test.each([{ look: 20 }, { look: 600_000 }])(
  "answers, events and ends of children reach a job from another instance, by hints or by looking (%j)",
  async ({ look }) => {
    const store = await emptyStore();
    const shared = { ...PATIENT, look };
    const parent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "c", name: "c" });
      const { ok } = await item.ask("Continue?", {
        question: "Continue?",
        fields: [{ name: "ok", field_type: "BooleanField", required: true }],
      });
      const { data } = await job.waitFor("news");
      const child = await job.start("child");
      return [ok, data, await child.result()];
    });
    const child = defineAgent({
      name: "Child",
      version: "1.0.0",
      methods: { job_start: { run: () => "from a child" } },
    });
    const deaf: Store = {
      ...bound(store),
      hints: look === 20 ? { tell: () => {}, on: () => () => {} } : store.hints,
    };
    const a = await join(deaf, parent, { shared });
    const b = await join(deaf, [parent, child], { shared });
    const waiting = async (life: Life) => (await life.cases.list({ where: { job_id: JOB } })).items[0];
    const registry = a.parts.agents as { get: unknown };
    const own = a.parts.agents.get.bind(a.parts.agents);
    // It can start the child, and cannot run it.
    registry.get = (slug: string) => (slug === "child" ? b.parts.agents.get(slug) : own(slug));
    await a.start();
    await expect.poll(async () => (await waiting(b))?.question).toBeTruthy();

    await b.runner.answer(JOB, "c", { answer: { ok: true }, message: null });
    await expect.poll(() => store.table("EventWait").ids()).toHaveLength(1);
    await b.runner.receive("news", { data: { n: 1 } });
    const job = await b.runner.ended(JOB, 30_000);

    expect(job).toMatchObject({ status: "completed", result: [true, { n: 1 }, "from a child"] });
    expect(job.run_count).toBe(1);
  },
);

test("a question that is withdrawn at another instance is withdrawn where the job waits", async () => {
  const store = await emptyStore();
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "c", name: "c" });
    return item
      .ask("Continue?", { question: "Continue?", fields: [{ name: "ok", field_type: "BooleanField" }] })
      .then(
        () => "answered",
        (error: Error) => error.message,
      );
  });
  const a = await join(store, agent);
  const b = await join(store, agent);
  await a.start();
  const asked = async () => (await b.cases.list({ where: { job_id: JOB } })).items[0];
  await expect.poll(async () => (await asked())?.question).toBeTruthy();

  const { id } = (await asked())!;
  await b.runner.overrideCase(id, "cancelled", "operator" as never);

  expect((await ended(b)).result).toBe(`Case "${id}" was set to cancelled by an operator`);
});

test("a suspended job is woken by one instance, also where the one that suspended it is gone", async () => {
  const store = await emptyStore();
  const ran: string[] = [];
  const agent = (where: string) =>
    agentOf(async ({ job }) => {
      await job.step("before", () => void ran.push(`${where} before`));
      await job.sleep(0.4);
      await job.step("after", async () => {
        ran.push(`${where} after`);
        // Others look meanwhile.
        await delay(100);
      });
      return where;
    });
  const a = await join(store, agent("a"), { suspendAfter: 0 });
  await a.start();
  await expect.poll(async () => (await a.jobs.get(JOB)).suspended).toBeTruthy();
  expect((await a.jobs.get(JOB)).owner).toBeNull();
  a.die();

  const [b] = await Promise.all(["b", "c", "d"].map((one) => join(store, agent(one), { suspendAfter: 0 })));

  expect(await ended(b!)).toMatchObject({ run_count: 2 });
  expect(ran.map((one) => one.slice(2))).toEqual(["before", "after"]);
});

function bound(store: Store): Store {
  return {
    table: (name) => store.table(name),
    log: (name) => store.log(name),
    hints: store.hints,
    now: () => store.now(),
    transaction: (work, options) => store.transaction(work, options),
    health: () => store.health(),
    stats: () => store.stats(),
    close: () => store.close(),
  };
}
