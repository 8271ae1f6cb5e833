import { setTimeout as delay } from "node:timers/promises";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

test.each(["in_progress", "awaiting"] as const)(
  "a failed job that an operator sets to %s is resumed from its last successful step",
  async (status) => {
    const runs: string[] = [];
    let isBroken = true;
    const agent = agentOf(async ({ job }) => {
      await job.step("first", () => void runs.push("first"));
      const item = await job.openCase({ id: "a", name: "a" });
      await item.step("second", () => {
        runs.push("second");
        if (isBroken) throw new Error("broken");
      });
      await item.close();
      return "done";
    });
    await using server = await testServer({ agents: [agent] });
    const { id } = await startJob(server.service);
    await until(server.service, id);
    isBroken = false;

    const response = await server.request(`/admin/api/jobs/${id}/status`, { json: { status } });
    const job = await until(server.service, id, ["completed"]);

    expect(await response.json()).toMatchObject({ id, status });
    expect(job).toMatchObject({ result: "done", error: null, stop_reason: null });
    expect(runs).toEqual(["first", "second", "second"]);
    expect(await server.service.get(CASES).get("a")).toMatchObject({ status: "completed" });
  },
);

test("a running job that is set to in_progress continues its current run", async () => {
  const [begun, goOn] = [gate(), gate()];
  let runs = 0;
  const agent = agentOf(async () => {
    runs++;
    begun.open();
    await goOn.opened;
    return "done";
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await begun.opened;

  await server.service.get(RUNNER).override(id, "in_progress", "operator");
  goOn.open();

  expect(await until(server.service, id)).toMatchObject({ status: "completed", result: "done" });
  expect(runs).toBe(1);
});

test("a job that has ended and is set to cancelling is cancelled after its agent has cleaned up", async () => {
  const cleaned: string[] = [];
  const agent = agentOf(() => "done", {
    methods: { job_stop: { run: ({ job }) => void cleaned.push(job.id) } },
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await until(server.service, id);

  const job = await server.service.get(RUNNER).override(id, "cancelling", "operator");

  expect(job.status).toBe("cancelling");
  expect(await until(server.service, id, ["cancelled"])).toMatchObject({ stop_reason: "stopped" });
  expect(cleaned).toEqual([id]);
});

test("a job that an operator sets to stopped stays so, and is resumed when it is set to in_progress", async () => {
  const agent = agentOf(() => "done");
  await using server = await testServer({ agents: [agent] });
  const { service } = server;
  const { id } = await startJob(service);
  await until(service, id);

  await service.get(RUNNER).override(id, "stopped", "operator");
  const parked = await service.get(JOBS).get(id);
  await service.get(RUNNER).override(id, "in_progress", "operator");

  expect(parked).toMatchObject({ status: "stopped", finished_at: null });
  expect(await until(service, id, ["completed"])).toMatchObject({ finished_at: expect.any(String) });
});

test.each([
  ["stopped", ["in_progress", "in_progress"]],
  ["stopped", ["in_progress", "awaiting", "in_progress"]],
  ["cancelled", ["in_progress", "awaiting"]],
] as const)(
  "a job that is %s has one run, however many set it to %j concurrently",
  async (from, statuses) => {
    let most = 0;
    let runs = 0;
    const running = new Set<AbortSignal>();
    const agent = agentOf(async ({ job, signal }) => {
      runs++;
      running.add(signal);
      most = Math.max(most, [...running].filter(({ aborted }) => !aborted).length);
      await job.step("work", () => delay(20));
      running.delete(signal);
      return "done";
    });
    await using server = await testServer({ agents: [agent] });
    const { id } = await startJob(server.service);
    const runner = server.service.get(RUNNER);
    await runner.override(id, from, "operator");

    await Promise.all(statuses.map((status) => runner.override(id, status, "operator")));
    await until(server.service, id, ["completed"]);

    expect(most).toBe(1);
    expect(runs).toBe(2);
  },
);

test.each(["stopped", "awaiting", "cancelling"] as const)(
  "a case that an operator has set to %s may still ask",
  async (status) => {
    const [opened, goOn] = [gate(), gate()];
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      opened.open();
      await goOn.opened;
      const { ok } = await item.ask({
        question: "Continue?",
        fields: [{ name: "ok", field_type: "BooleanField" }],
      });
      await item.close({ ok });
      return "done";
    });
    await using server = await testServer({ agents: [agent] });
    const { service } = server;
    const { id } = await startJob(service);
    await opened.opened;

    await service.get(RUNNER).overrideCase("a", status, "operator");
    goOn.open();
    await until(service, id, ["awaiting", "failed"]);
    await service.get(RUNNER).answer(id, "a", { answer: { ok: true }, message: null });

    expect(await until(service, id)).toMatchObject({ status: "completed", result: "done" });
    expect(await service.get(CASES).get("a")).toMatchObject({ status: "completed" });
  },
);
