import { defineAgent } from "agent-control-service";
import { RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { startInstances } from "../instances/_instances.ts";

function worker(name: string, more = {}) {
  return defineAgent({
    name,
    version: "1.0.0",
    ...more,
    methods: {
      job_start: {
        run: async ({ job }) => {
          const item = await job.openCase({ id: `${job.id}-case`, name: "Order" });
          return item.ask({ question: "Pay?", fields: [{ name: "by", required: true }] });
        },
      },
    },
  });
}

const start = (server: TestServer, id: string, agent = "worker") =>
  server.request(`/agents/${agent}/jobs`, { json: { job_context: { job_id: id } } });
const pause = (server: TestServer, action: "pause" | "resume", agent = "worker") =>
  server.request(`/admin/api/agents/${agent}/${action}`, { method: "POST" });
const json = async (server: TestServer, path: string) =>
  (await (await server.request(path)).json()) as Record<string, never>;
const status = async (server: TestServer, id: string) => (await json(server, `/admin/api/jobs/${id}`)).status;

it.each([
  ["", {}],
  [" with a rate limit", { rateLimit: { limit: 100, period: "1s" } }],
])(
  "new jobs of a paused agent%s wait in line, and those that have started continue, also after a crash",
  async (_, more) => {
    await using server = await testServer({ agents: [worker("Worker", more), worker("Other")] });
    await start(server, "before");
    await expect.poll(() => status(server, "before")).toBe("awaiting");

    const paused = await (await pause(server, "pause")).json();
    await start(server, "waits");
    await start(server, "other", "other");
    await expect.poll(() => status(server, "other")).toBe("awaiting");
    await server.crash();
    await start(server, "waits-too");
    await start(server, "other-too", "other");
    await expect.poll(() => status(server, "other-too")).toBe("awaiting");
    await server.request("/admin/api/cases/before-case/answer", {
      json: { answer: { by: "Ada" }, message: null },
    });
    await expect.poll(() => status(server, "before")).toBe("completed");

    expect(paused).toMatchObject({ slug: "worker", paused: { by: "api-key" } });
    expect([await status(server, "waits"), await status(server, "waits-too")]).toEqual([
      "stopped",
      "stopped",
    ]);
    expect((await json(server, "/agents/worker/jobs/waits")).message).toContain("until its agent is resumed");
    expect((await json(server, "/admin/api/agents/worker")).paused).toMatchObject({ by: "api-key" });
    expect(server.service.get(RUNNER).pausedAgents).toEqual(["worker"]);
    const page = await (
      await server.request("/admin/agents/worker", { headers: { accept: "text/html" } })
    ).text();
    expect(page).toMatch(/Paused by <bdi>api-key<\/bdi>/);
    expect(await (await server.request("/admin/", { headers: { accept: "text/html" } })).text()).toContain(
      "1 agent paused",
    );

    expect(await (await pause(server, "resume")).json()).toEqual({ slug: "worker", paused: null });
    await expect.poll(() => status(server, "waits")).toBe("awaiting");
    await expect.poll(() => status(server, "waits-too")).toBe("awaiting");
  },
);

it("stored parameters and the pause of an agent do not replace each other", async () => {
  await using server = await testServer({
    agents: [worker("Worker", { parameters: [{ name: "TOKEN", is_secret: true }] })],
  });

  await pause(server, "pause");
  const parameters = { TOKEN: "secret" };
  await server.request("/admin/api/agents/worker/parameters", { json: { parameters } });
  expect((await json(server, "/admin/api/agents/worker")).paused).toMatchObject({ by: "api-key" });
  await pause(server, "resume");

  const page = await server.request("/admin/agents/worker", { headers: { accept: "text/html" } });
  expect(await page.text()).toContain("Unchanged");
});

it("a paused agent starts no job on any instance, and is resumed on all", async () => {
  const [one, other] = await startInstances([{ agents: [worker("Worker")] }, { agents: [worker("Worker")] }]);

  await pause(one, "pause");
  await expect.poll(() => other.service.get(RUNNER).pausedAgents).toEqual(["worker"]);
  await start(one, "a");
  await start(other, "b");
  expect(await status(one, "a")).toBe("stopped");
  await pause(other, "resume");

  await expect.poll(() => status(one, "a")).toBe("awaiting");
  await expect.poll(() => status(one, "b")).toBe("awaiting");
});

it("an agent that does not exist cannot be paused", async () => {
  await using server = await testServer({ agents: [worker("Worker")] });

  expect((await pause(server, "pause", "nobody")).status).toBe(404);
});

const drain = async (server: TestServer, seconds: number) =>
  (await server.request("/utils/drain", { json: { seconds } })).json();

it("a drained service starts no new jobs, also after a crash, until that is over by itself", async () => {
  await using server = await testServer({ agents: [worker("Worker"), worker("Other")] });
  await start(server, "before");
  await expect.poll(() => status(server, "before")).toBe("awaiting");

  const drained = await drain(server, 60);
  await start(server, "waits");
  await start(server, "other", "other");
  await server.crash();
  await start(server, "waits-too");
  const held = [
    await status(server, "waits"),
    await status(server, "other"),
    await status(server, "waits-too"),
  ];
  const { message } = await json(server, "/agents/worker/jobs/waits");
  const page = await (await server.request("/admin/", { headers: { accept: "text/html" } })).text();
  await server.advance("61s");

  expect(drained).toEqual({ until: expect.any(String), running: 0 });
  expect(held).toEqual(["stopped", "stopped", "stopped"]);
  expect(message).toMatch(/waits for a deployment/);
  expect(page).toContain("new jobs wait for a deployment");
  expect(server.service.get(RUNNER).pausedAgents).toEqual([]);
  for (const id of ["waits", "other", "waits-too"])
    await expect.poll(() => status(server, id)).toBe("awaiting");
  const log = (await json(server, "/admin/api/audit?action=service.drain")) as Record<string, unknown>;
  expect(log.items).toHaveLength(1);
});

it("a drain ends when it is lifted, at all instances, and leaves agents paused that a person paused", async () => {
  const agents = () => ({ agents: [worker("Worker"), worker("Other")] });
  const [one, other] = await startInstances([agents(), agents()]);
  await pause(one, "pause");
  await drain(one, 60);
  await drain(one, 60);
  await expect.poll(() => other.service.get(RUNNER).drainedUntil).toBeDefined();
  await start(other, "a", "other");
  await start(other, "b");
  const before = [await status(one, "a"), await status(one, "b")];

  const lifted = await drain(other, 0);

  expect(before).toEqual(["stopped", "stopped"]);
  expect(lifted).toEqual({ until: null, running: 0 });
  await expect.poll(() => status(one, "a")).toBe("awaiting");
  expect(await status(one, "b")).toBe("stopped");
  await pause(one, "resume");
  await expect.poll(() => status(one, "b")).toBe("awaiting");
});

it("a drain is refused for longer than five minutes, and without a key", async () => {
  await using server = await testServer({ agents: [worker("Worker")] });

  const long = await server.request("/utils/drain", { json: { seconds: 301 } });
  const open = await server.request("/utils/drain", { json: { seconds: 1 }, key: null } as never);

  expect([long.status, open.status]).toEqual([422, 401]);
});
