import { JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

/** An agent whose job has spent 0.5 and works on until it is let go. */
function spender(more: Parameters<typeof agentOf>[1] = {}) {
  const [spent, goOn] = [gate(), gate()];
  const agent = agentOf(async ({ job }) => {
    await job.step("first", () => 1, { cost: 0.2 });
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("second", () => 2, { cost: 0.3 });
    spent.open();
    await job.step("third", () => goOn.opened, { cost: 0.1 });
  }, more);
  return { agent, spent, goOn };
}

const shown = async (server: TestServer, path: string) =>
  (await (await server.request(path, { headers: { accept: "application/json" } })).json()) as {
    total_cost: number;
    items: { total_cost: number }[];
  };

test("the cost of a running job is updated after each step, wherever it is shown", async () => {
  const { agent, spent, goOn } = spender();
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await spent.opened;

  const one = await shown(server, `/admin/api/jobs/${id}`);
  const list = await shown(server, "/admin/api/jobs");
  const stream = await server.request(`/jobs/${id}/stream`);
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
  const { value } = await reader.read();
  await reader.cancel();
  goOn.open();
  const job = await until(server.service, id);

  expect(one.total_cost).toBe(0.5);
  expect(list.items[0]?.total_cost).toBe(0.5);
  expect(value).toMatch(/^retry: .*\nevent: snapshot\ndata: .*"total_cost":0\.5/s);
  expect(job.total_cost).toBe(0.6);
});

test("a job that an operator ends keeps its cost", async () => {
  const { agent, spent } = spender();
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await spent.opened;

  await server.service.get(RUNNER).override(id, "failed", "operator");

  expect(await server.service.get(JOBS).get(id)).toMatchObject({ status: "failed", total_cost: 0.5 });
});

test.each([
  ["its agent fails what was interrupted", "fail", async () => {}, "failed"],
  [
    "it is stopped while its agent is gone",
    "gone",
    (server: TestServer, id: string) => server.service.get(RUNNER).stop(id),
    "cancelled",
  ],
  [
    "an operator ends it while its agent is gone",
    "gone",
    (server: TestServer, id: string) => server.service.get(RUNNER).override(id, "failed", "operator"),
    "failed",
  ],
] as const)("a job that is ended after a restart keeps its cost: %s", async (_why, kind, act, status) => {
  const { agent, spent } = spender(kind === "fail" ? { onInterruption: "fail" } : {});
  await using first = await testServer({ agents: [agent], store: undefined, shutdownGrace: 0 });
  const { id } = await startJob(first.service);
  await spent.opened;
  await first.service.close();
  const agents = kind === "fail" ? [agent] : [agentOf(() => "other", { name: "Other" })];

  await using second = await testServer({ agents, store: undefined, dataDir: first.dataDir });
  await second.service.ready();
  const waiting = await second.service.get(JOBS).get(id);
  await act(second, id);

  expect(waiting.total_cost).toBe(0.5);
  expect(await until(second.service, id)).toMatchObject({ status, total_cost: 0.5 });
});
