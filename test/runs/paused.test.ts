import { JOBS, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

test("a service that is started paused accepts jobs without running them, and runs all once it is resumed", async () => {
  let runs = 0;
  const opened = gate();
  const agent = agentOf(
    async ({ job }) => {
      runs++;
      await job.step("wait", () => opened.opened);
      return "done";
    },
    { methods: { chat: { run: () => "answered" } } },
  );
  const first = await testServer({ agents: [agent], store: undefined, shutdownGrace: 0 });
  await startJob(first.service, { id: "before" });
  await expect.poll(() => runs).toBe(1);
  await first.service.close();
  await using server = await testServer({
    agents: [agent],
    store: undefined,
    dataDir: first.dataDir,
    paused: true,
  });
  const { service } = server;

  await startJob(service, { id: "new" });
  await startJob(service, { id: "stopped" });
  await service.get(RUNNER).stop("stopped");
  const chat = await server.request("/agents/worker/chat", { json: {} });
  const health = await (await server.request("/.well-known/health")).json();
  const statuses = async () =>
    Promise.all(["before", "new", "stopped"].map(async (id) => (await service.get(JOBS).get(id)).status));
  const paused = await statuses();
  const runsPaused = runs;
  opened.open();
  const resumed = await (await server.request("/utils/resume", { method: "POST", json: {} })).json();
  const ends = [await until(service, "before"), await until(service, "new")];

  expect(paused).toEqual(["in_progress", "stopped", "cancelled"]);
  expect(runsPaused).toBe(1);
  expect(chat.status).toBe(503);
  expect(health).toMatchObject({ status: "degraded", detail: expect.stringContaining("paused") });
  // In a shared store, the job of the instance before this one is claimed only then.
  expect(resumed).toEqual({ paused: false, queued: process.env.SVC_TEST_STORE === "postgres" ? 1 : 2 });
  expect(ends.map(({ result }) => result)).toEqual(["done", "done"]);
  expect(await (await server.request("/.well-known/health")).json()).toMatchObject({ status: "healthy" });
});
