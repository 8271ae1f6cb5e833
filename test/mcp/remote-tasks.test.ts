import { createServer } from "node:http";
import { InMemoryTaskStore } from "@modelcontextprotocol/sdk/experimental/tasks";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { mcp, mcpTools } from "../../src/mcp.ts";

/** An agent whose jobs end once they may. */
function patient() {
  const state = { mayEnd: false };
  const agent = defineAgent({
    ...{ name: "Patient", version: "1.0.0" },
    methods: {
      job_start: {
        run: async ({ job }) => {
          while (!(await job.step("look", () => state.mayEnd))) await job.sleep(20);
          return "done at last";
        },
      },
    },
  });
  return { agent, state };
}

/** Calls a tool of a server, and keeps the methods of its requests; so many about its task are lost. */
function callerOf(url: URL, tool: string, headers: Record<string, string> = {}, lost = 0) {
  const methods: string[] = [];
  const counting: typeof fetch = (input, init) => {
    const method = /"method":"([^"]+)"/.exec(String(init?.body))?.[1];
    if (method) methods.push(method);
    if (method === "tasks/get" && lost-- > 0) return Promise.reject(new Error("the connection ended"));
    return fetch(input, init);
  };
  const agent = defineAgent({
    ...{ name: "Caller", version: "1.0.0" },
    methods: {
      job_start: {
        run: async ({ job }) => {
          const result = await mcpTools(url, { headers, fetch: counting }).call(
            job,
            tool,
            {},
            { backoff: { initial: 0 } },
          );
          await job.step("after", () => result.text);
          return { text: result.text, isError: result.isError };
        },
      },
    },
  });
  return { agent, calls: () => methods.filter((method) => method === "tools/call").length, methods };
}

async function startOf(server: Awaited<ReturnType<typeof testServer>>) {
  const { id } = (await (await server.request("/agents/caller/jobs", { json: {} })).json()) as { id: string };
  return { id, job: () => server.service.get(JOBS).get(id) };
}

it("a call that takes long is a task, which the job asks for again after its process has ended", async () => {
  const { agent, state } = patient();
  await using there = await testServer({ agents: [agent], plugins: [mcp({ pollInterval: "100ms" })] });
  const caller = callerOf(new URL("/mcp", there.url), "patient", { "x-api-key": there.key });
  await using here = await testServer({ agents: [caller.agent] });
  const { job } = await startOf(here);
  await expect.poll(() => caller.methods).toContain("tasks/get");

  await here.crash();
  state.mayEnd = true;

  await expect
    .poll(job)
    .toMatchObject({ status: "completed", result: { text: "done at last", isError: false } });
  expect(caller.calls()).toBe(1);
  expect((await there.service.get(JOBS).list()).total).toBe(1);
});

it("a task is asked for again where its server does not answer", async () => {
  const { agent, state } = patient();
  await using there = await testServer({ agents: [agent], plugins: [mcp({ pollInterval: "100ms" })] });
  const caller = callerOf(new URL("/mcp", there.url), "patient", { "x-api-key": there.key }, 3);
  await using here = await testServer({ agents: [caller.agent] });
  state.mayEnd = true;

  const { result } = await here.run(caller.agent);

  expect(result).toEqual({ text: "done at last", isError: false });
  expect(caller.calls()).toBe(1);
});

it("a job that is stopped cancels its task", async () => {
  const { agent } = patient();
  await using there = await testServer({ agents: [agent], plugins: [mcp({ pollInterval: "100ms" })] });
  const caller = callerOf(new URL("/mcp", there.url), "patient", { "x-api-key": there.key });
  await using here = await testServer({ agents: [caller.agent] });
  const { id } = await startOf(here);
  await expect.poll(() => caller.methods).toContain("tasks/get");

  await here.request(`/jobs/${id}/stop`, { method: "POST", json: {} });

  const status = async () => (await there.service.get(JOBS).list()).items[0]?.status;
  await expect.poll(status).toBe("cancelled");
});

it("a task that its server cancels fails the call, which is not made again", async () => {
  const { agent } = patient();
  await using there = await testServer({ agents: [agent], plugins: [mcp({ pollInterval: "100ms" })] });
  const caller = callerOf(new URL("/mcp", there.url), "patient", { "x-api-key": there.key });
  await using here = await testServer({ agents: [caller.agent] });
  const { job } = await startOf(here);
  await expect.poll(() => caller.methods).toContain("tasks/get");
  const [remote] = (await there.service.get(JOBS).list()).items;

  await there.request(`/jobs/${remote!.id}/stop`, { method: "POST", json: {} });

  await expect
    .poll(job)
    .toMatchObject({ status: "failed", error: expect.stringContaining("cancelled the task") });
  expect(caller.calls()).toBe(1);
});

it.each([
  ["completed", { text: "worked", isError: false }],
  ["failed", { text: "broken", isError: true }],
] as const)(
  "a tool of the revision of 2025 that is a task only gives its result: %s",
  async (status, expected) => {
    const url = await serveTasks(status, expected.text);
    const caller = callerOf(url, "research");
    await using here = await testServer({ agents: [caller.agent] });

    const { result } = await here.run(caller.agent);

    expect(result).toEqual(expected);
    expect(caller.methods).toEqual(expect.arrayContaining(["tools/call", "tasks/get", "tasks/result"]));
  },
);

/** A server of the official SDK of that revision, whose only tool must be called as a task. */
async function serveTasks(status: "completed" | "failed", text: string): Promise<URL> {
  const taskStore = new InMemoryTaskStore();
  const http = createServer(async (request, response) => {
    const capabilities = { tasks: { requests: { tools: { call: {} } } } };
    const server = new McpServer({ name: "old", version: "1.0.0" }, { capabilities, taskStore });
    const execution = { taskSupport: "required" } as const;
    server.experimental.tasks.registerToolTask(
      "research",
      { description: "Takes long", execution },
      {
        createTask: async ({ taskStore: tasks }) => {
          const task = await tasks.createTask({ ttl: 60_000, pollInterval: 50 });
          const result = { content: [{ type: "text" as const, text }], isError: status === "failed" };
          setTimeout(() => void taskStore.storeTaskResult(task.taskId, status, result), 100);
          return { task };
        },
        getTask: async ({ taskId, taskStore: tasks }) => (await tasks.getTask(taskId))!,
        getTaskResult: async ({ taskId, taskStore: tasks }) => (await tasks.getTaskResult(taskId)) as never,
      },
    );
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await server.connect(transport as never);
    await transport.handleRequest(request, response);
    response.on("close", () => void server.close());
  });
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
    taskStore.cleanup();
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  return new URL(`http://127.0.0.1:${(http.address() as { port: number }).port}/mcp`);
}
