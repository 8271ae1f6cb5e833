import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { mcp } from "../../src/mcp.ts";
import { startInstances } from "../instances/_instances.ts";
import { refunds } from "./_agent.ts";
import { connect } from "./_client.ts";
import { accept, keyOf, requestsOf, WALKED, walk } from "./_walk.ts";

const options = { agents: [refunds], plugins: [mcp({ pollInterval: "50ms" })] };

it("a task is started, polled, answered twice and cancelled by the official client", async () => {
  await using server = await testServer(options);

  const tasks = await walk(async () => server);

  expect(tasks).toMatchObject(WALKED);
  const [[key, request]] = requestsOf(tasks[0]!) as [[string, { params: object }]];
  expect(key).toMatch(/^refund\.\d+\.[0-9a-z]+$/);
  expect(request).toEqual({
    method: "elicitation/create",
    params: {
      mode: "form",
      message: "Refund A1?",
      requestedSchema: {
        type: "object",
        properties: {
          approved: { type: "boolean" },
          reason: {
            type: "string",
            oneOf: [
              { const: "late", title: "It came late" },
              { const: "broken", title: "broken" },
            ],
          },
          details: { type: "string", description: "More (JSON)" },
        },
        required: ["approved"],
      },
    },
  });
});

it("each request about a task may go to another instance", async () => {
  const servers = await startInstances([options, options]);
  let count = 0;

  const tasks = await walk(async () => servers[count++ % 2]!);

  expect(tasks).toMatchObject(WALKED);
});

it("the service may crash before each request", async () => {
  await using server = await testServer(options);
  let isNew = true;

  const tasks = await walk(async () => {
    if (!isNew) await server.crash();
    isNew = false;
    return server;
  });

  expect(tasks).toMatchObject(WALKED);
});

it("an answer that does not fit is refused with the reason, and the question stays open", async () => {
  await using server = await testServer(options);
  const client = await connect(server);
  const id = await client.start("refunds", { order: "A1" });
  const first = await client.settled(id);

  await expect(client.update(id, { [keyOf(first)]: accept({ approved: "maybe" }) })).rejects.toThrow(
    /approved must be/,
  );
  await client.update(id, { [keyOf(first)]: { action: "decline" }, other: accept({ approved: true }) });
  const later = await client.get(id);
  await client.update(id, { [keyOf(first)]: accept({ approved: false, details: '{"a":[1]}' }) });
  const second = await client.settled(id);
  await client.update(id, { [keyOf(first)]: accept({ amount: 1 }) });
  const same = await client.get(id);

  expect(later.inputRequests).toEqual(first.inputRequests);
  expect(keyOf(second)).not.toBe(keyOf(first));
  expect(same).toMatchObject({ status: "input_required", inputRequests: second.inputRequests });
  await expect(client.update(id, { [keyOf(second)]: accept({ amount: 101 }) })).rejects.toThrow(
    "must be at most 100",
  );
  await client.update(id, { [keyOf(second)]: accept({ amount: 100 }) });
  expect(await client.settled(id)).toMatchObject({
    result: { structuredContent: { result: { first: { details: { a: [1] } } } } },
  });
});

it("a repeated call with the same key is the same task", async () => {
  await using server = await testServer(options);
  const client = await connect(server);
  const key = { "agent-control-service/idempotency-key": "once" };

  const ids = [
    await client.start("refunds", { order: "A1" }, key),
    await client.start("refunds", { order: "A1" }, key),
    await client.start("refunds", { order: "A1" }),
  ];

  expect(new Set(ids).size).toBe(2);
  expect(ids[0]).toBe(ids[1]);
});

it("a client that shows no forms sees what the job waits for", async () => {
  await using server = await testServer(options);
  const client = await connect(server, {});
  const id = await client.start("refunds", { order: "A1" });

  await expect.poll(() => client.get(id)).toMatchObject({ status: "working", statusMessage: "Refund A1?" });
});

it("a task that does not exist, and one of a hidden agent, are unknown", async () => {
  await using server = await testServer({ ...options, plugins: [mcp({ agents: [] })] });
  const client = await connect(server);
  const response = await server.request("/agents/refunds/jobs", { json: { job_fields: { order: "A1" } } });
  const { id } = (await response.json()) as { id: string };

  for (const unknown of ["nothing", "../x", id]) {
    await expect(client.get(unknown)).rejects.toMatchObject({ code: -32602 });
    await expect(client.cancel(unknown)).rejects.toMatchObject({ code: -32602 });
  }
  expect((await client.client.listTools()).tools.map(({ name }) => name)).not.toContain("refunds");
});

it("the key of a job of a hidden agent names no job", async () => {
  const hidden = defineAgent({ name: "Hidden", version: "1", methods: { job_start: { run: () => null } } });
  await using server = await testServer({
    agents: [refunds, hidden],
    plugins: [mcp({ agents: ["refunds"] })],
  });
  const started = await server.request("/agents/hidden/jobs", {
    json: { job_fields: {} },
    headers: { "idempotency-key": "once" },
  });
  const { id } = (await started.json()) as { id: string };
  const client = await connect(server);
  const start = () =>
    client.client.callTool({
      name: "job_start",
      arguments: { agent: "refunds", fields: { order: "A1" }, idempotency_key: "once" },
    });

  const answer = await start().then(
    (result) => JSON.stringify(result),
    (error: Error) => error.message,
  );

  expect(answer).toContain("The idempotency key is in use");
  expect(answer).not.toContain(id);
});

it("an answer to what a job asked before it started over is not for what it asks since", async () => {
  await using server = await testServer(options);
  const client = await connect(server);
  const id = await client.start("refunds", { order: "A1" });
  const keysOf = async () => {
    const task = (await client.settled(id)) as { inputRequests?: object };
    return Object.keys(task.inputRequests ?? {});
  };
  const [before] = await keysOf();
  await server.request(`/admin/api/jobs/${id}/status`, { json: { status: "failed" } });
  await server.request(`/admin/api/jobs/${id}/retry`, { json: { from: "start" } });
  await expect.poll(async () => (await client.get(id)).status).toBe("input_required");

  await client.update(id, { [before!]: { action: "accept", content: { approved: true } } });

  const [after] = await keysOf();
  expect(after).not.toBe(before);
  expect(after!.split(".").slice(0, 2)).toEqual(before!.split(".").slice(0, 2));
  const job = await (await server.request(`/jobs/${id}/result`)).json();
  expect(job).toMatchObject({ status: "awaiting" });
  await client.update(id, { [after!]: { action: "accept", content: { approved: true } } });
  await expect.poll(async () => (await keysOf())[0]).not.toBe(after);
});
