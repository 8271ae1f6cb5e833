// @long
// @losses
import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import { expect, onTestFinished, test } from "vitest";
import { ServiceError } from "../../src/core/base/errors.ts";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { bury, emptyStore, JOB, Life, withParts } from "./_lives.ts";

/** Deaths are not waited for: an instance that pauses for long, as on a busy machine, attributes none of them for a while. */
const OFTEN = { look: 20 };

const never = () => new Promise<void>(() => {});

/** Instances over one store, of which each dies where its agent says so; there are always two of them. */
class Fleet {
  readonly lives: Life[] = [];
  deaths = 0;
  /** Settles when all that died are known to be dead. */
  #buried: Promise<unknown> = Promise.resolve();
  readonly #store: Store;
  readonly #make: (die: () => Promise<void>, nth: number) => AgentDefinition;
  readonly #suspendAfter: number | undefined;

  constructor(
    store: Store,
    make: (die: () => Promise<void>, nth: number) => AgentDefinition,
    { suspendAfter }: { suspendAfter?: number } = {},
  ) {
    this.#store = store;
    this.#make = make;
    this.#suspendAfter = suspendAfter;
  }

  async join(most = 10): Promise<Life> {
    const die = () => {
      this.deaths++;
      void this.kill(life);
      return never();
    };
    const life = new Life(this.#store, this.#make(die, this.lives.length), {
      ...{ shared: OFTEN, most, suspendAfter: this.#suspendAfter },
    });
    this.lives.push(life);
    await life.resume();
    onTestFinished(() => void life.runner.close(0));
    return life;
  }

  /** To the others it is dead from then on. */
  kill(life: Life): Promise<unknown> {
    life.die();
    this.#buried = Promise.all([this.#buried, bury(life, this.#store)]);
    return this.#buried;
  }

  /** Starts another one for each that has died, until the job is held or has ended. */
  async settle(id = JOB): Promise<Life> {
    for (;;) {
      await this.#buried;
      let life = this.lives.find(({ isDead }) => !isDead);
      life ??= await this.join();
      const { status, stop_reason } = await life.jobs.get(id);
      if (isTerminal(status) || stop_reason) return life;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
}

const start = (life: Life, id: string) =>
  life.runner.start("worker", { job_context: jobContext(id), job_fields: {} });

const crashes = async (life: Life, id = JOB) =>
  (await life.jobs.log(id)).filter(({ entry }) => entry.type === "mark" && entry.doing !== undefined).length;

test("a job that ends each instance which runs it is held after the third, with the step at which they ended", async () => {
  const fleet = new Fleet(await emptyStore(), (die) =>
    agentOf(async ({ job }) => {
      await job.step("before", () => {});
      await job.step("boom", die);
    }),
  );
  const first = await fleet.join();
  await start(first, JOB);

  const life = await fleet.settle();

  const job = await life.jobs.get(JOB);
  expect(job).toMatchObject({ status: "awaiting", stop_reason: "crash_loop", owner: null });
  expect(job.error).toMatch(/^The process ended 3 times in a row .* it was at step "boom"/);
  expect(fleet.deaths).toBe(3);
});

test("a job that makes progress between the ends of its instances is not held", async () => {
  const tried = new Map<string, number>();
  const fleet = new Fleet(await emptyStore(), (die) =>
    agentOf(async ({ job }) => {
      for (const name of ["a", "b"]) {
        await job.step(name, () => {
          tried.set(name, (tried.get(name) ?? 0) + 1);
          return tried.get(name)! <= 2 ? die() : undefined;
        });
      }
      return "done";
    }),
  );
  await start(await fleet.join(), JOB);

  const life = await fleet.settle();

  expect(await life.jobs.get(JOB)).toMatchObject({ status: "completed", result: "done" });
  expect(fleet.deaths).toBe(4);
});

test("a job that only waits in memory is not held, however many of its instances die", async () => {
  const fleet = new Fleet(await emptyStore(), () =>
    agentOf(async ({ job }) => {
      await job.sleep("1h");
    }),
  );
  await start(await fleet.join(), JOB);
  for (let n = 0; n < 3; n++) {
    const life = fleet.lives.at(-1)!;
    await expect
      .poll(
        async () => (await life.entries()).some(({ type }) => type === "begun") && life.runner.load().running,
      )
      .toBe(0);
    const { run_count } = await life.jobs.get(JOB);
    if (n > 0)
      await expect.poll(async () => (await life.jobs.get(JOB)).doing).toEqual({ run: run_count, what: null });
    await fleet.kill(life);
    const next = await fleet.join();
    await expect.poll(async () => (await next.jobs.get(JOB)).run_count).toBe(run_count + 2);
  }

  const life = fleet.lives.at(-1)!;
  expect(await life.jobs.get(JOB)).toMatchObject({ status: "in_progress", stop_reason: null });
  expect(await crashes(life)).toBe(0);
});

test.each([
  ["a step", 'step "boom"'],
  ["its handler", 'its handler, after step "first"'],
])("a job that waits and ends its instances beside that, in %s, is held", async (where, doing) => {
  const fleet = new Fleet(await emptyStore(), (die) =>
    agentOf(async ({ job }) => {
      const slept = job.sleep("1h");
      await job.step("first", () => {});
      await (where === "a step" ? Promise.all([slept, job.step("boom", die)]) : die());
    }),
  );
  await start(await fleet.join(), JOB);

  const life = await fleet.settle();

  const job = await life.jobs.get(JOB);
  expect(job).toMatchObject({ status: "awaiting", stop_reason: "crash_loop" });
  expect(job.error).toContain(`it was at ${doing}`);
  // At the first one it may have only waited.
  expect(fleet.deaths).toBe(4);
});

test("an instance that closes with a job under way does not count against the job", async () => {
  const fleet = new Fleet(await emptyStore(), (_, nth) =>
    agentOf(({ job }) => job.step<unknown>("work", () => (nth < 3 ? never() : "done"))),
  );
  await start(await fleet.join(), JOB);
  for (let n = 0; n < 3; n++) {
    const next = await fleet.join();
    await fleet.lives[n]!.runner.close(0);
    if (n < 2) await expect.poll(() => next.runner.load().running).toBe(1);
  }

  const life = await fleet.settle();
  expect(await life.jobs.get(JOB)).toMatchObject({ status: "completed", result: "done" });
  expect(await crashes(life)).toBe(0);
});

test("after a first death all jobs resume at the same time, and after a second one at a time at each instance", async () => {
  const ran: string[] = [];
  const gates = [gate(), gate(), gate(), gate()];
  const fleet = new Fleet(await emptyStore(), (_, nth) =>
    agentOf(({ job }) =>
      job.step("work", () => {
        ran.push(`${nth} ${job.id}`);
        return gates[nth]!.opened;
      }),
    ),
  );
  const a = await fleet.join();
  for (const id of ["x1", "x2", "x3"]) await start(a, id);
  await expect.poll(() => ran).toHaveLength(3);
  await fleet.kill(a);
  const b = await fleet.join();
  await expect.poll(() => ran.slice(3).toSorted()).toEqual(["1 x1", "1 x2", "1 x3"]);
  const owner = b.runner.instance;
  await fleet.kill(b);
  const c = await fleet.join();
  await expect.poll(() => ran.length).toBe(7);
  await expect.poll(async () => (await c.jobs.get("x1")).owner).toBe(c.runner.instance);
  const d = await fleet.join();
  await expect.poll(() => ran.length).toBe(8);

  expect(ran.slice(6)).toEqual(["2 x1", "3 x2"]);
  expect((await c.jobs.get("x3")).owner).toBe(owner);
  gates[3]!.open();
  await expect.poll(() => ran.at(-1)).toBe("3 x3");
  gates[2]!.open();
  for (const id of ["x1", "x2", "x3"])
    await expect.poll(async () => (await d.jobs.get(id)).status).toBe("completed");
});

test("jobs that were under way at two deaths resume in turns, each twice as large while they go well", async () => {
  const ran: string[] = [];
  const held = new Map<string, () => void>();
  const fleet = new Fleet(await emptyStore(), (_, nth) =>
    agentOf(({ job }) =>
      job.step("work", () => {
        ran.push(job.id);
        const { opened, open } = gate();
        held.set(job.id, open);
        return nth < 2 ? never() : opened;
      }),
    ),
  );
  const ids = Array.from({ length: 7 }, (_, n) => `x${n + 1}`);
  const first = await fleet.join();
  for (const id of ids) await start(first, id);
  for (let life = first; fleet.lives.length < 3; life = await fleet.join()) {
    await expect.poll(() => ran.toSorted()).toEqual(ids);
    ran.length = 0;
    await fleet.kill(life);
  }

  for (const turn of [["x1"], ["x2", "x3"], ["x4", "x5", "x6", "x7"]]) {
    await expect.poll(() => ran.toSorted()).toEqual(turn);
    await delay(100);
    expect(ran.toSorted()).toEqual(turn);
    for (const id of ran.splice(0)) held.get(id)!();
  }
  const { jobs } = fleet.lives.at(-1)!;
  for (const id of ids) await expect.poll(async () => (await jobs.get(id)).status).toBe("completed");
});

test("of jobs that were resumed together and ended their instance, the one that does so alone is held", async () => {
  const ran: string[] = [];
  const fleet = new Fleet(await emptyStore(), (die, nth) =>
    agentOf(({ job }) =>
      job.step<unknown>("work", () => {
        ran.push(job.id);
        if (nth < 2 || (nth === 2 && job.id === "x2")) return never();
        return job.id === "x3" ? die() : "done";
      }),
    ),
  );
  const ids = ["x1", "x2", "x3", "x4"];
  const first = await fleet.join();
  for (const id of ids) await start(first, id);
  for (let life = first; fleet.lives.length < 3; life = await fleet.join()) {
    await expect.poll(() => ran.toSorted()).toEqual(ids);
    ran.length = 0;
    await fleet.kill(life);
  }

  const life = await fleet.settle("x3");

  const { status, stop_reason, error } = await life.jobs.get("x3");
  expect({ status, stop_reason, error }).toEqual({
    ...{ status: "awaiting", stop_reason: "crash_loop" },
    error: expect.stringMatching(/^The process ended 4 times in a row/),
  });
  for (const id of ["x1", "x2", "x4"])
    await expect.poll(async () => (await life.jobs.get(id)).status).toBe("completed");
  expect(fleet.deaths).toBe(2);
});

test("a time in which the store was away does not count against a job whose instance died in it", async () => {
  const store = await emptyStore();
  let isAway = false;
  const reach = async <T>(work: () => Promise<T>): Promise<T> => {
    if (isAway) throw new ServiceError("unavailable", "The store is away");
    return work();
  };
  const distant = withParts(store, {
    now: () => reach(() => store.now()),
    transaction: (work, options) => reach(() => store.transaction(work, options)),
  });
  const times = { ...OFTEN, beat: 50, giveUp: 300 };
  const begun = gate();
  const agent = (isFirst: boolean) =>
    agentOf(({ job }) =>
      job.step("work", async () => {
        begun.open();
        if (isFirst) await never();
      }),
    );
  const join = async (isFirst: boolean) => {
    const life = new Life(distant, agent(isFirst), { shared: times });
    await life.resume();
    onTestFinished(() => void life.runner.close(0));
    return life;
  };
  const [a, b] = [await join(true), await join(false)];
  await start(a, JOB);
  await begun.opened;

  const id = a.runner.instance!;
  isAway = true;
  a.die();
  await expect.poll(() => b.logs.some((line) => line.includes("its jobs are left to others"))).toBe(true);
  // To the others it was last seen long ago.
  await bury(a, store, id);
  isAway = false;

  await expect.poll(async () => isTerminal((await b.jobs.get(JOB)).status)).toBe(true);
  expect(await b.jobs.get(JOB)).toMatchObject({ status: "completed" });
  expect(await crashes(b)).toBe(0);
});

test("a claim of an instance that died before the turn of the job does not count as a crash", async () => {
  const store = await emptyStore();
  const begun = gate();
  const make = (isFirst: boolean) =>
    agentOf(({ job }) =>
      job.step("work", async () => {
        begun.open();
        if (isFirst) await never();
      }),
    );
  const lives: Life[] = [];
  const join = async (more: { diesAt?: number }) => {
    const life = new Life(store, make(lives.length === 0), { shared: { look: 20 }, ...more });
    lives.push(life);
    onTestFinished(() => void life.runner.close(0));
    await Promise.race([life.resume(), life.died]);
    return life;
  };
  const first = await join({});
  await start(first, JOB);
  await begun.opened;
  first.die();
  await bury(first, store);

  // Each stores that it has claimed the job, and no more.
  for (let n = 0; n < 4; n++) {
    const lines = (await store.log("Run").read(JOB)).length;
    await bury(await join({ diesAt: lines + 1 }), store);
    expect(await store.log("Run").read(JOB)).toHaveLength(lines + 1);
  }
  const last = await join({});

  await expect.poll(async () => isTerminal((await last.jobs.get(JOB)).status)).toBe(true);
  expect(await last.jobs.get(JOB)).toMatchObject({ status: "completed" });
  expect(await crashes(last)).toBe(1);
});
