import type { AgentDefinition, JobHandle } from "agent-control-service";
import * as v from "valibot";
import { expect, test } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { ForkRequest } from "../../src/core/runs/runner.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf } from "./_agent.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

const FORM = v.object({ approved: v.boolean() });

/** What the steps did, in their order. */
const done: string[] = [];
const work =
  <T>(name: string, value: T) =>
  () => {
    done.push(name);
    return value;
  };

/** Two chains beside each other, each in a case with an update, a question and a delivery. */
const auditor = agentOf(async ({ job, fields }) => {
  const rate = await job.step("rate", work("rate", (fields as { n: number }).n), { cost: 1 });
  const chain = async (ref: string) => {
    const item = await job.openCase({ id: ref, name: `Case ${ref}` });
    const sum = await item.step("sum", work(`${ref} sum`, rate * 10), { cost: 0.5 });
    await item.update({ name: "found", payload: { sum } });
    const { approved } = await item.ask("approve", { question: "Pay it?", fields: FORM });
    await item.step("pay", work(`${ref} pay`, approved));
    await item.close({ sum, approved });
    return sum;
  };
  const sums = await Promise.all([chain("a"), chain("b")]);
  await job.sleep(0.01);
  return { total: await job.step("add", work("add", sums[0]! + sums[1]!)) };
});

interface World {
  readonly store: Store;
  readonly life: Life;
}

async function open(agents: AgentDefinition | readonly AgentDefinition[]): Promise<World> {
  done.length = 0;
  const store = await emptyStore();
  return { store, life: new Life(store, agents, { most: 100 }) };
}

/** A job of the auditor that ran to its end. */
async function audited(): Promise<World> {
  const world = await open(auditor);
  await world.life.start();
  await answerAll(world, JOB);
  done.length = 0;
  return world;
}

/** Answers all questions of a job until it has ended. */
async function answerAll({ life }: World, id: string): Promise<StoredJob> {
  for (;;) {
    const job = await life.runner.ended(id, 5);
    if (job.finished_at !== null || job.held) return job;
    const { items } = await life.cases.list({ where: { job_id: id, status: "awaiting" } });
    for (const item of items)
      await life.runner.answer(id, item.id, { answer: { approved: true }, message: null });
  }
}

/** All that is stored of a job. */
async function stored({ store }: World, id: string): Promise<string> {
  const { items } = await store.table("Case").list({ where: { job_id: id }, limit: 1000 });
  const histories = await Promise.all(items.map((item) => store.log("CaseUpdate").read(item.id)));
  return JSON.stringify([
    await store.table("Job").get(id),
    items,
    histories,
    await store.log("Run").read(id),
  ]);
}

const fork = ({ life }: World, id: string, request: ForkRequest) =>
  life.runner.fork(JOB, { job_id: id, ...request });

test("a fork at each recorded call ends as the original did, repeats nothing from before it, and leaves the original as it was", async () => {
  const world = await audited();
  const { life } = world;
  const original = await life.jobs.get(JOB);
  const before = await stored(world, JOB);
  const calls = await life.runner.calls(JOB);
  const repeated: string[][] = [];

  for (const [at, { name }] of calls.entries()) {
    done.length = 0;
    await fork(world, `fork-${at}`, { from: name });
    const job = await answerAll(world, `fork-${at}`);
    repeated.push([...done]);
    expect([job.status, job.result, job.error], name).toEqual(["completed", original.result, null]);
    const { items } = await life.cases.list({ where: { job_id: job.id }, sort: "created_at" });
    expect(items.map(({ ref, status, final_delivery }) => [ref, status, final_delivery])).toEqual(
      ["a", "b"].map((ref) => [ref, "completed", { sum: 10, approved: true }]),
    );
  }

  expect(calls).toHaveLength(15);
  // Each call is made again with those after it, and with no other.
  expect(repeated[0]).toEqual(expect.arrayContaining(["rate", "a sum", "b sum", "a pay", "b pay", "add"]));
  expect(repeated.at(-1)).toEqual(["add"]);
  for (const [at, { line }] of calls.entries()) {
    const later = calls.filter((one) => one.line! >= line! && one.name.includes("step:"));
    expect(repeated[at]!.map((one) => one.split(" ").at(-1)).sort(), calls[at]!.name).toEqual(
      later.map(({ name }) => name.split("step:")[1]).sort(),
    );
  }
  expect(await stored(world, JOB)).toBe(before);
  const { total } = await life.jobs.list({ where: { forked_from: JOB } });
  expect(total).toBe(calls.length);
});

test("cases are copied with their history up to the call, under ids of their own, and the fork names the original", async () => {
  const world = await audited();
  const { life } = world;
  const at = (await life.runner.calls(JOB)).find(({ name }) => name === "b/step:pay")!;

  const job = await fork(world, "fork", { from: "b/step:pay" });
  const ended = await answerAll(world, "fork");
  const [a, b] = (await life.cases.listWithUpdates({ where: { job_id: "fork" }, sort: "created_at" }, 100))
    .items;
  const originals = await Promise.all(["a", "b"].map((id) => life.cases.get(id)));
  const entries = (await life.jobs.log("fork")).map(({ entry }) => entry);

  expect(job).toMatchObject({ forked_from: { job_id: JOB, line: at.line! - 1 }, case_count: 2 });
  expect([a!.id, a!.ref, b!.id, b!.ref]).toEqual(["fork-a", "a", "fork-b", "b"]);
  expect(b!.updates.slice(0, 4)).toEqual(originals[1]!.updates.slice(0, 4));
  expect(b!.updates.map(({ name }) => name)).toEqual(originals[1]!.updates.map(({ name }) => name));
  expect(b!.updates.map(({ index }) => index)).toEqual([1, 2, 3, 4, 5, 6]);
  expect(entries.filter((entry) => entry.case_id === "a" || entry.case_id === "b")).toEqual([]);
  expect(entries).toContainEqual(
    expect.objectContaining({ type: "mark", mark: "forked", message: `from job ${JOB}, before b/step:pay` }),
  );
  // What was copied was spent by the original.
  expect(ended.total_cost).toBe(0);
  expect([(await life.jobs.get(JOB)).total_cost, b!.total_cost]).toEqual([2, 0]);
});

test("other fields: the copied results stay, and later calls see the new ones", async () => {
  const world = await audited();

  await fork(world, "start", { from: "start", fields: { n: 3 } });
  await fork(world, "later", { from: "add", fields: { n: 3 } });
  const bad = () => fork(world, "bad", { from: "start", fields: { n: "many" } });
  const unknown = () => fork(world, "unknown", { from: "start", fields: { m: 1 } });

  await expect(bad()).rejects.toMatchObject({
    type: "invalid_parameters",
    detail: expect.stringContaining("n"),
  });
  await expect(unknown()).rejects.toMatchObject({ type: "invalid_parameters" });
  expect((await answerAll(world, "start")).result).toEqual({ total: 60 });
  expect(await answerAll(world, "later")).toMatchObject({ result: { total: 20 }, job_fields: { n: 3 } });
});

test("a call is named in several ways; a name that fits several calls, or none, is refused with the candidates", async () => {
  const world = await audited();
  const pay = (await world.life.runner.calls(JOB)).find(({ name }) => name === "a/step:pay")!;
  const lines: unknown[] = [];

  for (const from of ["a/step:pay", "a/pay", `@${pay.line}`, 'step "pay" of case "a"', "a/pay#1"])
    lines.push((await fork(world, `fork-${lines.length}`, { from })).forked_from?.line);
  const several = () => fork(world, "several", { from: "pay" });
  const none = () => fork(world, "none", { from: "send" });

  expect(lines).toEqual(Array.from({ length: 5 }, () => pay.line! - 1));
  await expect(several()).rejects.toMatchObject({
    type: "invalid_parameters",
    message: '2 recorded calls are named "pay": name one of them',
    detail: expect.stringMatching(/^Calls: start, [ab]\/step:pay \(@\d+\), [ab]\/step:pay \(@\d+\), end\.$/),
  });
  await expect(none()).rejects.toMatchObject({ detail: expect.stringContaining("step:rate") });
  expect(await world.life.jobs.find("several")).toBeUndefined();
});

test("calls of one name are named with their numbers", async () => {
  const world = await open(
    agentOf(async ({ job }) => {
      for (let n = 0; n < 3; n++) await job.step("next", work(`next ${n}`, n));
    }),
  );
  await world.life.start();
  await world.life.ended();
  done.length = 0;

  await fork(world, "fork", { from: "next#2" });
  await world.life.runner.ended("fork", 10_000);

  expect(await world.life.runner.calls(JOB)).toMatchObject(
    [1, 2, 3].map((n) => ({ name: `step:next#${n}` })),
  );
  // A job of the test before may still be working.
  expect(done.filter((name) => name.startsWith("next"))).toEqual(["next 1", "next 2"]);
  await expect(fork(world, "other", { from: "step:next" })).rejects.toMatchObject({
    type: "invalid_parameters",
  });
});

test("an open question is asked again in the fork, and the original's stays open", async () => {
  const world = await open(auditor);
  await world.life.start();
  const until = async (id: string) => {
    for (;;) {
      const { items } = await world.life.cases.list({ where: { job_id: id, status: "awaiting" } });
      if (items.length === 2) return items;
      await new Promise(setImmediate);
    }
  };
  const asked = await until(JOB);
  const before = await stored(world, JOB);

  await fork(world, "one", { from: "a/ask:approve" });
  const again = await until("one");
  const ended = await answerAll(world, "one");

  expect(again.map(({ id }) => id).sort()).toEqual(["one-a", "one-b"]);
  // The case shows the question once: that of the fork.
  for (const { id } of again) {
    const names = (await world.life.cases.updates(id)).map(({ name }) => name);
    expect(names).toEqual(["sum", "found", "Pay it?", "answer", "pay", "close"]);
  }
  expect(ended.result).toEqual({ total: 20 });
  expect(await stored(world, JOB)).toBe(before);
  expect((await until(JOB)).map(({ question }) => question)).toEqual(asked.map(({ question }) => question));
});

test("a failed step of a job is made again with all its tries, and what other runs of it did is not counted", async () => {
  let isBroken = true;
  const tries: number[] = [];
  const world = await open(
    agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      await item.step("fetch", work("fetch", 1));
      await item.step(
        "send",
        ({ attempt }) => {
          tries.push(attempt);
          if (isBroken) throw new Error("not reachable");
          return "sent";
        },
        { retries: 2, backoff: { initial: 0.001 } },
      );
      await item.close();
      return "sent";
    }),
  );
  await world.life.start();
  const failed = (await world.life.ended())!;
  await world.life.runner.retry(JOB, "last_step");
  await world.life.runner.ended(JOB, 10_000);
  done.length = 0;
  tries.length = 0;

  isBroken = false;
  await fork(world, "fork", { from: "send" });
  const job = await world.life.runner.ended("fork", 10_000);
  isBroken = true;
  tries.length = 0;
  await fork(world, "broken", { from: "send" });
  await world.life.runner.ended("broken", 10_000);

  expect(failed.status).toBe("failed");
  expect(job).toMatchObject({ status: "completed", result: "sent", error: null });
  expect(await world.life.cases.get("fork-a")).toMatchObject({ status: "completed", ref: "a" });
  expect(done).toEqual([]);
  expect(tries).toHaveLength(3);
});

test("a fork whose changed fields lead to other calls is held, although its code is that of the original", async () => {
  const world = await open(
    agentOf(async ({ job, fields }) => {
      const isLarge = (fields as { n: number }).n > 1;
      await job.step(isLarge ? "audit" : "check", work("check", 1));
      await job.step("pay", work("pay", 2));
      return isLarge;
    }),
  );
  await world.life.start();
  await world.life.ended();

  await fork(world, "fork", { from: "pay", fields: { n: 5 } });
  const held = await answerAll(world, "fork");
  await world.life.runner.continue("fork");
  const job = await world.life.runner.ended("fork", 10_000);

  expect(held).toMatchObject({
    ...{ status: "awaiting", stop_reason: "code_changed" },
    held: { expected: 'step "check"', found: 'step "audit"' },
    error: expect.stringContaining(
      "copied from the job that this one is a fork of, whose input is different",
    ),
  });
  expect(job).toMatchObject({ status: "completed", result: true });
});

test("a fork under other code than the record's is held, as the original would be", async () => {
  const make = (name: string, version: string) =>
    agentOf(
      async ({ job }: { job: JobHandle }) => {
        await job.step(name, work(name, 1));
        await job.step("pay", work("pay", 2));
        return version;
      },
      { version },
    );
  const { store, life } = await open(make("fetch", "1.0.0"));
  await life.start();
  await life.ended();
  life.die();
  const world = { store, life: new Life(store, make("load", "2.0.0")) };

  await fork(world, "fork", { from: "pay" });

  expect(await answerAll(world, "fork")).toMatchObject({
    stop_reason: "code_changed",
    held: {
      ...{ expected: 'step "fetch"', found: 'step "load"' },
      recorded: { version: "1.0.0" },
      present: { version: "2.0.0" },
    },
  });
});

test("the same request gives the same fork, by its id and by its key; another one under them is refused", async () => {
  const world = await audited();
  const keyed = (more: Partial<ForkRequest> = {}) =>
    world.life.runner.fork(JOB, { from: "add", idempotencyKey: "key-1", ...more });

  const [first, second] = await Promise.all([keyed(), keyed()]);
  const same = await fork(world, first.id, { from: "add" });

  expect([second.id, same.id]).toEqual([first.id, first.id]);
  await expect(keyed({ fields: { n: 2 } })).rejects.toMatchObject({ type: "job_already_exists" });
  await expect(fork(world, first.id, { from: "rate" })).rejects.toMatchObject({ type: "job_already_exists" });
  await expect(fork(world, JOB, { from: "add" })).rejects.toMatchObject({ type: "job_already_exists" });
  expect((await world.life.jobs.list({ where: { forked_from: JOB } })).total).toBe(1);
});

test("a process that ends at any write of a fork leaves none of it, or all", async () => {
  const world = await audited();
  const { store, life } = world;
  const calls = await life.runner.calls(JOB);
  life.die();
  const outcomes = new Set<string>();

  for (let n = 0; n < 40; n++) {
    const id = `fork-${n}`;
    const one = new Life(failing(store, n), auditor, { most: 100 });
    await one.runner.fork(JOB, { from: calls.at(-1)!.name, job_id: id }).catch(() => {});
    one.die();
    const job = await store.table("Job").get(id);
    const { total } = await store.table("Case").list({ where: { job_id: id } });
    const lines = await store.log("Run").last(id);
    outcomes.add(job ? "all" : "none");
    expect([total, lines > 0], `write ${n}`).toEqual([job ? 2 : 0, job !== undefined]);
  }
  const next = { store, life: new Life(store, auditor, { most: 100 }) };
  await next.life.resume();

  expect([...outcomes].sort()).toEqual(["all", "none"]);
  const { items } = await store.table("Job").list({ where: { forked_from: JOB }, limit: 100 });
  for (const { id } of items) expect((await answerAll(next, id)).result).toEqual({ total: 20 });
});

test("a fork of a fork, and of a job that started over, has only what counts", async () => {
  const world = await audited();
  await fork(world, "first", { from: "b/step:pay", fields: { n: 2 } });
  await answerAll(world, "first");
  await world.life.runner.override("first", "failed", "someone");
  await world.life.runner.retry("first", "start");
  await answerAll(world, "first");
  done.length = 0;

  await world.life.runner.fork("first", { from: "add", job_id: "second" });
  const job = await answerAll(world, "second");

  /** Each call after which it was made, as names: the lines have other numbers in the copy. */
  const causes = async (id: string) => {
    const entries = (await world.life.jobs.log(id)).map(({ entry }) => entry);
    const nameAt = (line: number) => {
      // A change of status that was stored with an answer is not copied.
      const entry = entries.slice(0, line).findLast(({ type }) => type !== "status")!;
      return [entry.type, entry.case_id?.slice(-1), "name" in entry ? entry.name : ""].join(" ");
    };
    const from = entries.findLastIndex((entry) => entry.type === "mark" && entry.mark === "restarted");
    return entries.flatMap((entry, at) =>
      at > from && entry.type === "call" && entry.made
        ? [[nameAt(at + 1), nameAt(entry.made)].join(" < ")]
        : [],
    );
  };
  const [original, copy] = [await causes("first"), await causes("second")];

  expect(original.length).toBeGreaterThan(8);
  expect(copy).toEqual(original);
  expect(job).toMatchObject({ result: { total: 40 }, forked_from: { job_id: "first" } });
  expect(done).toEqual(["add"]);
});

test("observers hear of a fork's start first, then of its copied cases, then of what it does", async () => {
  const world = await audited();
  const heard: string[] = [];
  world.life.hooks.on("job:created", ({ job }) => void heard.push(`created ${job.status}`));
  world.life.hooks.on("job:changed", ({ job, previous }) => {
    if (job.status !== previous.status) heard.push(job.status);
  });
  world.life.hooks.on("case:opened", ({ case: item }) => void heard.push(`opened ${item.id}`));
  world.life.hooks.on("case:changed", ({ update }) => void heard.push(`${update?.name} ${update?.index}`));

  await fork(world, "fork", { from: "b/step:pay" });
  await answerAll(world, "fork");

  expect(heard.slice(0, 2)).toEqual(["created stopped", "in_progress"]);
  expect(heard.slice(2, 4)).toEqual(["opened fork-a", "opened fork-b"]);
  expect(heard.slice(4)).toContain("pay 5");
  await expect.poll(() => heard.at(-1)).toBe("completed");
});

test("a fork waits for the same child as the original, and its end stops no child of the original", async () => {
  const child = agentOf(
    async ({ job }) => {
      const item = await job.openCase({ id: "child", name: "child" });
      const { approved } = await item.ask("approve", { question: "Go?", fields: FORM });
      return { approved };
    },
    { name: "Child" },
  );
  const parent = agentOf(
    async ({ job }) => {
      const started = await job.start("child", {});
      await job.step("other", work("other", 1));
      return started.result();
    },
    { suspendAfter: 0 },
  );
  const world = await open([parent, child]);
  const { runner, cases, jobs } = world.life;
  await world.life.start();
  for (;;) {
    const { total } = await cases.list({ where: { status: "awaiting" } });
    if (total === 1 && (await runner.calls(JOB)).length === 3) break;
    await new Promise(setImmediate);
  }
  const [only] = (await jobs.list({ where: { parent_id: JOB } })).items;

  await fork(world, "stopped", { from: "other" });
  await fork(world, "waiting", { from: "child:child" });
  await runner.stop("stopped");
  await runner.ended("stopped", 10_000);
  const before = (await jobs.get(only!.id)).status;
  await runner.answer(only!.id, "child", { answer: { approved: true }, message: null });
  const [original, waiting] = await Promise.all([runner.ended(JOB, 10_000), runner.ended("waiting", 10_000)]);

  expect(before).toBe("awaiting");
  for (const job of [original, waiting])
    expect(job).toMatchObject({ status: "completed", result: { approved: true } });
  expect((await jobs.list({ where: { agent_name: "child" } })).total).toBe(1);
  expect(await jobs.get("waiting")).toMatchObject({ parent: null, forked_from: { job_id: JOB } });
});

test.each(["deleted", "deleted permanently"])(
  "a fork of a fork that was %s resumes when the child of the first job ends",
  async (how) => {
    const child = agentOf(
      async ({ job }) => {
        const item = await job.openCase({ id: "child", name: "child" });
        return item.ask("approve", { question: "Go?", fields: FORM });
      },
      { name: "Child" },
    );
    const parent = agentOf(async ({ job }) => (await job.start("child", {})).result(), { suspendAfter: 0 });
    const world = await open([parent, child]);
    const { runner, cases, jobs } = world.life;
    const suspended = async (id: string) => {
      while (!(await jobs.get(id)).suspended) await new Promise(setImmediate);
    };
    await world.life.start();
    await suspended(JOB);
    const [only] = (await jobs.list({ where: { parent_id: JOB } })).items;
    while ((await cases.list({ where: { status: "awaiting" } })).total === 0) await new Promise(setImmediate);
    await fork(world, "first", { from: "child:child" });
    await suspended("first");
    await runner.fork("first", { job_id: "second", from: "child:child" });
    // It has what was recorded, and waits.
    while ((await jobs.get("second")).status !== "in_progress") await new Promise(setImmediate);
    await runner.remove("first", "someone", { permanent: how !== "deleted" });

    await runner.answer(only!.id, "child", { answer: { approved: true }, message: null });

    expect(await runner.ended("second", 10_000)).toMatchObject({
      ...{ status: "completed", result: { approved: true } },
    });
  },
);

/** A store that fails at its write number `at`, inside a transaction. */
function failing(store: Store, at: number): Store {
  let writes = 0;
  const count = () => {
    if (writes++ === at) throw new Error("The process ended");
  };
  return {
    table: (name) => store.table(name),
    log: (name) => store.log(name),
    health: () => store.health(),
    stats: () => store.stats(),
    close: () => store.close(),
    hints: store.hints,
    now: () => store.now(),
    transaction: (run, options) =>
      store.transaction(
        (tx) =>
          run({
            get: (...given) => tx.get(...given),
            ids: (...given) => tx.ids(...given),
            insert: async (...given) => {
              count();
              return tx.insert(...given);
            },
            change: async (...given) => {
              count();
              return tx.change(...given);
            },
            append: async (...given) => {
              count();
              return tx.append(...given);
            },
            remove: (...given) => tx.remove(...given),
            last: (...given) => tx.last(...given),
            clear: (...given) => tx.clear(...given),
          }),
        options,
      ),
  };
}
