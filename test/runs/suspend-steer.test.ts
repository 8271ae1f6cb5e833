import type { AgentDefinition, JobStartContext } from "agent-control-service";
import { CASES, HOOKS, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, test } from "vitest";
import type { StoredJob } from "../../src/core/models/job.ts";
import { agentOf, gate } from "./_agent.ts";
import { NO_LIMITS, startJob, until } from "./_jobs.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

const FIELDS = v.object({ text: v.pipe(v.string(), v.startsWith("it is ", "must say what it is")) });

/** Asks, and says what came of it. */
async function asker({ job }: JobStartContext): Promise<string> {
  const item = await job.openCase({ id: "one", name: "One" });
  try {
    return (await item.ask("what", { question: "What?", fields: FIELDS })).text;
  } catch (error) {
    return `rejected: ${(error as Error).message}`;
  }
}

const get = ({ service }: TestServer, id = JOB): Promise<StoredJob> => service.get(JOBS).get(id);

/** A server whose jobs leave memory as soon as they only wait; the job was suspended. */
async function suspended(agent: AgentDefinition, options: Parameters<typeof testServer>[0] | object = {}) {
  const server = await testServer({ agents: [agent], suspendAfter: 0, ...options });
  const left = new Promise<void>((resolve) => {
    server.service.get(HOOKS).on("job:changed", ({ job }) => {
      if (job.suspended) resolve();
    });
  });
  await startJob(server.service, { id: JOB });
  await left;
  return server;
}

const isSuspended = (server: TestServer) =>
  expect.poll(async () => (await get(server)).suspended, { timeout: 10_000 }).toBeTruthy();

test("the agent's own schema checks the answer to a suspended job, which is asked on where it does not fit", async () => {
  await using server = await suspended(agentOf(asker));
  const answer = (text: string) =>
    server.service.get(RUNNER).answer(JOB, "one", { answer: { text }, message: null });

  await expect(answer("that")).rejects.toMatchObject({ type: "invalid_parameters" });
  await isSuspended(server);
  expect((await server.service.get(CASES).get("one")).question).toMatchObject({ id: "0", question: "What?" });
  expect((await server.service.get(CASES).get("one")).question).not.toHaveProperty("note");
  await answer("it is this");

  expect(await until(server.service, JOB)).toMatchObject({ status: "completed", result: "it is this" });
});

test("a suspended job stays in memory while its agent's schema takes its time to check an answer", async () => {
  const slow = v.objectAsync({
    text: v.pipeAsync(
      v.string(),
      v.checkAsync(async (text) => {
        await new Promise((resolve) => setTimeout(resolve, 100));
        return text === "right";
      }, "must be right"),
    ),
  });
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "one", name: "One" });
    return (await item.ask("what", { question: "What?", fields: slow })).text;
  });
  await using server = await suspended(agent);
  const answer = (text: string) =>
    server.service.get(RUNNER).answer(JOB, "one", { answer: { text }, message: null });

  await expect(answer("wrong")).rejects.toMatchObject({ type: "invalid_parameters" });
  await answer("right");

  expect(await until(server.service, JOB)).toMatchObject({ status: "completed", result: "right" });
});

test("of many answers to a suspended job, one counts", async () => {
  await using server = await suspended(agentOf(asker));

  const answers = await Promise.allSettled(
    [1, 2, 3, 4, 5].map((n) =>
      server.service.get(RUNNER).answer(JOB, "one", { answer: { text: `it is ${n}` }, message: null }),
    ),
  );

  const accepted = answers.findIndex(({ status }) => status === "fulfilled") + 1;
  expect(answers.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(await until(server.service, JOB)).toMatchObject({
    status: "completed",
    result: `it is ${accepted}`,
  });
  const entries = await server.service.get(JOBS).log(JOB);
  expect(entries.filter(({ entry }) => entry.type === "answer")).toHaveLength(1);
});

test("a suspended job that is stopped is cancelled after its job_stop, without its handler", async () => {
  let calls = 0;
  const cleaned: string[] = [];
  const agent = agentOf(
    (context) => {
      calls++;
      return asker(context);
    },
    { methods: { job_stop: { run: ({ job }) => void cleaned.push(job.id) } } },
  );
  await using server = await suspended(agent);

  const { status } = await server.service.get(RUNNER).stop(JOB, "operator");

  expect(status).toBe("cancelling");
  expect(await until(server.service, JOB)).toMatchObject({
    ...{ status: "cancelled", stop_reason: "stopped", suspended: null, open_questions: 0 },
  });
  expect([cleaned, calls]).toEqual([[JOB], 1]);
  expect(await server.service.get(CASES).get("one")).toMatchObject({ status: "cancelled", question: null });
});

test("a question that an operator takes away from a suspended job rejects", async () => {
  await using first = await suspended(agentOf(asker));
  await using second = await suspended(agentOf(asker));

  await first.service.get(RUNNER).overrideCase("one", "in_progress", "operator");
  await second.service.get(RUNNER).removeCase("one", "operator");

  const results = [await until(first.service, JOB), await until(second.service, JOB)].map(
    ({ result }) => result,
  );
  expect(results).toEqual([
    'rejected: Case "one" was set to in_progress by an operator',
    'rejected: Case "one" was deleted',
  ]);
});

test("a suspended job can be parked, resumed, ended and deleted", async () => {
  await using server = await suspended(agentOf(asker));
  const runner = server.service.get(RUNNER);

  expect(await runner.override(JOB, "stopped", "operator")).toMatchObject({ parked: true, suspended: null });
  await runner.override(JOB, "in_progress", "operator");
  await isSuspended(server);
  expect(await runner.override(JOB, "failed", "operator")).toMatchObject({
    status: "failed",
    suspended: null,
  });
  await startJob(server.service, { id: "job-2" });
  await expect.poll(async () => (await get(server, "job-2")).suspended).toBeTruthy();
  expect(await runner.remove("job-2", "operator")).toMatchObject({ cases: 1 });

  await expect(get(server, "job-2")).rejects.toMatchObject({ type: "job_not_found" });
});

test("the handler that is left behind gets no signal, and its clean-up does not run", async () => {
  const told: string[] = [];
  const agent = agentOf(async ({ job, signal }) => {
    signal.addEventListener("abort", () => told.push("signal"));
    try {
      await Promise.all([job.sleep("300ms"), job.sleep("400ms")]);
      return "slept";
    } catch {
      told.push("catch");
    } finally {
      told.push("finally");
    }
  });
  await using server = await suspended(agent);
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(told).toEqual([]);

  expect(await until(server.service, JOB)).toMatchObject({ status: "completed", result: "slept" });

  expect(told).toEqual(["finally"]);
});

test("what the handler that is left behind still does is not stored", async () => {
  const did: string[] = [];
  let calls = 0;
  const late = gate();
  const agent = agentOf(async ({ job }) => {
    const call = ++calls;
    const beside =
      call === 1 ? late.opened.then(() => job.step("late", () => did.push(`late ${call}`))) : undefined;
    await Promise.race([job.sleep("1h"), beside].filter(Boolean));
    return call;
  });
  await using server = await suspended(agent);

  late.open();
  await new Promise((resolve) => setTimeout(resolve, 50));

  expect(did).toEqual([]);
  expect(await get(server)).toMatchObject({
    status: "in_progress",
    suspended: { wake_at: expect.any(String) },
  });
});

test("max_duration ends a suspended job on time, and its method's timeout does not count the time between", async () => {
  const sleeps = agentOf(({ job }) => job.sleep("1h"), { timeout: 5 });
  await using server = await testServer({ agents: [sleeps] });
  const job_instructions = { ...NO_LIMITS, max_duration: 600 };
  await startJob(server.service, { id: JOB, context: { job_instructions } });
  await startJob(server.service, { id: "job-2" });
  await server.advance("9m");
  expect((await get(server)).suspended).toBeTruthy();

  await server.advance("2m");

  const job = await until(server.service, JOB);
  expect(job).toMatchObject({ status: "failed", stop_reason: "max_duration" });
  expect(Date.parse(job.finished_at!) - Date.parse(job.created_at)).toBeLessThan(603_000);
  await server.advance("1h");
  expect(await until(server.service, "job-2")).toMatchObject({ status: "completed" });
});

test("the time that a handler has worked counts over suspensions", async () => {
  const agent = agentOf(
    async ({ job }) => {
      for (let n = 0; n < 4; n++) {
        await job.step(`work ${n}`, () => new Promise((resolve) => setTimeout(resolve, 400)));
        await job.sleep("200ms");
      }
    },
    { timeout: 1 },
  );
  await using server = await testServer({ agents: [agent], suspendAfter: 0 });
  await startJob(server.service, { id: JOB });

  expect(await until(server.service, JOB)).toMatchObject({ status: "failed", stop_reason: "timeout" });
});

test("a question's deadline ends the suspension", async () => {
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "one", name: "One" });
    const options = {
      question: "What?",
      fields: [{ name: "text", required: true }],
      deadline: "1d",
    } as const;
    return (await item.ask({ ...options, onTimeout: "default", default: { text: "nothing" } })).text;
  });
  await using server = await testServer({ agents: [agent] });
  await startJob(server.service, { id: JOB });
  await server.advance("1m");
  const { suspended: left, created_at } = await get(server);
  expect(Math.abs(Date.parse(left!.wake_at!) - Date.parse(created_at) - 86_400_000)).toBeLessThan(1000);

  await server.advance("1d");

  expect(await until(server.service, JOB)).toMatchObject({ status: "completed", result: "nothing" });
});

test("a job stays in memory while a step runs or waits for its next try soon, or its agent says so", async () => {
  const opened = gate();
  const working = agentOf(
    async ({ job }) => {
      await Promise.all([job.sleep("1h"), job.step("long", () => opened.opened)]);
    },
    { name: "Working" },
  );
  const retries = { retries: 3, backoff: { initial: "40s", factor: 1 } } as const;
  const fail = ({ attempt }: { attempt: number }) => {
    if (attempt < 3) throw new Error("no");
  };
  const trying = agentOf(
    async ({ job }) => {
      await Promise.all([job.sleep("1h"), job.step("flaky", fail, retries)]);
    },
    { name: "Trying" },
  );
  const sleeps = ({ job }: JobStartContext) => job.sleep("1h");
  const staying = agentOf(sleeps, { name: "Staying", suspendAfter: false });
  const failing = agentOf(sleeps, { name: "Failing", onInterruption: "fail" });
  await using server = await testServer({ agents: [working, trying, staying, failing] });
  const start = async (slug: string) =>
    (await (await server.request(`/agents/${slug}/jobs`, { json: {} })).json()) as { id: string };
  const ids: string[] = [];
  for (const slug of ["working", "trying", "staying", "failing"]) ids.push((await start(slug)).id);
  const left = async () => Promise.all(ids.map(async (id) => (await get(server, id)).suspended !== null));

  await server.advance("30s");
  expect(await left()).toEqual([false, false, false, false]);
  await server.advance("2m");
  expect(await left()).toEqual([false, true, false, false]);
  opened.open();
  await server.advance("20s");
  expect(await left()).toEqual([true, true, false, false]);
  await server.advance("1h");

  for (const id of ids) expect(await until(server.service, id)).toMatchObject({ status: "completed" });
});

test("a job that waits for the second of two answers gives its slot to another", async () => {
  const agent = agentOf(async ({ job, fields: { n } }) => {
    if (n === 2) return "other";
    const items = await Promise.all(["a", "b"].map((id) => job.openCase({ id, name: id })));
    await Promise.all(
      items.map((item) => item.ask({ question: "What?", fields: [{ name: "text", required: true }] })),
    );
    return "both";
  });
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1, suspendAfter: false });
  const runner = server.service.get(RUNNER);
  await startJob(server.service, { id: JOB });
  await expect.poll(async () => (await get(server)).open_questions).toBe(2);
  await runner.answer(JOB, "a", { answer: { text: "1" }, message: null });

  await startJob(server.service, { id: "job-2", fields: { n: 2 } });

  expect(await until(server.service, "job-2")).toMatchObject({ status: "completed" });
  await runner.answer(JOB, "b", { answer: { text: "2" }, message: null });
  expect(await until(server.service, JOB)).toMatchObject({ result: "both" });
});

test("a suspended job waits while the service is paused or its agent is missing, and resumes after that", async () => {
  const agent = agentOf(({ job }) => job.sleep("1h").then(() => "slept"));
  const other = agentOf(() => "other", { name: "Other" });
  let ahead = 0;
  const clock = () => new Date(Date.now() + ahead);
  const first = await suspended(agent, { store: undefined, clock, startTimer: undefined });
  await first.service.close();
  ahead = 2 * 3_600_000;
  const { dataDir } = first;
  const open = (options: object) =>
    testServer({ agents: [agent], store: undefined, dataDir, clock, startTimer: undefined, ...options });

  const missing = await open({ agents: [other] });
  const withoutAgent = await get(missing);
  await missing.service.close();
  const paused = await open({ paused: true });
  const whilePaused = await get(paused);
  paused.service.get(RUNNER).unpause();
  const job = await until(paused.service, JOB);
  await paused.service.close();
  await first[Symbol.asyncDispose]();

  const untouched = { run_count: 1, suspended: { wake_at: expect.any(String) } };
  expect([withoutAgent, whilePaused]).toMatchObject([untouched, untouched]);
  expect(job).toMatchObject({ status: "completed", result: "slept", run_count: 2 });
});

test("a child's end that is being stored when its parent is about to be suspended is not missed", async () => {
  const grown = gate();
  const child = agentOf(() => grown.opened.then(() => "grown"), { name: "Child" });
  const parent = agentOf(async ({ job }) => (await job.start("child", {})).result());
  await using server = await testServer({ agents: [parent, child], suspendAfter: "100ms", store: undefined });
  const { service } = server;
  await startJob(service, { id: JOB });
  const isAwaited = async () =>
    (await service.get(JOBS).log(JOB)).some(({ entry }) => entry.type === "begun" && entry.call === "child");
  await expect.poll(isAwaited, { interval: 5 }).toBe(true);

  // The child's end, and then the suspension, wait for their turn behind this, and are stored one right after the other.
  await service.get(STORE).transaction(async () => {
    grown.open();
    await new Promise((resolve) => setTimeout(resolve, 250));
  });

  expect(await until(service, JOB)).toMatchObject({ status: "completed", result: "grown" });
});

test("a parent that waits for its child is suspended, and resumes when the child ends", async () => {
  const child = agentOf(({ job }) => job.sleep("2s").then(() => "grown"), { name: "Child" });
  const parent = agentOf(async ({ job }) => (await job.start("child", {})).result());
  await using server = await testServer({ agents: [parent, child], suspendAfter: 0 });
  await startJob(server.service, { id: JOB });
  await expect.poll(async () => (await get(server)).suspended).toMatchObject({ wake_at: null });

  expect(await until(server.service, JOB)).toMatchObject({ status: "completed", result: "grown" });
});

test("a process that ends at any write leaves no suspended parent without its child's end, and no child without its parent's", async () => {
  const child = agentOf(({ job, fields: { n } }) => job.sleep(n === 1 ? "30ms" : "1h").then(() => "grown"), {
    name: "Child",
  });
  const parent = agentOf(async ({ job }) => {
    const [short] = await Promise.all([1, 2].map((n) => job.start("child", { n }, { key: String(n) })));
    await short!.result();
    throw new Error("enough");
  });
  const open = async (store: Awaited<ReturnType<typeof emptyStore>>, diesAtWrite?: number) =>
    new Life(store, [parent, child], { suspendAfter: 0, ...(diesAtWrite !== undefined && { diesAtWrite }) });
  const ended = async (life: Life) => {
    expect(await life.ended()).toMatchObject({ status: "failed", error: "enough" });
    const children = async () =>
      (await life.jobs.list({ where: { parent_id: JOB }, sort: "created_at" })).items;
    await expect
      .poll(async () => (await children()).map(({ status }) => status).toSorted(), { timeout: 10_000 })
      .toEqual(["cancelled", "completed"]);
  };
  const first = await open(await emptyStore());
  await first.start();
  await ended(first);

  for (let diesAtWrite = 1; diesAtWrite < first.writes; diesAtWrite++) {
    const store = await emptyStore();
    const one = await open(store, diesAtWrite);
    await Promise.race([one.start(), one.died]);
    await Promise.race([ended(one).catch(() => {}), one.died]);
    if (!one.isDead) continue;
    const other = await open(store);
    await other.resume();

    await ended(other);
  }
});

test("setting the clock back makes the sleep of a suspended job no longer", async () => {
  let offset = 0;
  const clock = () => new Date(Date.now() + offset);
  const agent = agentOf(({ job }) => job.sleep("600ms").then(() => "slept"));
  await using server = await testServer({ agents: [agent], clock, startTimer: undefined, suspendAfter: 0 });
  await startJob(server.service, { id: JOB });
  await isSuspended(server);

  offset = -3_600_000;

  expect(await until(server.service, JOB)).toMatchObject({ status: "completed", result: "slept" });
});

/** Waits in each way, with work in between. */
const mixed =
  (did: string[]) =>
  async ({ job }: JobStartContext) => {
    await job.step("a", () => did.push("a"));
    await job.sleep("15ms");
    const item = await job.openCase({ id: "one", name: "One" });
    const [{ text }] = await Promise.all([
      item.ask("what", { question: "What?", fields: FIELDS }),
      job.sleep("10ms").then(() => job.step("b", () => did.push("b"))),
    ]);
    await item.close({ text });
    await job.sleep("10ms");
    return text;
  };

test("a process that ends at any write neither loses nor repeats anything of a job that is suspended", async () => {
  const live = async (store: Awaited<ReturnType<typeof emptyStore>>, did: string[], diesAtWrite?: number) => {
    const life: Life = new Life(store, agentOf(mixed(did)), {
      suspendAfter: 0,
      ...(diesAtWrite !== undefined && { diesAtWrite }),
    });
    const request = { answer: { text: "it is so" }, message: null };
    const answer = () => void life.runner.answer(JOB, "one", request).catch(() => {});
    life.hooks.on("job:changed", ({ job }) => {
      if (job.suspended?.wake_at === null) answer();
    });
    const job = await life.jobs.find(JOB);
    if (job?.suspended?.wake_at === null) answer();
    return life;
  };
  const did: string[] = [];
  const first = await live(await emptyStore(), did);
  await first.start();
  expect(await first.ended()).toMatchObject({ status: "completed", result: "it is so" });
  expect(did).toEqual(["a", "b"]);
  expect((await first.jobs.get(JOB)).run_count).toBeGreaterThan(1);
  let suspensions = 0;

  for (let diesAtWrite = 1; diesAtWrite < first.writes; diesAtWrite++) {
    const store = await emptyStore();
    const done: string[] = [];
    const one = await live(store, done, diesAtWrite);
    await Promise.race([one.start(), one.died]);
    if ((await one.ended()) !== undefined) continue;
    if ((await one.jobs.get(JOB)).suspended) suspensions++;
    const other = await live(store, done);
    await other.resume();

    expect(await other.ended(), `died at write ${diesAtWrite}`).toMatchObject({
      ...{ status: "completed", result: "it is so", suspended: null, total_cost: 0 },
    });
    // A step that was under way is the one thing that may be made again.
    expect([["a", "b"].join(), ["a", "a", "b"].join(), ["a", "b", "b"].join()]).toContain(done.join());
    const answers = (await other.entries()).filter(({ type }) => type === "answer");
    expect(answers).toHaveLength(1);
  }

  expect(suspensions).toBeGreaterThan(0);
});
