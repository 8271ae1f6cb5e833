import { type AgentDefinition, ChildFailedError, defineAgent, type JobHandle } from "agent-control-service";
import { JOBS, PARAMETERS, RETENTION, RUNNER, STORE } from "agent-control-service/plugin";
import { crashTest, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it, onTestFinished } from "vitest";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";
import { emptyStore, Life } from "./_lives.ts";

const ACTOR = "test";

/** Adds one to a number. */
const adder = defineAgent({
  name: "Adder",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ n: v.number(), fails: v.optional(v.boolean(), false) }),
      run: async ({ job, fields }) => {
        if (fields.fails) throw new Error(`cannot add to ${fields.n}`);
        return { sum: await job.step("add", () => fields.n + 1) };
      },
    },
  },
});

const parentOf = (run: (job: JobHandle) => unknown) => agentOf(({ job }) => run(job), { name: "Parent" });

async function serve(run: (job: JobHandle) => unknown, options: { maxConcurrentJobs?: number } = {}) {
  const server = await testServer({ agents: [parentOf(run), adder], ...options });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const children = async (id: string) =>
    (await server.service.get(JOBS).list({ where: { parent_id: id }, sort: "created_at" })).items;
  return { server, children };
}

describe("a child", () => {
  it("is started by the definition of its agent, whose types its fields and its result have", async () => {
    const { server, children } = await serve(async (job) => {
      const child = await job.start(adder, { n: 1 });
      const { sum } = await child.result();
      expectTypeOf(sum).toEqualTypeOf<number>();
      return { sum, id: child.id };
    });

    const { job, result } = await server.run("parent");

    const [child] = await children(job.id);
    expect(result).toEqual({ sum: 2, id: child!.id });
    expect(child).toMatchObject({
      agent_name: "adder",
      status: "completed",
      parent: { job_id: job.id, call: "adder", detached: false },
      job_context: { mission_id: job.job_context.mission_id, workspace_id: job.job_context.workspace_id },
    });
  });

  it("is refused by the compiler with other fields, and accepted by slug with any", () => {
    const compiles = (_work: (job: JobHandle) => unknown) => expect(true).toBe(true);
    compiles((job) => {
      // @ts-expect-error n is missing
      void job.start(adder, {});
      // @ts-expect-error n is a number
      void job.start(adder, { n: "1" });
      // @ts-expect-error it has fields that are required
      void job.start(adder);
      void job
        .start("adder", { anything: 1 })
        .then((child) => expectTypeOf(child.result()).toEqualTypeOf<Promise<unknown>>());
      void job.start(agentOf(() => 1));
      // A definition without types, as in a list of agents, accepts any fields.
      void job.start(agentOf(() => 1) as AgentDefinition, { anything: 1 });
    });
  });

  it("rejects with its status, reason and error where it fails", async () => {
    let caught: unknown;
    const { server, children } = await serve(async (job) => {
      const child = await job.start(adder, { n: 7, fails: true });
      await child.result().catch((error: unknown) => {
        caught = error;
      });
      return "continued";
    });

    const { job, result } = await server.run("parent");

    const [child] = await children(job.id);
    expect(result).toBe("continued");
    expect(caught).toBeInstanceOf(ChildFailedError);
    expect(caught).toMatchObject({
      child: child!.id,
      status: "failed",
      reason: "error",
      message: `Child "${child!.id}" of agent "adder" failed: cannot add to 7`,
    });
  });

  it.each([
    ["fields that are not valid", { n: "x" }, /^Invalid fields for agent "adder": n must be a number/],
    ["an unknown agent", undefined, /Unknown agent "nobody"/],
  ])("is not started with %s, which is recorded", async (_, fields, message) => {
    const { server, children } = await serve(async (job) => {
      const started = fields ? job.start("adder", fields) : job.start("nobody");
      const error = await started.then(
        () => undefined,
        (error: unknown) => error as ChildFailedError,
      );
      await job.step("after", () => 1);
      return { message: error?.message, child: error?.child, is: error instanceof ChildFailedError };
    });

    const { job, result } = await server.run("parent");

    expect(result).toEqual({ message: expect.stringMatching(message), child: null, is: true });
    expect(await children(job.id)).toEqual([]);
  });

  it("waits behind a full queue, and its parent holds no slot meanwhile", async () => {
    const server = await testServer({
      agents: [
        parentOf(async (job) => {
          const children = await Promise.all(
            [1, 2, 3].map((n) => job.start(adder, { n }, { key: String(n) })),
          );
          return Promise.all(children.map(async (child) => (await child.result()).sum));
        }),
        adder,
      ],
      maxConcurrentJobs: 1,
      maxQueuedJobs: 1,
    });
    onTestFinished(() => server[Symbol.asyncDispose]());

    expect((await server.run("parent")).result).toEqual([2, 3, 4]);
  });

  it("of the same agent runs where that has one slot", async () => {
    const again = agentOf(
      async ({ job, fields }) => {
        if (fields.n === 0) return 0;
        const child = await job.start<number>("again", { n: Number(fields.n) - 1 });
        return 1 + (await child.result());
      },
      { name: "Again", maxConcurrentJobs: 1 },
    );
    await using server = await testServer({ agents: [again] });

    expect((await server.run("again", { fields: { n: 5 } })).result).toBe(5);
  });

  it("of an agent that starts itself without end is refused at a depth", async () => {
    const endless = agentOf(
      async ({ job }) => {
        const child = await job.start("endless");
        return child.result();
      },
      { name: "Endless" },
    );
    await using server = await testServer({ agents: [endless] });

    const { job } = await server.run("endless");

    expect(job.error).toMatch(/^Child .* failed: .*a child of a child, and so on, 100 times/s);
    expect((await server.service.get(JOBS).list({ limit: 1 })).total).toBe(101);
  });

  it("gets the parameters that were sent with its parent only if asked to", async () => {
    const secret = { name: "TOKEN", is_secret: true };
    const teller = defineAgent({
      name: "Teller",
      version: "1.0.0",
      parameters: [secret],
      methods: { job_start: { run: ({ parameters }) => ({ length: parameters.TOKEN?.length ?? 0 }) } },
    });
    const parent = defineAgent({
      name: "Parent",
      version: "1.0.0",
      parameters: [secret],
      methods: {
        job_start: {
          run: async ({ job, parameters }) => {
            const without = await job.start(teller, {}, { key: "without" });
            const given = await job.start(teller, {}, { key: "given", passParameters: true });
            const leaked = await job
              .start("teller", { text: parameters.TOKEN })
              .catch((error: Error) => error.message);
            return [await without.result(), await given.result(), leaked];
          },
        },
      },
    });
    await using server = await testServer({ agents: [parent, teller] });
    const encrypted = server.service.get(PARAMETERS).encrypt(JSON.stringify({ TOKEN: "a-long-secret" }));

    const started = await server.service
      .get(RUNNER)
      .start("parent", { encrypted_agent_parameters: encrypted });
    const { result } = await until(server.service, started.id);

    expect(result).toEqual([{ length: 0 }, { length: 13 }, expect.stringContaining("contain a secret")]);
  });

  it("is found by its parent in lists, and shows it", async () => {
    const { server } = await serve(async (job) =>
      (await job.start(adder, { n: 1 }, { name: "Small sum" })).result(),
    );
    const { job } = await server.run("parent");

    const listed = await server.request(`/jobs?parent_id=${job.id}`);
    const others = await server.request("/jobs?parent_id=job-of-nobody");

    expect(listed.headers.get("x-total-count")).toBe("1");
    expect(others.headers.get("x-total-count")).toBe("0");
  });
});

describe("the end of a parent", () => {
  /** A parent that waits for a child that waits for a gate. */
  async function family(detached: boolean, then: (job: JobHandle) => unknown = () => {}) {
    const { opened, open } = gate();
    const running = gate();
    const stopped: string[] = [];
    const slow = agentOf(
      ({ job, signal }) =>
        job.step(
          "wait",
          () =>
            new Promise((done, fail) => {
              running.open();
              void opened.then(done);
              signal.addEventListener("abort", () => fail(signal.reason as Error));
            }),
        ),
      { name: "Slow", methods: { job_stop: { run: ({ job }) => void stopped.push(job.id) } } },
    );
    const parent = agentOf(
      async ({ job }) => {
        const child = await job.start(slow, {}, { detached });
        await job.step("until it runs", () => running.opened);
        await then(job);
        return child.result();
      },
      { name: "Parent" },
    );
    const server = await testServer({ agents: [parent, slow] });
    onTestFinished(() => server[Symbol.asyncDispose]());
    const { id } = await startJob(server.service, {});
    const child = async () => (await server.service.get(JOBS).list({ where: { parent_id: id } })).items[0];
    await expect.poll(async () => (await child())?.run_count).toBe(1);
    return { server, id, child, open, stopped };
  }

  it("stops the child where it is cancelled, with the reason, in the ordinary way", async () => {
    const { server, id, child, stopped } = await family(false);

    await server.service.get(RUNNER).stop(id);
    const { id: childId } = (await child())!;
    await until(server.service, childId, ["cancelled"]);

    expect(await child()).toMatchObject({
      status: "cancelled",
      stop_reason: "parent_ended",
      error: `The job was stopped: its parent "${id}" was cancelled`,
    });
    expect(stopped).toEqual([childId]);
  });

  it("stops the child where it fails, and where it is deleted", async () => {
    const failing = await family(false, () => {
      throw new Error("no more");
    });
    await until(failing.server.service, (await failing.child())!.id, ["cancelled"]);
    const deleted = await family(false);
    const { id } = (await deleted.child())!;
    await deleted.server.service.get(RUNNER).remove(deleted.id, ACTOR);

    expect((await until(deleted.server.service, id, ["cancelled"])).error).toContain("was cancelled");
  });

  it("leaves a detached child alone, and any child where it completes", async () => {
    const { server, id, child, open } = await family(true);
    await server.service.get(RUNNER).stop(id);
    await until(server.service, id, ["cancelled"]);

    expect((await child())!.status).toBe("in_progress");
    open();
    expect((await until(server.service, (await child())!.id)).status).toBe("completed");
  });

  it("and its retry runs the child again that was stopped with it", async () => {
    let fails = true;
    const { server, id, child, open } = await family(false, () => {
      if (fails) throw new Error("no more");
    });
    const { id: childId } = (await child())!;
    await until(server.service, childId, ["cancelled"]);

    fails = false;
    open();
    await server.service.get(RUNNER).retry(id, "last_step", ACTOR);

    expect((await until(server.service, id)).status).toBe("completed");
    expect((await child())!.id).toBe(childId);
  });
});

describe("a failed child", () => {
  it("is retried with its parent, which fails because of it", async () => {
    let fails = true;
    const flaky = agentOf(
      () => {
        if (fails) throw new Error("not yet");
        return "fine";
      },
      { name: "Flaky" },
    );
    const parent = parentOf(async (job) => (await job.start(flaky)).result());
    await using server = await testServer({ agents: [parent, flaky] });
    const { job } = await server.run(parent);

    fails = false;
    await server.service.get(RUNNER).retry(job.id, "last_step", ACTOR);
    const retried = await until(server.service, job.id);

    expect(job.status).toBe("failed");
    expect(retried).toMatchObject({ status: "completed", result: "fine" });
    expect((await server.service.get(JOBS).list()).total).toBe(2);
  });

  it("that is retried alone does not change what its parent was given", async () => {
    let fails = true;
    const flaky = agentOf(
      () => {
        if (fails) throw new Error("not yet");
        return "fine";
      },
      { name: "Flaky" },
    );
    const { opened, open } = gate();
    const parent = parentOf(async (job) => {
      const child = await job.start(flaky);
      const first = await child.result().catch((error: Error) => error.name);
      await job.step("wait", () => opened);
      return [first, await child.result().catch((error: Error) => error.name)];
    });
    await using server = await testServer({ agents: [parent, flaky] });
    const { id } = await startJob(server.service, {});
    const child = async () => (await server.service.get(JOBS).list({ where: { parent_id: id } })).items[0];
    await expect.poll(async () => (await child())?.status).toBe("failed");

    fails = false;
    await server.service.get(RUNNER).retry((await child())!.id, "last_step", ACTOR);
    await until(server.service, (await child())!.id, ["completed"]);
    open();

    expect((await until(server.service, id)).result).toEqual(["ChildFailedError", "ChildFailedError"]);
  });
});

describe("a child of a job whose process dies", () => {
  const family = () => [
    agentOf(
      async ({ job }) => {
        const children = await Promise.all([1, 2].map((n) => job.start(adder, { n }, { key: `add ${n}` })));
        await job.step("between", () => 1);
        return Promise.all(children.map(async (child) => (await child.result()).sum));
      },
      { name: "Worker" },
    ),
    adder,
  ];

  /** Lives a job of the parent, with deaths at these lengths of its log, to its end. */
  async function live(store: Store, deaths: readonly number[]) {
    let count = 0;
    for (const diesAt of [...deaths, undefined]) {
      const life = new Life(store, family(), diesAt === undefined ? {} : { diesAt });
      count++;
      if (count === 1) await Promise.race([life.start(), life.died]);
      else await life.resume();
      const job = await life.ended();
      if (job) return { job, store };
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    throw new Error("it has not ended");
  }

  it("is started once and its result is given, wherever the process dies", async () => {
    const undisturbed = await live(await emptyStore(), []);
    const lines = await undisturbed.store.log("Run").last("job-1");
    expect(undisturbed.job.result).toEqual([2, 3]);
    expect(lines).toBeGreaterThan(7);

    for (let diesAt = 2; diesAt < lines; diesAt++) {
      const { job, store } = await live(await emptyStore(), [diesAt]);
      const children = await store.table("Job").list({ where: { parent_id: "job-1" } });

      expect({ diesAt, result: job.result, children: children.total }).toEqual({
        diesAt,
        result: [2, 3],
        children: 2,
      });
    }
  });

  it("is stopped at the next start, where its parent had ended before it was", async () => {
    const store = await emptyStore();
    const slow = agentOf(({ job }) => job.sleep("1h"), { name: "Slow" });
    const parent = agentOf(
      async ({ job }) => {
        await job.start(slow);
        await job.start(slow, {}, { key: "free", detached: true });
        await job.step("fail", () => {
          throw new Error("no");
        });
      },
      { name: "Worker" },
    );
    const first = new Life(store, [parent, slow]);
    first.hooks.on("job:finished", () => first.die());
    await first.start();
    await first.died;

    const second = new Life(store, [parent, slow]);
    await second.resume();
    const children = async () =>
      (await second.jobs.list({ where: { parent_id: "job-1" }, sort: "created_at" })).items;
    await expect
      .poll(async () => (await children()).map(({ status }) => status))
      .toEqual(["cancelled", "in_progress"]);

    expect((await children())[0]).toMatchObject({
      stop_reason: "parent_ended",
      error: expect.stringContaining("failed"),
    });
    second.die();
  });

  it.each([
    ["its parent is started over", {}],
    ["its parent is started over, which was moved here from an instance that was killed", { owner: "gone" }],
  ])("is stopped where %s", async (_, moved) => {
    const store = await emptyStore();
    const slow = agentOf(({ job }) => job.sleep("1h"), { name: "Slow" });
    const parent = agentOf(async ({ job }) => (await job.start(slow)).result(), {
      name: "Worker",
      onInterruption: "restart",
    });
    const first = new Life(store, [parent, slow]);
    await first.start();
    await expect
      .poll(async () => (await first.jobs.list()).items.map(({ status }) => status))
      .toEqual(["in_progress", "in_progress"]);
    await expect.poll(async () => (await first.entries()).some(({ type }) => type === "begun")).toBe(true);
    first.die();
    await store.table("Job").change("job-1", (job) => ({ ...job, ...moved }));

    const second = new Life(store, [parent, slow]);
    await second.resume();
    const children = async () =>
      (await second.jobs.list({ where: { parent_id: "job-1" }, sort: "created_at" })).items;
    await expect
      .poll(async () => (await children()).map(({ status }) => status))
      .toEqual(["cancelled", "in_progress"]);

    expect((await children())[0]!.error).toContain("was started over");
    second.die();
  });

  it("continues where its parent has completed, also if that was deleted before the next start", async () => {
    const store = await emptyStore();
    const slow = agentOf(({ job }) => job.sleep("1h"), { name: "Slow" });
    const parent = agentOf(async ({ job }) => (await job.start(slow)).id, { name: "Worker" });
    const first = new Life(store, [parent, slow]);
    await first.start();
    const { result } = (await first.ended())!;
    await first.runner.remove("job-1", ACTOR);
    first.die();

    const second = new Life(store, [parent, slow]);
    await second.resume();

    await expect.poll(async () => (await second.jobs.get(String(result))).status).toBe("in_progress");
    expect((await second.jobs.get(String(result))).parent).toMatchObject({ job_id: "job-1", detached: true });
    second.die();
  });

  it("is another one where a new job has the id of a parent that was deleted", async () => {
    const store = await emptyStore();
    const life = new Life(store, [
      agentOf(async ({ job, fields }) => (await job.start(adder, { n: Number(fields.n) })).result(), {
        name: "Worker",
      }),
      adder,
    ]);
    await life.start({ n: 1 });
    expect((await life.ended())!.result).toEqual({ sum: 2 });
    await life.runner.remove("job-1", ACTOR, { permanent: true });

    await life.start({ n: 5 });

    expect((await life.ended())!.result).toEqual({ sum: 6 });
    expect((await life.jobs.list({ where: { parent_id: "job-1" } })).total).toBe(2);
    life.die();
  });

  it("is found by crashTest to survive, and asks its questions there", async () => {
    const asker = agentOf(
      async ({ job }) => {
        const item = await job.openCase({ id: "q", name: "Question" });
        const { text } = await item.ask("which", { question: "Which?", fields: [{ name: "text" }] });
        await item.close();
        return text;
      },
      { name: "Asker" },
    );
    const parent = parentOf(async (job) => {
      const [first, second] = await Promise.all([job.start(adder, { n: 1 }), job.start(asker)]);
      const failed = await job.start(adder, { n: 5, fails: true }, { key: "fails" });
      return [
        await second.result(),
        await first.result(),
        await failed.result().catch((error: Error) => error.message),
      ];
    });

    const { interruptions } = await crashTest(parent, {
      agents: [adder, asker],
      answers: { which: { text: "this" } },
    });

    expect(interruptions).toBeGreaterThan(10);
  });
});

describe("new code under a job with children and events", () => {
  const adderOf = () => agentOf(({ fields }) => Number(fields.n) + 1, { name: "Adder" });

  /** A job that waits for an event after its child has ended, continued under other code; gives what became of it. */
  async function deploy(before: (job: JobHandle) => unknown, after: (job: JobHandle) => unknown) {
    const store = await emptyStore();
    const agents = (run: (job: JobHandle) => unknown) => [
      agentOf(({ job }) => run(job), { name: "Worker" }),
      adderOf(),
    ];
    const first = new Life(store, agents(before));
    await first.start();
    await expect.poll(async () => (await store.table("EventWait").list()).total).toBe(1);
    first.die();
    const second = new Life(store, agents(after));
    await second.resume();
    await second.runner.receive("go", { data: {} });
    const job = (await second.ended())!;
    const children = (await second.jobs.list({ where: { parent_id: "job-1" } })).total;
    second.die();
    return { job, children };
  }
  const old = async (job: JobHandle) => {
    const child = await job.start<number>("adder", { n: 1 });
    const sum = await child.result();
    await job.step("between", () => 1);
    await job.waitFor("go");
    return sum;
  };

  it("goes another way after them, or beside them, and starts no child twice", async () => {
    const after = await deploy(old, async (job) => {
      const sum = (await old(job)) as number;
      return sum + (await job.step("added", () => 10));
    });
    const changed = await deploy(old, async (job) => {
      const child = await job.start<number>("adder", { n: 1 });
      if (job.changed("no result")) return 0;
      const sum = await child.result();
      await job.step("between", () => 1);
      await job.waitFor("go", { deadline: "1d" });
      return sum;
    });

    expect([after.job.result, after.children]).toEqual([12, 1]);
    expect([changed.job.result, changed.children]).toEqual([2, 1]);
  });

  it("is held where it no longer starts a recorded child, or takes its result", async () => {
    const { job, children } = await deploy(old, async (job) => {
      await job.step("instead", () => 1);
      await job.waitFor("go");
    });
    const other = await deploy(old, async (job) => {
      await job.start("adder", { n: 1 });
      await job.step("instead", () => 1);
      await job.waitFor("go");
    });

    expect([job.held?.expected, job.held?.found, children]).toEqual(['start "adder"', 'step "instead"', 1]);
    expect(other.job.held).toMatchObject({
      expected: expect.stringMatching(/^child "/),
      found: 'step "instead"',
    });
  });
});

describe("a suspended parent", () => {
  it("resumes when its child ends, also where it is a fork that waits for a child of the original", async () => {
    const { opened, open } = gate();
    const slow = agentOf(({ job }) => job.step("wait", () => opened.then(() => "slow")), { name: "Slow" });
    const parent = parentOf(async (job) => {
      const child = await job.start(slow);
      await job.step("mark", () => 1);
      return child.result();
    });
    await using server = await testServer({ agents: [parent, slow], suspendAfter: 0 });
    const { service } = server;
    const isSuspended = async (id: string) => (await service.get(JOBS).get(id)).suspended?.wake_at === null;
    const { id } = await startJob(service, {});
    await expect.poll(() => isSuspended(id)).toBe(true);
    const fork = await service.get(RUNNER).fork(id, { from: "mark" }, ACTOR);
    await expect.poll(() => isSuspended(fork.id)).toBe(true);

    open();

    expect((await until(service, id)).result).toBe("slow");
    expect((await until(service, fork.id)).result).toBe("slow");
    expect((await service.get(JOBS).list({ where: { parent_id: fork.id } })).total).toBe(0);
  });
});

describe("retention", () => {
  it("keeps a child while its parent is open, and removes it then", async () => {
    const { opened, open } = gate();
    const parent = parentOf(async (job) => {
      const child = await job.start(adder, { n: 1 });
      await job.step("wait", () => opened);
      return child.result();
    });
    let ahead = 0;
    await using server = await testServer({
      agents: [parent, adder],
      retention: { completed: "1h" },
      clock: () => new Date(Date.now() + ahead),
    });
    const { id } = await startJob(server.service, {});
    const { items } = await expect
      .poll(() => server.service.get(JOBS).list({ where: { parent_id: id, status: "completed" } }))
      .toMatchObject({ total: 1 })
      .then(() => server.service.get(JOBS).list({ where: { parent_id: id } }));

    ahead = 2 * 3_600_000;
    await server.service.get(RETENTION).run();
    expect(await server.service.get(JOBS).find(items[0]!.id)).toBeDefined();
    open();
    expect((await until(server.service, id)).result).toEqual({ sum: 2 });
    ahead = 4 * 3_600_000;
    await server.service.get(RETENTION).run();

    expect(await server.service.get(JOBS).find(items[0]!.id)).toBeUndefined();
    expect(await server.service.get(STORE).table("Job").ids()).toEqual([]);
  });

  it("that has removed a child leaves its parent with a clear error", async () => {
    const { opened, open } = gate();
    const parent = parentOf(async (job) => {
      const child = await job.start(adder, { n: 1 });
      await job.step("wait", () => opened);
      return child.result().catch((error: ChildFailedError) => [error.message, error.status]);
    });
    await using server = await testServer({ agents: [parent, adder] });
    const { id } = await startJob(server.service, {});
    const child = async () => (await server.service.get(JOBS).list({ where: { parent_id: id } })).items[0];
    await expect.poll(async () => (await child())?.status).toBe("completed");
    await server.service.get(RUNNER).remove((await child())!.id, ACTOR);
    open();

    expect((await until(server.service, id)).result).toEqual([
      expect.stringContaining("no longer exists"),
      null,
    ]);
  });
});
