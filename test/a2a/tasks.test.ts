import { createPublicKey } from "node:crypto";
import { AgentCard, type StreamResponse, verifyAgentCardSignature } from "@a2a-js/sdk";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { RUNNER, STORE } from "../../src/core/service/tokens.ts";
import { startInstances } from "../instances/_instances.ts";
import { refunds } from "../mcp/_agent.ts";
import { connect, messageOf, send, shown, stateOf } from "./_client.ts";
import { WALKED, walk } from "./_walk.ts";

const options = { agents: [refunds], plugins: [a2a({ wait: "20s" })] };
const BINDINGS = ["JSONRPC", "HTTP+JSON"] as const;

it.each(BINDINGS)(
  "a task is started, polled, answered twice and canceled by the official client: %s",
  async (binding) => {
    await using server = await testServer(options);

    expect(await walk(async () => server, binding)).toMatchObject(WALKED);
  },
);

it("each request may go to another instance", async () => {
  const servers = await startInstances([options, options]);
  let count = 0;

  expect(await walk(async () => servers[count++ % 2]!, "JSONRPC")).toMatchObject(WALKED);
});

it("the service may crash before each request", async () => {
  await using server = await testServer(options);
  let isNew = true;

  const walked = await walk(async () => {
    if (!isNew) await server.crash();
    isNew = false;
    return server;
  }, "HTTP+JSON");

  expect(walked).toMatchObject(WALKED);
});

it("the card is signed, and names both bindings", async () => {
  await using server = await testServer(options);

  const card = await server.request("/a2a/refunds/.well-known/agent-card.json");
  const { keys } = (await (await server.request("/a2a/refunds/.well-known/jwks.json")).json()) as {
    keys: [{ kid: string }];
  };
  const json = (await card.json()) as Record<string, unknown>;
  const verify = verifyAgentCardSignature(async (kid) => {
    expect(kid).toBe(keys[0].kid);
    return createPublicKey({ key: keys[0] as never, format: "jwk" });
  });

  await verify(AgentCard.fromJSON(json));
  await expect(verify(AgentCard.fromJSON({ ...json, name: "Other" }))).rejects.toThrow();
  expect(json).toMatchObject({
    name: "Refunds",
    supportedInterfaces: [
      { url: `${server.url}/a2a/refunds`, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
      { url: `${server.url}/a2a/refunds`, protocolBinding: "HTTP+JSON", protocolVersion: "1.0" },
    ],
    skills: [{ id: "refunds", description: "Pays a customer back" }],
  });
  expect((await server.request("/a2a/refunds/.well-known/agent-card.json", { key: null })).status).toBe(401);
});

it("a message that is sent again with other parts is refused, whether it started a task or answered one", async () => {
  await using server = await testServer(options);
  const client = await connect(server);
  const { id } = await send(client, messageOf("m1", [{ text: "A1" }]));
  await send(client, messageOf("m2", [{ text: "yes" }], id));

  for (const other of [messageOf("m1", [{ text: "A2" }]), messageOf("m2", [{ text: "no" }], id)])
    await expect(send(client, other)).rejects.toThrow(/already exists with different/);
});

it.each(BINDINGS)("a message can wait for its task, and a stream shows what happens: %s", async (binding) => {
  await using server = await testServer(options);
  const client = await connect(server, binding);

  const asked = await send(client, messageOf("m1", [{ data: { order: "A1" } }]));
  const second = await send(client, messageOf("m2", [{ data: { approved: true } }], asked.id));
  const events: StreamResponse[] = [];
  const message = messageOf("m3", [{ text: "7" }], asked.id);
  const request = { tenant: "", message, configuration: undefined, metadata: undefined };
  for await (const event of client.sendMessageStream(request)) events.push(event);
  const listed = await client.listTasks({
    ...{ tenant: "", contextId: "", status: 0, pageSize: 10, pageToken: "" },
    statusTimestampAfter: undefined,
  });

  expect([stateOf(asked), stateOf(second)]).toEqual(Array(2).fill("TASK_STATE_INPUT_REQUIRED"));
  expect(events[0]?.payload?.$case).toBe("task");
  const states = events.flatMap(({ payload }) => {
    if (payload?.$case === "statusUpdate") return [payload.value.status?.state];
    return payload?.$case === "task" ? [payload.value.status?.state] : [];
  });
  expect(states.at(-1)).toBe(3);
  expect(listed).toMatchObject({ totalSize: 1, nextPageToken: "", tasks: [{ id: asked.id }] });
});

it.each(BINDINGS)("mistakes are errors of the protocol: %s", async (binding) => {
  await using server = await testServer(options);
  const client = await connect(server, binding);
  const { id } = await send(client, messageOf("m1", [{ text: "A1" }]));

  const task = (taskId: string) => ({ tenant: "", id: taskId });
  await expect(client.getTask(task("nothing"))).rejects.toThrow(/does not exist|not found/i);
  await expect(send(client, messageOf("m2", [{ text: "perhaps" }], id))).rejects.toThrow(/approved must be/);
  await expect(send(client, messageOf("m3", [{ data: { order: 5 } }]))).rejects.toThrow(/order must be/);
  expect(shown(await client.getTask(task(id)))).toMatchObject({ state: "TASK_STATE_INPUT_REQUIRED" });
});

it("what is kept of messages goes with their job", async () => {
  await using server = await testServer(options);
  const client = await connect(server);
  const { id } = await send(client, messageOf("m1", [{ text: "A1" }]));
  await send(client, messageOf("m2", [{ text: "yes" }], id));
  const kept = async () => (await server.service.get(STORE).table("A2aMessage").list()).total;
  expect(await kept()).toBe(1);

  await server.request(`/admin/api/jobs/${id}`, { method: "DELETE" });
  expect(await kept()).toBe(1);
  await server.request(`/admin/api/jobs/${id}?permanent=true`, { method: "DELETE" });

  expect(await kept()).toBe(0);
});

it("lists tasks as the protocol says: the newest first, in pages, without artifacts unless asked for", async () => {
  await using server = await testServer(options);
  const client = await connect(server, "JSONRPC");
  const first = await send(client, messageOf("m1", [{ text: "A1" }]));
  const cancelled = await send(client, messageOf("m2", [{ text: "A2" }]));
  await client.cancelTask({ tenant: "", id: cancelled.id, metadata: undefined });
  await server.service.get(RUNNER).ended(cancelled.id, 60_000);
  const headers = { "a2a-version": "1.0" };
  const list = async (params: object) => {
    const json = { jsonrpc: "2.0", id: 1, method: "ListTasks", params };
    const answer = await server.request("/a2a/refunds", { json, headers });
    const { result, error } = (await answer.json()) as {
      result?: { tasks?: { id: string }[]; nextPageToken?: string; totalSize?: number };
      error?: { code: number };
    };
    return error ? error.code : { ...result, tasks: result?.tasks?.map(({ id }) => id) ?? [] };
  };

  expect(await list({})).toMatchObject({ tasks: [cancelled.id, first.id], totalSize: 2 });
  const page = await list({ pageSize: 1 });
  expect(page).toMatchObject({ tasks: [cancelled.id], totalSize: 2 });
  const { nextPageToken: pageToken } = page as { nextPageToken: string };
  expect(await list({ pageSize: 1, pageToken })).toMatchObject({ tasks: [first.id], nextPageToken: "" });
  expect(await list({ status: "TASK_STATE_CANCELED" })).toMatchObject({ tasks: [cancelled.id] });
  expect(await list({ statusTimestampAfter: new Date(Date.now() + 60_000).toISOString() })).toMatchObject({
    tasks: [],
  });
  for (const wrong of [
    { pageSize: 0 },
    { pageSize: -1 },
    { pageSize: 101 },
    { pageToken: "nonsense" },
    { historyLength: -1 },
    { status: "TASK_STATE_UNHEARD_OF" },
    { statusTimestampAfter: "yesterday" },
  ])
    expect(await list(wrong), JSON.stringify(wrong)).toBe(-32602);
  const rest = async (query: string) =>
    (await (await server.request(`/a2a/refunds/tasks?${query}`, { headers })).json()) as { tasks: object[] };
  for (const task of (await rest("includeArtifacts=false")).tasks)
    expect(task).not.toHaveProperty("artifacts");
  expect((await server.request("/a2a/refunds/tasks?includeArtifacts=yes", { headers })).status).toBe(400);
});

it.each([
  [[{ text: "what is this?" }, { raw: "iVBORw0KGgo=", mediaType: "image/png" }]],
  [[{ url: "https://example.com/a.pdf" }]],
])(
  "a file that the agent cannot take is refused by name, over both bindings, and starts nothing: %j",
  async (parts) => {
    await using server = await testServer(options);
    const message = { messageId: "m-file", role: "ROLE_USER", parts };

    const rest = await server.request("/a2a/refunds/message:send", {
      json: { message },
      headers: { "A2A-Version": "1.0" },
    });
    const rpc = await server.request("/a2a/refunds/", {
      json: { jsonrpc: "2.0", id: 1, method: "SendMessage", params: { message } },
      headers: { "A2A-Version": "1.0" },
    });

    expect(JSON.stringify(await rest.json())).toContain("CONTENT_TYPE_NOT_SUPPORTED");
    expect(await rpc.json()).toMatchObject({ error: { code: -32005 } });
    const { total } = (await (await server.request("/admin/api/jobs")).json()) as { total?: number };
    expect(total ?? 0).toBe(0);
  },
);

it("a stream of many events listens once for the end of its request", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on("warning", note);
  onTestFinished(() => void process.off("warning", note));
  const talker = defineAgent({
    name: "Talker",
    version: "1.0.0",
    methods: {
      job_start: {
        run: ({ job }) =>
          job.step("talk", async ({ emit }) => {
            for (let n = 0; n < 30; n++) {
              emit(`${n} `);
              await new Promise((resolve) => setTimeout(resolve, 5));
            }
          }),
      },
    },
  });
  await using server = await testServer({ agents: [talker], plugins: [a2a()] });

  const response = await server.request("/a2a/talker/message:stream", {
    json: { message: { messageId: "m1", role: "ROLE_USER", parts: [{ text: "{}" }] } },
    headers: { "a2a-version": "1.0" },
  });

  expect((await response.text()).match(/^data:/gm)!.length).toBeGreaterThan(15);
  expect(warnings).toEqual([]);
});

it("loses no task that changes while its list is read, and repeats none that does not", async () => {
  await using server = await testServer(options);
  const client = await connect(server, "JSONRPC");
  const ids: string[] = [];
  for (let n = 0; n < 6; n++) ids.push((await send(client, messageOf(`m${n}`, [{ text: `A${n}` }]))).id);
  const list = (pageToken: string) =>
    client.listTasks({
      ...{ tenant: "", contextId: "", status: 0, pageSize: 2, pageToken },
      statusTimestampAfter: undefined,
    });
  const found: string[] = [];
  let page = await list("");
  const walked = [page];
  // The three oldest change, and move before the page that has been read.
  for (const id of ids.slice(0, 3)) {
    await client.cancelTask({ tenant: "", id, metadata: undefined });
    await server.service.get(RUNNER).ended(id, 60_000);
  }
  const later = (await send(client, messageOf("m6", [{ text: "A6" }]))).id;
  while (page.nextPageToken) {
    page = await list(page.nextPageToken);
    walked.push(page);
  }
  for (const { tasks, totalSize } of walked) {
    expect(totalSize).toBeLessThanOrEqual(ids.length + 1);
    found.push(...tasks.map(({ id }) => id));
  }

  expect(found.toSorted()).toEqual(ids.toSorted());
  expect(found.slice(0, 3)).toEqual(ids.slice(3).reverse());
  expect(found).not.toContain(later);
});
