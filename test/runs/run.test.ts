import { defineAgent } from "agent-control-service";
import { CASES, JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { jobContext, startJob, until } from "./_jobs.ts";

test("a job runs its handler with typed fields, opens cases and ends with the result", async () => {
  const agent = defineAgent({
    name: "Worker",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ size: v.number(), unit: v.optional(v.string(), "kg") }),
        async run({ job, fields }) {
          const doubled = await job.step("double", () => fields.size * 2);
          const item = await job.openCase({ id: "one", name: "One", description: "The first" });
          await item.step("weigh", () => ({ weight: doubled }), { cost: 0.5 });
          await item.update({ name: "note", payload: { text: "weighed" }, cost: 0.25 });
          await item.close({ done: true });
          return { message: `${doubled} ${fields.unit}`, doubled };
        },
      },
    },
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service, { fields: { size: 21 } });
  const job = await until(server.service, id);

  expect(job).toMatchObject({
    status: "completed",
    result: { message: "42 kg", doubled: 42 },
    job_fields: { size: 21, unit: "kg" },
    total_cost: 0.75,
    case_count: 1,
    error: null,
    stop_reason: null,
  });
  expect(job.responses.at(-1)).toMatchObject({ status: "completed", message: "42 kg" });
  const item = await server.service.get(CASES).get("one");
  expect(item).toMatchObject({ status: "completed", total_cost: 0.75, final_delivery: { done: true } });
  expect(item.updates.map(({ index, name, cost, is_final }) => ({ index, name, cost, is_final }))).toEqual([
    { index: 1, name: "weigh", cost: 0.5, is_final: false },
    { index: 2, name: "note", cost: 0.25, is_final: false },
    { index: 3, name: "close", cost: null, is_final: true },
  ]);
});

test("a handler that throws fails its job and its open cases, with error and traceback", async () => {
  const agent = defineAgent({
    name: "Thrower",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          await job.openCase({ id: "open", name: "Open" });
          throw new Error("the printer is on fire");
        },
      },
    },
  });
  await using server = await testServer({ agents: [agent] });

  const { id } = await startJob(server.service);
  const job = await until(server.service, id);

  expect(job).toMatchObject({ status: "failed", error: "the printer is on fire", stop_reason: "error" });
  expect(job.responses.at(-1)?.error_traceback).toContain("run.test.ts");
  expect((await server.service.get(CASES).get("open")).status).toBe("failed");
});

test("fields that do not fit are refused and nothing is created", async () => {
  const agent = defineAgent({
    name: "Strict",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [
          { name: "kind", field_type: "ChoiceField", choices: ["a", "b"], required: true },
          { name: "count", field_type: "IntegerField" },
        ],
        run: ({ fields }) => fields,
      },
    },
  });
  await using server = await testServer({ agents: [agent] });

  const start = startJob(server.service, { id: "wrong", fields: { kind: "c", count: 1.5, more: true } });

  await expect(start).rejects.toMatchObject({ type: "invalid_parameters", status: 422 });
  await expect(start).rejects.toMatchObject({ detail: expect.stringMatching(/kind.*count.*|more/) });
  expect(await server.service.get(JOBS).find("wrong")).toBeUndefined();
});

test("a start with Prefer: wait returns the job as it ended, or its current state when the time is up", async () => {
  const agent = agentOf(async ({ job, fields: { n } }) => {
    if (n === 2) await job.sleep("30s");
    return "done";
  });
  await using server = await testServer({ agents: [agent] });
  const start = (id: string, n: number, wait: number) =>
    server.request("/agents/worker/jobs", {
      headers: { prefer: `wait=${wait}` },
      json: { job_context: jobContext(id), job_fields: { n } },
    });

  const ended = await start("quick", 1, 20);
  const asItStands = await start("slow", 2, 0);

  expect(ended.status).toBe(202);
  expect(ended.headers.get("preference-applied")).toBe("wait=20");
  expect(await ended.json()).toMatchObject({ status: "completed", result: "done" });
  expect(await asItStands.json()).toMatchObject({ status: "in_progress" });
});
