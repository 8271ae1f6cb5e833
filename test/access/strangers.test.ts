// @long
import { hash } from "node:crypto";
import { defineAgent, defineChat } from "agent-control-service";
import { JOBS, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { agUi } from "../../src/agui.ts";
import { mcp } from "../../src/mcp.ts";

/*
 * A caller who knows the ids of a job, a task, a thread, a context and a response of somebody else learns by no protocol
 * what it would not learn of one that does not exist.
 */

const SECRET = "the-secret-word";
const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ word: v.string() }),
      async run({ job, fields: { word } }) {
        await job.file("secret.txt", word);
        const item = await job.openCase({ id: `case-${job.id}`, name: word });
        await item.step("look", () => word);
        await item.ask({ question: `Is ${word} fine?`, fields: v.object({ fine: v.boolean() }) });
      },
    },
  },
});
const talker = defineChat({
  name: "Talker",
  version: "1.0.0",
  reply: ({ messages }) => `heard ${JSON.stringify(messages)}`,
});
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;
const STRANGERS = ["starter", "customer", "team"];

let server: TestServer;
/** Ids of the victim, and as many of nothing. */
let theirs: Record<string, string>;
const NONE: Record<string, string> = {
  job: "job-of-none",
  response: `resp_${"0".repeat(8)}`,
  thread: "thread-none",
};

beforeAll(async () => {
  const holders = [
    { name: "victim", role: "starter" },
    { name: "starter", role: "starter" },
    { name: "customer", role: "admin", workspace: "acme" },
    { name: "team", role: "admin", agents: ["greeter"] },
  ] as const;
  const keys = holders.map((one) => ({ ...one, sha256: hash("sha256", keyOf(one.name), "hex") }));
  const greeter = defineAgent({
    name: "Greeter",
    version: "1.0.0",
    methods: { job_start: { run: () => "hello" } },
  });
  server = await testServer({
    agents: [asker, talker, greeter],
    plugins: [mcp({ wait: "0s" }), a2a({ wait: "1s" }), agUi()],
    access: { keys },
  });
  const made = await send("victim", "/agents/asker/jobs", {
    job_context: { job_id: "job-of-victim" },
    job_fields: { word: SECRET },
  });
  expect(made.status).toBe(202);
  const jobs = server.service.get(JOBS);
  await vi.waitFor(async () => expect((await jobs.get("job-of-victim")).status).toBe("awaiting"), 20_000);
  const said = await send("victim", "/v1/responses", { model: "talker", input: `say ${SECRET}` });
  const response = (JSON.parse(said.text) as { id: string }).id;
  const thread = (await jobs.list({ where: { agent_name: "talker" } })).items[0]!.id;
  theirs = { job: "job-of-victim", response, thread };
});
afterAll(() => server[Symbol.asyncDispose]());

async function send(name: string, path: string, json?: object, headers: Record<string, string> = {}) {
  const response = await server.request(path, {
    key: keyOf(name),
    headers: {
      ...{ "a2a-version": "1.0", "mcp-protocol-version": "2025-06-18" },
      accept: path.startsWith("/jobs/") ? "text/event-stream" : "application/json, text/event-stream",
      ...headers,
    },
    ...(json && { json }),
  });
  const shown = ["etag", "location", "link", "x-total-count"]
    .map((one) => response.headers.get(one))
    .join(" ");
  return { status: response.status, text: `${shown}\n${await response.text()}`.trim() };
}

type Ids = Readonly<Record<string, string>>;
const rpc = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });
const message = (more: object) => ({
  message: { messageId: "message-1", role: "ROLE_USER", parts: [{ text: "hello" }], ...more },
});
const config = { id: "config-1", url: "https://example.com/hook" };

const FILE = hash("sha256", SECRET, "hex");
/** A request of the revision of MCP that has tasks. */
const task = (method: string, name: string, params: object = {}) =>
  [
    "/mcp",
    rpc(method, {
      ...{ taskId: name, ...params },
      _meta: {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { name: "a-test", version: "1.0.0" },
        "io.modelcontextprotocol/clientCapabilities": {
          elicitation: { form: {} },
          extensions: { "io.modelcontextprotocol/tasks": {} },
        },
      },
    }),
    { "mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": name },
  ] as const;

/** Requests about what is somebody's, by the ids. */
const ASKED: Readonly<
  Record<string, (ids: Ids) => readonly [path: string, json?: object, headers?: object]>
> = {
  "A2A GetTask": ({ job }) => ["/a2a/asker", rpc("GetTask", { id: job })],
  "A2A CancelTask": ({ job }) => ["/a2a/asker", rpc("CancelTask", { id: job })],
  "A2A SubscribeToTask": ({ job }) => ["/a2a/asker", rpc("SubscribeToTask", { id: job })],
  "A2A GetTask of a chat": ({ thread }) => ["/a2a/talker", rpc("GetTask", { id: thread })],
  "A2A message to a task": ({ job }) => ["/a2a/asker", rpc("SendMessage", message({ taskId: job }))],
  "A2A stream to a task": ({ job }) => ["/a2a/asker", rpc("SendStreamingMessage", message({ taskId: job }))],
  "A2A message to a task of a chat": ({ thread }) => [
    "/a2a/talker",
    rpc("SendMessage", message({ taskId: thread })),
  ],
  "A2A ListTasks of a context": ({ job }) => ["/a2a/asker", rpc("ListTasks", { contextId: job })],
  "A2A ListTasks of a thread": ({ thread }) => ["/a2a/talker", rpc("ListTasks", { contextId: thread })],
  "A2A push config": ({ job }) => [
    "/a2a/asker",
    rpc("CreateTaskPushNotificationConfig", { taskId: job, ...config }),
  ],
  "A2A push configs": ({ job }) => ["/a2a/asker", rpc("ListTaskPushNotificationConfigs", { taskId: job })],
  "MCP job_status": ({ job }) => [
    "/mcp",
    rpc("tools/call", { name: "job_status", arguments: { job_id: job } }),
  ],
  "MCP job_cancel": ({ job }) => [
    "/mcp",
    rpc("tools/call", { name: "job_cancel", arguments: { job_id: job } }),
  ],
  "MCP job_answer": ({ job }) => [
    "/mcp",
    rpc("tools/call", {
      name: "job_answer",
      arguments: { job_id: job, question: `case-${job}`, answer: { fine: true } },
    }),
  ],
  "MCP job_status of a thread": ({ thread }) => [
    "/mcp",
    rpc("tools/call", { name: "job_status", arguments: { job_id: thread } }),
  ],
  "MCP tasks/get": ({ job }) => task("tasks/get", job!),
  "MCP tasks/get of a thread": ({ thread }) => task("tasks/get", thread!),
  "MCP tasks/update": ({ job }) =>
    task("tasks/update", job!, {
      inputResponses: { [`case-${job}`]: { action: "accept", content: { fine: true } } },
    }),
  "MCP tasks/cancel": ({ job }) => task("tasks/cancel", job!),
  "the content of a file": ({ job }) => [`/jobs/${job}/files/${FILE}`],
  "a file that one says one has": ({ job }) => [
    `/jobs/${job}/files/${FILE}`,
    undefined,
    { "if-none-match": `"${FILE}"` },
  ],
  "a part of a file that one says one has": ({ job }) => [
    `/jobs/${job}/files/${FILE}`,
    undefined,
    { "if-range": `"${FILE}"`, range: "bytes=0-3" },
  ],
  "a previous response": ({ response }) => [
    "/v1/responses",
    { model: "talker", input: "what was said?", previous_response_id: response },
  ],
  "a response": ({ response }) => [`/v1/responses/${response}`],
  "a stream after an event": ({ job }) => [`/jobs/${job}/stream`, undefined, { "last-event-id": "3" }],
  "a stream of a thread": ({ thread }) => [`/jobs/${thread}/stream`, undefined, { "last-event-id": "1" }],
  "an answer": ({ job }) => [`/jobs/${job}/cases/case-${job}/update`, { answer: { fine: true } }],
  "a message": ({ job }) => [`/jobs/${job}/messages`, { content: "hello" }],
  "files of a job": ({ job }) => [`/files?job_id=${job}`],
  "cases in the admin interface": ({ job }) => [`/admin/api/cases?job_id=${job}`],
  "files in the admin interface": ({ job }) => [`/admin/files?job_id=${job}`],
  search: ({ job }) => [`/admin/api/find?q=${job}`],
  "a page of jobs": ({ job }) => [`/admin/api/jobs?search=${job}`],
  "a comparison": ({ job }) => [`/admin/jobs/${job}/compare`],
};

const plain = (text: string, ids: Ids) => {
  let all = text;
  for (const [kind, id] of Object.entries(ids)) all = all.replaceAll(id, `<${kind}>`);
  // What each response has of its own.
  return all
    .replaceAll(/[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/g, "UUID")
    .replaceAll(/"(?:timestamp|created_at)":\s*"?[^",}]+"?/g, "TIME")
    .replaceAll(/resp_\w+|msg_\w+/g, "ID");
};
const rows = async () => {
  const { items } = await server.service.get(STORE).table("Job").list({ limit: 100 });
  return items.filter(({ id }) => id === theirs.job || id === theirs.thread);
};

it.each(STRANGERS)(
  "%s is answered about what is somebody else's as about nothing, and changes nothing",
  async (name) => {
    const before = await rows();
    const wrong: string[] = [];
    for (const [what, of] of Object.entries(ASKED)) {
      const ask = async (ids: Ids) => {
        const [path, json, headers] = of(ids);
        const { status, text } = await send(name, path, json, headers as Record<string, string>);
        return { status, text, plain: plain(text, ids) };
      };
      const [one, other] = [await ask(theirs), await ask(NONE)];
      if (one.text.includes(SECRET)) wrong.push(`${what} shows the word: ${one.text.slice(0, 300)}`);
      if (one.status !== other.status || one.plain !== other.plain)
        wrong.push(
          `${what}: ${one.status} ${one.plain.slice(0, 300)}, not ${other.status} ${other.plain.slice(0, 300)}`,
        );
      if (one.status >= 500) wrong.push(`${what}: ${one.status}`);
    }

    expect(wrong).toEqual([]);
    expect(before).toHaveLength(2);
    expect(await rows()).toEqual(before);
  },
);

it.each(STRANGERS)(
  "%s who begins a thread or a context by the id of somebody else's meets nothing of it",
  async (name) => {
    const before = await rows();
    const begun: (readonly [path: string, json: object])[] = [
      [
        "/ag-ui/talker",
        { threadId: theirs.thread, runId: "run-1", messages: [{ id: "m", role: "user", content: "hi" }] },
      ],
      ["/ag-ui/asker", { threadId: theirs.job, runId: "run-1", messages: [] }],
      ["/a2a/talker", rpc("SendMessage", message({ contextId: theirs.thread }))],
      ["/a2a/asker", rpc("SendMessage", message({ contextId: theirs.job }))],
      ["/v1/responses", { model: "talker", input: "hi", conversation: theirs.thread }],
      [
        "/v1/chat/completions",
        { model: "talker", messages: [{ role: "user", content: "hi" }], user: theirs.thread },
      ],
      [
        "/chat/talker",
        { id: theirs.thread, messages: [{ id: "m", role: "user", parts: [{ type: "text", text: "hi" }] }] },
      ],
      ["/mcp", rpc("tools/call", { name: "talker", arguments: { message: "hi", thread: theirs.thread } })],
      ["/agents/asker/jobs", { job_context: { job_id: theirs.job }, job_fields: { word: SECRET } }],
      [
        "/agents/asker/jobs",
        { job_context: { job_id: "of-mission", mission_id: theirs.job }, job_fields: { word: "x" } },
      ],
    ];
    const shown: string[] = [];
    for (const [path, json] of begun) {
      const { status, text } = await send(name, path, json);
      if (text.includes(SECRET) || status >= 500)
        shown.push(`${path} ${JSON.stringify(json)}: ${status} ${text}`);
    }

    expect(shown).toEqual([]);
    expect(await rows()).toEqual(before);
  },
);

// The last one: it cancels the task and answers the question.
it("whose they are is answered otherwise by each of these", async () => {
  const same: string[] = [];
  for (const [what, of] of Object.entries(ASKED)) {
    const ask = async (ids: Ids) => {
      const [path, json, headers] = of(ids);
      const { status, text } = await send("victim", path, json, headers as Record<string, string>);
      return `${status} ${plain(text, ids)}`;
    };
    if ((await ask(theirs)) === (await ask(NONE))) same.push(what);
  }

  expect(same).toEqual([]);
});
