import { type AgentDefinition, createServer, defineAgent } from "agent-control-service";
import { JOBS, RUNNER } from "agent-control-service/plugin";
import { createMemoryStore, type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, onTestFinished, test } from "vitest";
import type { ConcurrencyOptions } from "../../src/core/agents/concurrency.ts";
import { jobContext, until } from "./_jobs.ts";

/** An agent whose jobs wait in a step until they are opened, and sleep or ask before that if their fields say so. */
function desk(concurrency: ConcurrencyOptions, more: Partial<AgentDefinition> = {}) {
  const opened = new Map<string, () => void>();
  const begun: string[] = [];
  const fields = v.object({
    customer: v.optional(v.string()),
    first: v.optional(v.picklist(["sleep", "ask", "nothing"]), "nothing"),
  });
  const agent = defineAgent({
    ...{ name: "Desk", version: "1.0.0", ...more },
    concurrency: concurrency as never,
    methods: {
      job_start: {
        fields,
        async run({ job, fields: { first } }) {
          if (first === "sleep") await job.sleep("1h");
          if (first === "ask")
            await (await job.openCase({ id: "q", name: "Q" })).ask("ok", { question: "OK?", fields: [] });
          await job.step("work", ({ signal }) => {
            begun.push(job.id);
            return new Promise<void>((open, fail) => {
              opened.set(job.id, open);
              signal.addEventListener("abort", () => fail(signal.reason));
            });
          });
        },
      },
    },
  });
  return { agent, begun, open: (id: string) => opened.get(id)!() };
}

async function serve(agent: AgentDefinition): Promise<TestServer> {
  const server = await testServer({ agents: [agent], maxConcurrentJobs: 10, shutdownGrace: 0 });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}

async function start(server: TestServer, id: string, job_fields: Record<string, unknown>): Promise<Response> {
  return server.request("/agents/desk/jobs", { json: { job_context: jobContext(id), job_fields } });
}

const message = async (server: TestServer, id: string) =>
  ((await (await server.request(`/jobs/${id}`)).json()) as { message: string }).message;

test("jobs of one key run one after another, in order of arrival, and do not hold up other keys", async () => {
  const { agent, begun, open } = desk({ key: "customer", limit: 1 });
  const server = await serve(agent);
  for (const id of ["a1", "a2", "a3"]) await start(server, id, { customer: "a" });
  await start(server, "b1", { customer: "b" });
  for (const id of ["n1", "n2"]) await start(server, id, {});

  await expect.poll(() => begun.toSorted()).toEqual(["a1", "b1", "n1", "n2"]);
  expect(await message(server, "a2")).toBe(
    "The job waits for its concurrency key, which other jobs have: 0 before it",
  );
  expect(await message(server, "a3")).toContain(": 1 before it");
  expect(server.service.get(RUNNER).load()).toEqual({ running: 4, queued: 2 });
  open("b1");
  await until(server.service, "b1");
  expect(begun).toHaveLength(4);
  open("a1");
  await expect.poll(() => begun[4]).toBe("a2");
  expect(await message(server, "a3")).toContain(": 0 before it");
  open("a2");
  await expect.poll(() => begun[5]).toBe("a3");
  expect((await server.service.get(JOBS).get("a3")).concurrency_key).toBe("a");
});

test("without a key, the limit is for all jobs of the agent; a function may compute the key", async () => {
  const all = desk({ limit: 2 });
  const server = await serve(all.agent);
  for (const id of ["1", "2", "3"]) await start(server, id, { customer: id });
  await expect.poll(() => all.begun).toEqual(["1", "2"]);

  const lower = desk({ limit: 1, key: ({ customer }) => (customer as string | undefined)?.toLowerCase() });
  const other = await serve(lower.agent);
  for (const [id, customer] of [
    ["1", "Ann"],
    ["2", "ANN"],
    ["3", "Bob"],
    ["4", undefined],
  ])
    await start(other, id!, { customer });
  await expect.poll(() => lower.begun).toEqual(["1", "3", "4"]);
  const response = await start(other, "5", { customer: 7 });
  expect(response.status).toBe(422);
});

test("a job that waits leaves its key to others, and with scope job keeps it until its end, also over a crash", async () => {
  for (const scope of ["run", "job"] as const) {
    const { agent, begun, open } = desk({ key: "customer", limit: 1, scope });
    const server = await serve(agent);
    await start(server, "asks", { customer: "a", first: "ask" });
    await start(server, "sleeps", { customer: "b", first: "sleep" });
    await until(server.service, "asks", ["awaiting"]);
    await start(server, "a2", { customer: "a" });
    await start(server, "b2", { customer: "b" });
    const free = scope === "run" ? ["a2", "b2"] : [];
    await expect.poll(() => begun).toEqual(free);
    expect(server.service.get(RUNNER).load().queued).toBe(scope === "run" ? 0 : 2);

    await server.crash();
    // In a shared store those that were under way are claimed one after the other, in any order.
    await expect.poll(() => begun.toSorted()).toEqual([...free, ...free].toSorted());
    await server.advance("2h");
    await server.service
      .get(RUNNER)
      .answer("asks", await caseOf(server, "asks"), { answer: {}, message: null });
    if (scope === "run") {
      await new Promise((resolve) => setTimeout(resolve, 50));
      expect(begun).toHaveLength(4);
      for (const id of free) open(id);
      await expect.poll(() => begun.slice(4).toSorted()).toEqual(["asks", "sleeps"]);
    } else {
      await expect.poll(() => begun.toSorted()).toEqual(["asks", "sleeps"]);
      for (const id of ["asks", "sleeps"]) open(id);
      await expect.poll(() => begun.slice(2).toSorted()).toEqual(["a2", "b2"]);
    }
  }
});

async function caseOf({ service }: TestServer, job_id: string): Promise<string> {
  return (await service.get(JOBS).show(await service.get(JOBS).get(job_id))).case_ids[0]!;
}

test("a job that keeps its key leaves it when it is stopped, deleted or set to failed, and asks for it again in a retry", async () => {
  const { agent, begun, open } = desk({ key: "customer", limit: 1, scope: "job" });
  const server = await serve(agent);
  const runner = server.service.get(RUNNER);
  for (const id of ["1", "2", "3", "4"]) await start(server, id, { customer: "a", first: "ask" });
  const asks = (id: string) => until(server.service, id, ["awaiting"]);

  await asks("1");
  await runner.stop("1");
  await asks("2");
  await runner.override("2", "failed", "someone");
  await asks("3");
  await runner.retry("1", "start");
  await runner.remove("3", "someone");
  await asks("4");
  expect(await message(server, "1")).toContain(": 0 before it");
  await runner.answer("4", await caseOf(server, "4"), { answer: {}, message: null });
  await expect.poll(() => begun).toEqual(["4"]);
  open("4");
  await asks("1");
});

test("a start whose key cannot be computed is refused, and creates nothing", async () => {
  const { agent } = desk({
    limit: 1,
    key: () => {
      throw new Error("no such customer");
    },
  });
  const server = await serve(agent);

  const response = await start(server, "1", {});

  expect(response.status).toBe(422);
  expect(await response.json()).toMatchObject({
    error: 'The concurrency key of agent "desk" has no value',
    detail: "no such customer",
  });
  expect((await server.service.get(JOBS).list()).total).toBe(0);
});

test("the key of an agent is typed by its fields", () => {
  const fields = v.object({ customer: v.string(), amount: v.number() });
  const methods = { job_start: { fields, run: () => null } };
  const base = { name: "Typed", version: "1.0.0" };

  defineAgent({ ...base, concurrency: { limit: 1, key: "customer" }, methods });
  defineAgent({ ...base, concurrency: { limit: 1, key: ({ amount }) => amount.toFixed() }, methods });
  // @ts-expect-error it is not a field
  defineAgent({ ...base, concurrency: { limit: 1, key: "costumer" }, methods });
  // @ts-expect-error it has no such method
  defineAgent({ ...base, concurrency: { limit: 1, key: ({ customer }) => customer.toFixed() }, methods });
});

test("a wrong limit, scope or key is refused when the service is made", () => {
  const problem = (concurrency: unknown) => {
    const { agent } = desk(concurrency as never);
    try {
      createServer({ agents: [agent], store: createMemoryStore, dataDir: "never-made" });
      return "accepted";
    } catch (error) {
      return (error as Error).message;
    }
  };

  expect(problem({ limit: 0 })).toBe('Agent "Desk": concurrency.limit must be a whole number, at least 1');
  expect(problem({ limit: 1, scope: "day" })).toContain('concurrency.scope must be "run" or "job"');
  expect(problem({ limit: 1, key: "costumer" })).toBe(
    'Agent "Desk": concurrency.key "costumer" is not a field of job_start: customer, first',
  );
  expect(problem({ limit: 1, per: "customer" })).toContain("concurrency.per is not known");
  expect(problem({ limit: 1, key: "customer" })).toBe("accepted");
});
