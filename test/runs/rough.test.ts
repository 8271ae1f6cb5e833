// @alone
import { AGENTS, CASES, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { jobContext, NO_LIMITS, startJob, until } from "./_jobs.ts";

const FIELDS = [{ name: "yes", field_type: "BooleanField" as const }];

const hostile = {
  toString() {
    throw new Error("not even a text");
  },
};
const nameless = Object.assign(new Error("x"), { message: { code: 7 }, name: 12 });
const trapped = Object.defineProperty(new Error("x"), "message", {
  get() {
    throw new Error("no message");
  },
});

test.each([
  ["null", null],
  ["undefined", undefined],
  ["a number", 7],
  ["a symbol", Symbol("s")],
  ["a bigint", 5n],
  ["an object without a prototype", Object.create(null)],
  ["an object that is no text", hostile],
  ["an error with a message that is no text", nameless],
  ["an error whose message cannot be read", trapped],
])("any thrown value ends the job, in the handler and in a step: %s", async (_what, thrown) => {
  const agent = agentOf(async ({ job, fields: { n } }) => {
    if (n === 1) throw thrown;
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("throw", () => {
      throw thrown;
    });
  });
  await using server = await testServer({ agents: [agent] });

  await startJob(server.service, { id: "handler" });
  await startJob(server.service, { id: "step", fields: { n: 2 } });

  for (const id of ["handler", "step"]) {
    const job = await until(server.service, id);
    expect(job).toMatchObject({ status: "failed", stop_reason: "error", error: expect.any(String) });
    expect(job.error).not.toBe("");
  }
});

test.each([
  ["nothing", () => undefined, null],
  ["a bigint", () => ({ big: 5n }), /big is a bigint/],
  ["a date", () => new Date(), /is a Date/],
  ["a circle", () => circle(), /contains itself/],
])("a handler that returns %s ends its job", async (_what, make, expected) => {
  await using server = await testServer({ agents: [agentOf(make)] });

  const { id } = await startJob(server.service);
  const job = await until(server.service, id);

  if (expected === null) expect(job).toMatchObject({ status: "completed", result: null });
  else expect(job).toMatchObject({ status: "failed", error: expect.stringMatching(expected) });
});

function circle(): unknown {
  const one: Record<string, unknown> = {};
  one.self = one;
  return one;
}

test("a case that is opened while its job is asked to stop ends with it", async () => {
  const begun = gate();
  const agent = agentOf(async ({ job, signal }) => {
    await job.openCase({ id: "first", name: "first" });
    const opening = Array.from({ length: 20 }, (_, n) => job.openCase({ id: `more-${n}`, name: "more" }));
    opening.push(job.openCase({ id: "last", name: "last" }));
    for (const one of opening) one.catch(() => {});
    begun.open();
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await begun.opened;

  await server.service.get(RUNNER).stop(id);
  await until(server.service, id);

  const { items } = await server.service.get(CASES).list({ where: { job_id: id } });
  expect(new Set(items.map(({ status }) => status))).toEqual(new Set(["cancelled"]));
});

test("a job that is stopped while it waits for its slot again releases it", async () => {
  const held = gate();
  const agent = agentOf(async ({ job, fields: { n } }) => {
    if (n === 1) return "quick";
    if (n === 2) return held.opened;
    const item = await job.openCase({ id: job.id, name: "Ask" });
    return item.ask({ question: "Now?", fields: FIELDS });
  });
  await using server = await testServer({ agents: [agent], maxConcurrentJobs: 1 });
  const { service } = server;
  const runner = service.get(RUNNER);
  await startJob(service, { id: "asks", fields: { n: 3 } });
  await until(service, "asks", ["awaiting"]);
  await startJob(service, { id: "holds", fields: { n: 2 } });
  await until(service, "holds", ["in_progress"]);
  await runner.answer("asks", "asks", { answer: { yes: true }, message: null });

  await runner.stop("asks");
  const asks = await until(service, "asks");
  const held1 = runner.load();
  held.open();
  await until(service, "holds");
  await startJob(service, { id: "quick" });

  expect(asks.status).toBe("cancelled");
  expect(held1).toEqual({ running: 1, queued: 0 });
  expect(await until(service, "quick")).toMatchObject({ status: "completed", result: "quick" });
  await expect.poll(() => runner.load()).toEqual({ running: 0, queued: 0 });
});

test("steps that the handler did not wait for are in the record, with their cost", async () => {
  const agent = agentOf(async ({ job }) => {
    const [one, two] = await Promise.all(["a", "b"].map((id) => job.openCase({ id, name: id })));
    const endless = two!.step("endless", () => new Promise(() => {}), { cost: 2 });
    endless.catch(() => {});
    await one!.step("fails", () => Promise.reject(new Error("no")), { cost: 1 });
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);
  const job = await until(server.service, id);
  const log = await server.request(`/jobs/${id}/stream`).then((response) => response.text());

  expect(job).toMatchObject({ status: "failed", error: "no", total_cost: 3 });
  expect(log).toMatch(/event: attempt\n.*\n?data: .*"name":"endless"/);
});

test("an Idempotency-Key returns the same job for a request that differs only in its job_id", async () => {
  await using server = await testServer({ agents: [agentOf(() => "done")] });
  const { service } = server;
  const slug = service.get(AGENTS).list()[0]!.slug;
  const start = (id: string, n: number) =>
    service
      .get(RUNNER)
      .start(slug, { job_context: jobContext(id), job_fields: { n }, idempotencyKey: "key-1" });

  const [one, other] = await Promise.all([start("job-1", 1), start("job-2", 1)]);

  expect(other.id).toBe(one.id);
  await expect(start("job-3", 2)).rejects.toMatchObject({ type: "job_already_exists" });
});

test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])(
  "a cost of %s is refused wherever it is reported",
  async (cost) => {
    const refused: unknown[] = [];
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const note = (error: Error) => void refused.push(error.name);
      await item.update({ name: "odd", cost }).catch(note);
      await item.close({}, { cost }).catch(note);
      await job.step("odd", () => 1, { cost }).catch(note);
    });
    await using server = await testServer({ agents: [agent] });

    const { id } = await startJob(server.service);

    expect(await until(server.service, id)).toMatchObject({ total_cost: 0 });
    expect(refused).toEqual(["TypeError", "TypeError", "TypeError"]);
  },
);

test.each([
  [{ name: "odd", error: { message: "broken" } }, 'The error of the update "odd" must be text'],
  [{ name: 5 }, 'The name of the update "5" must be text'],
])("an update such as %j is refused with a message that names the problem", async (update, message) => {
  const refused: unknown[] = [];
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.update(update as never).catch((error: Error) => void refused.push(error.message));
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);
  await until(server.service, id);

  expect(refused).toEqual([message]);
});

test("a thousand concurrent starts of one job start it once", async () => {
  let runs = 0;
  await using server = await testServer({ agents: [agentOf(() => ++runs)], maxConcurrentJobs: 3 });
  const { service } = server;

  const started = await Promise.all(Array.from({ length: 1000 }, () => startJob(service, { id: "one" })));
  await until(service, "one");

  expect(new Set(started.map(({ id }) => id))).toEqual(new Set(["one"]));
  expect(runs).toBe(1);
  await expect.poll(() => service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
});

test("calls that the handler does not wait for end only themselves", async () => {
  const rejected: unknown[] = [];
  const listener = (reason: unknown) => void rejected.push(reason);
  process.on("unhandledRejection", listener);
  const agent = agentOf(async ({ job }) => {
    const [a, b, c] = await Promise.all(["a", "b", "c"].map((id) => job.openCase({ id, name: id })));
    void job.sleep("1h");
    void a!.step("endless", () => new Promise(() => {}));
    void b!.ask({ question: "Now?", fields: FIELDS });
    void c!.update({ name: "odd", cost: -1 });
    void c!.fail("given up");
    await job.step("work", () => 1);
    return "done";
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service, { context: { job_instructions: NO_LIMITS } });
  const job = await until(server.service, id);
  await new Promise((resolve) => setTimeout(resolve, 50));
  process.off("unhandledRejection", listener);

  expect(job).toMatchObject({ status: "completed", result: "done" });
  expect(rejected).toEqual([]);
});
