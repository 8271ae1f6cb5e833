import { hash } from "node:crypto";
import { createServer } from "node:http";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { refunds } from "../mcp/_agent.ts";
import { type Answered, call, follow, said } from "./_call.ts";
import type { Binding } from "./_client.ts";
import { listen } from "./_listen.ts";

/** Lets the writer write the rest. */
let readOn = (): void => {};

/** Emits a sentence in pieces, the second one once somebody has read the first, then ends with it. */
const writer = defineAgent({
  name: "Writer",
  version: "1.0.0",
  methods: {
    job_start: {
      run: ({ job }) =>
        job.step("write", async ({ emit }) => {
          emit("Dear ");
          await new Promise<void>((resolve) => {
            readOn = resolve;
          });
          emit("customer");
          return "Dear customer";
        }),
    },
  },
});

const BINDINGS: readonly Binding[] = ["JSONRPC", "HTTP+JSON"];
const keyOf = (holder: string) => `svck_test_${holder}_${"k".repeat(43)}`;
const [OWNER, OTHER, VIEWER] = ["owner", "other", "viewer"].map(keyOf) as [string, string, string];
const keys = [
  { name: "owner", role: "starter" as const, sha256: hash("sha256", OWNER, "hex") },
  { name: "other", role: "starter" as const, sha256: hash("sha256", OTHER, "hex") },
  { name: "viewer", role: "viewer" as const, sha256: hash("sha256", VIEWER, "hex") },
];
const open = () =>
  testServer({ agents: [refunds, writer], plugins: [a2a({ allowPrivate: true })], access: { keys } });
type Server = Awaited<ReturnType<typeof open>>;
type Call = (method: string, params?: object, headers?: Record<string, string>) => Promise<Answered>;
interface Given {
  readonly server: Server;
  readonly binding: Binding;
  readonly send: Call;
  /** A task that asks its first question. */
  readonly asking: (messageId?: string, contextId?: string) => Promise<{ id: string; contextId: string }>;
}

/** What the specification of Agent2Agent 1.0 demands of servers, by its section. */
const REQUIREMENTS: readonly [section: string, rule: string, check: (given: Given) => Promise<void>][] = [
  [
    "3.1.1",
    "a message to a task that has ended is refused as an unsupported operation, unless it is repeated",
    async ({ send, asking }) => {
      const { id } = await asking();
      await send("SendMessage", said("m2", [{ text: "yes" }], { taskId: id }));
      const last = said("m3", [{ data: { amount: 5 } }], { taskId: id });
      expect((await send("SendMessage", last)).result.task.status.state).toBe("TASK_STATE_COMPLETED");
      expect((await send("SendMessage", last)).result.task.id).toBe(id);
      expect(await send("SendMessage", said("m4", [{ text: "more" }], { taskId: id }))).toMatchObject({
        reason: "UNSUPPORTED_OPERATION",
        domain: "a2a-protocol.org",
      });
      expect(
        (await send("SendStreamingMessage", said("m5", [{ text: "more" }], { taskId: id }))).reason,
      ).toBe("UNSUPPORTED_OPERATION");
    },
  ],
  [
    "3.1.2",
    "a stream starts with the task, shows what is written as it comes, and ends with the task",
    async ({ server, binding }) => {
      const events = await follow(server, binding, {
        ...{ method: "SendStreamingMessage", params: said("w1", [{ data: {} }]), agent: "writer" },
        seen: ({ artifactUpdate }) => {
          if (artifactUpdate) readOn();
        },
      });
      expect(events[0]).toHaveProperty("task");
      const written = events.flatMap(({ artifactUpdate: update }) =>
        update && update.artifact.artifactId !== "result" ? [update] : [],
      );
      expect(new Set(written.map(({ artifact }) => artifact.artifactId)).size).toBe(1);
      expect(
        written.flatMap(({ artifact }) => artifact.parts.map(({ text }: { text: string }) => text)).join(""),
      ).toBe("Dear customer");
      expect(written.map(({ append }) => append ?? false)).toEqual(written.map((_, at) => at > 0));
      expect(written.at(-1)).toMatchObject({ lastChunk: true });
      expect(events.at(-1)).toMatchObject({ statusUpdate: { status: { state: "TASK_STATE_COMPLETED" } } });
    },
  ],
  [
    "3.1.3, 3.1.5",
    "a task is shown as it is, with its artifacts once it has ended, and is cancelled unless it has ended",
    async ({ send, asking }) => {
      const { id } = await asking("m1");
      expect((await send("GetTask", { id })).result).toMatchObject({
        ...{ id, status: { state: "TASK_STATE_INPUT_REQUIRED" } },
      });
      expect((await send("CancelTask", { id })).result.id).toBe(id);
      await expect
        .poll(async () => (await send("GetTask", { id })).result.status.state)
        .toBe("TASK_STATE_CANCELED");
      expect((await send("CancelTask", { id })).result.status.state).toBe("TASK_STATE_CANCELED");
      const ended = await asking("m2");
      await send("SendMessage", said("m3", [{ text: "yes" }], { taskId: ended.id }));
      await send("SendMessage", said("m4", [{ data: { amount: 5 } }], { taskId: ended.id }));
      expect((await send("GetTask", { id: ended.id, historyLength: 0 })).result).toMatchObject({
        status: { state: "TASK_STATE_COMPLETED" },
        artifacts: [{ name: "Refund of A1" }, { artifactId: "result" }],
      });
      expect((await send("CancelTask", { id: ended.id })).reason).toBe("TASK_NOT_CANCELABLE");
    },
  ],
  [
    "3.1.4",
    "tasks are listed by their state, and by the time of their last change",
    async ({ send, asking }) => {
      const [one, two] = [await asking("m1"), await asking("m2")];
      await send("CancelTask", { id: one.id });
      await expect
        .poll(async () => (await send("GetTask", { id: one.id })).result.status.state)
        .toBe("TASK_STATE_CANCELED");
      const idsOf = async (filter: object) =>
        (await send("ListTasks", filter)).result.tasks.map(({ id }: { id: string }) => id);
      expect(await idsOf({ status: "TASK_STATE_CANCELED" })).toEqual([one.id]);
      expect(await idsOf({ status: "TASK_STATE_INPUT_REQUIRED" })).toEqual([two.id]);
      expect(await idsOf({ status: "TASK_STATE_REJECTED" })).toEqual([]);
      const { timestamp } = (await send("GetTask", { id: one.id })).result.status;
      expect(await idsOf({ statusTimestampAfter: timestamp })).toEqual([one.id]);
      for (const wrong of [{ pageSize: 101 }, { pageSize: 0 }, { status: "RUNNING" }, { historyLength: -1 }])
        expect((await send("ListTasks", wrong)).reason, JSON.stringify(wrong)).toBe("INVALID_PARAMS");
    },
  ],
  [
    "3.1.4",
    "tasks are listed by context, without artifacts unless asked for, with a token even on the last page",
    async ({ send, asking }) => {
      const first = await asking("m1", "context-a");
      await asking("m2", "context-b");
      const { result } = await send("ListTasks", { contextId: "context-a" });
      expect(result.tasks.map(({ id }: { id: string }) => id)).toEqual([first.id]);
      expect(result).toMatchObject({ nextPageToken: "", totalSize: 1, pageSize: 50 });
      expect(result.tasks[0]).not.toHaveProperty("artifacts");
      expect((await send("ListTasks", { contextId: "context-c" })).result).toMatchObject({
        ...{ tasks: [], nextPageToken: "", totalSize: 0 },
      });
    },
  ],
  [
    "3.1.4",
    "a page repeats nothing where another task starts meanwhile, and the newest is first",
    async ({ send, asking }) => {
      const ids: string[] = [];
      for (const name of ["m1", "m2", "m3"]) ids.push((await asking(name)).id);
      const idsOf = ({ result }: Answered) => result.tasks.map(({ id }: { id: string }) => id);
      const page = await send("ListTasks", { pageSize: 2 });
      await asking("m4");
      const next = await send("ListTasks", { pageSize: 2, pageToken: page.result.nextPageToken });
      expect([...idsOf(page), ...idsOf(next)]).toEqual(ids.reverse());
      expect((await send("ListTasks", { pageToken: "2" })).reason).toBe("INVALID_PARAMS");
    },
  ],
  [
    "3.1.6",
    "a subscription starts with the task, continues over questions, and ends with the task",
    async ({ server, binding, send, asking }) => {
      const { id } = await asking();
      const states: string[] = [];
      await follow(server, binding, {
        ...{ method: "SubscribeToTask", params: { id } },
        seen: async (event) => {
          if (states.length === 0) expect(event).toHaveProperty("task");
          const status = event.task?.status ?? event.statusUpdate?.status;
          if (!status) return;
          states.push(status.state);
          const asked = status.message?.parts[0].text;
          if (asked === "Refund A1?") void send("SendMessage", said("m2", [{ text: "yes" }], { taskId: id }));
          if (asked === "How much?")
            void send("SendMessage", said("m3", [{ data: { amount: 5 } }], { taskId: id }));
        },
      });
      expect(states[0]).toBe("TASK_STATE_INPUT_REQUIRED");
      expect(states.filter((state) => state === "TASK_STATE_INPUT_REQUIRED").length).toBeGreaterThan(1);
      expect(states.at(-1)).toBe("TASK_STATE_COMPLETED");
      expect((await send("SubscribeToTask", { id })).reason).toBe("UNSUPPORTED_OPERATION");
    },
  ],
  [
    "3.1.7, 4.3.3",
    "push notifications have the questions and the artifacts",
    async ({ send, asking }) => {
      const got: Answered["result"][] = [];
      const url = await listen(
        createServer(async (request, response) => {
          let text = "";
          for await (const part of request) text += part;
          got.push(JSON.parse(text));
          response.writeHead(204).end();
        }),
      );
      const { id } = await asking();
      await send("CreateTaskPushNotificationConfig", { taskId: id, url });
      await send("SendMessage", said("m2", [{ text: "yes" }], { taskId: id }));
      await send("SendMessage", said("m3", [{ data: { amount: 5 } }], { taskId: id }));
      await expect.poll(() => got.at(-1)?.statusUpdate?.status.state).toBe("TASK_STATE_COMPLETED");
      const asked = got.find(({ statusUpdate }) => /INPUT_REQUIRED/.test(statusUpdate?.status.state));
      expect(asked.statusUpdate.status.message.parts).toMatchObject([
        { text: "How much?" },
        { data: { case: "Refund of A1", schema: { required: ["amount"] } } },
      ]);
      const artifacts = got.flatMap(({ artifactUpdate }) =>
        artifactUpdate ? [artifactUpdate.artifact] : [],
      );
      expect(artifacts).toMatchObject([
        { name: "Refund of A1", parts: [{ data: { second: { amount: 5 } } }] },
        { artifactId: "result", parts: [{ data: { message: "Refunded 5" } }] },
      ]);
    },
  ],
  [
    "3.1.7 to 3.1.9",
    "push notification configs are kept over a crash and all listed, and what does not exist is not found",
    async ({ server, send, asking }) => {
      const { id } = await asking();
      const urls = ["https://example.com/a", "https://example.com/b"];
      for (const url of urls) await send("CreateTaskPushNotificationConfig", { taskId: id, url });
      await server.crash();
      const { configs } = (await send("ListTaskPushNotificationConfigs", { taskId: id })).result;
      expect(configs.map(({ url }: { url: string }) => url).sort()).toEqual(urls);
      const [first] = configs as { id: string; url: string }[];
      const found = await send("GetTaskPushNotificationConfig", { taskId: id, id: first!.id });
      expect(found.result).toMatchObject({ id: first!.id, taskId: id, url: first!.url });
      const nothing = { taskId: id, id: "nothing" };
      expect((await send("GetTaskPushNotificationConfig", nothing)).reason).toBe("TASK_NOT_FOUND");
      for (const method of ["Create", "Get", "Delete"].map((verb) => `${verb}TaskPushNotificationConfig`)) {
        const given = { taskId: "nothing", id: "c1", url: urls[0]! };
        expect((await send(method, given)).reason, method).toBe("TASK_NOT_FOUND");
      }
      expect((await send("CreateTaskPushNotificationConfig", { taskId: id })).reason).toBe("INVALID_PARAMS");
    },
  ],
  [
    "3.1.10",
    "a push notification config can be deleted twice",
    async ({ send, asking }) => {
      const { id } = await asking();
      const config = { taskId: id, id: "c1" };
      await send("CreateTaskPushNotificationConfig", { ...config, url: "https://example.com/hook" });
      for (const time of [1, 2])
        expect((await send("DeleteTaskPushNotificationConfig", config)).code, String(time)).toBeUndefined();
      expect((await send("GetTaskPushNotificationConfig", config)).reason).toBe("TASK_NOT_FOUND");
    },
  ],
  [
    "3.2.2",
    "a message returns immediately where it is to, and else waits until the task asks something",
    async ({ send }) => {
      const given = said("m1", [{ text: "A1" }]);
      const configuration = { returnImmediately: true };
      const soon = await send("SendMessage", { ...given, configuration });
      expect(soon.result.task.id).toBeTruthy();
      expect((await send("SendMessage", given)).result.task.status.state).toBe("TASK_STATE_INPUT_REQUIRED");
    },
  ],
  [
    "3.3.2",
    "a task that does not exist, and one of another agent, are not found in all methods",
    async ({ server, binding, send, asking }) => {
      const { id } = await asking();
      const methods = ["GetTask", "CancelTask", "SubscribeToTask"];
      for (const method of methods) {
        expect(await send(method, { id: "nothing" }), method).toMatchObject({ reason: "TASK_NOT_FOUND" });
        const other = await call(server, binding, method, { id }, { agent: "writer" });
        expect(other.reason, method).toBe("TASK_NOT_FOUND");
      }
      const message = said("m9", [{ text: "yes" }], { taskId: "nothing" });
      expect((await send("SendMessage", message)).reason).toBe("TASK_NOT_FOUND");
    },
  ],
  [
    "3.3.2",
    "a message without id or parts is refused",
    async ({ send }) => {
      for (const message of [
        { role: "ROLE_USER", parts: [{ text: "A1" }] },
        { messageId: "m1", parts: [] },
      ])
        expect((await send("SendMessage", { message })).reason).toBe("INVALID_PARAMS");
      expect((await send("ListTasks", {})).result.totalSize).toBe(0);
    },
  ],
  [
    "3.3.4",
    "the extended card, which the card says does not exist, is an unsupported operation",
    async ({ send }) => {
      expect((await send("GetExtendedAgentCard")).reason).toBe("UNSUPPORTED_OPERATION");
    },
  ],
  [
    "3.4.1, 3.4.2",
    "each task has an id and, unless its message names one, a context of its own, which its response names",
    async ({ asking }) => {
      const tasks = [await asking("m1"), await asking("m2"), await asking("m1")];
      expect(tasks.every(({ id, contextId }) => id !== "" && contextId !== "")).toBe(true);
      expect(new Set(tasks.map(({ id }) => id)).size).toBe(2);
      expect(new Set(tasks.map(({ contextId }) => contextId)).size).toBe(2);
    },
  ],
  [
    "3.4.1, 3.4.3",
    "a task has the context that its message named, infers it, and refuses another one",
    async ({ send, asking }) => {
      const { id, contextId } = await asking("m1", "context-a");
      expect(contextId).toBe("context-a");
      const answer = (more: object) => said("m2", [{ text: "yes" }], { taskId: id, ...more });
      const wrong = await send("SendMessage", answer({ contextId: "another" }));
      expect(wrong.reason).toBe("INVALID_PARAMS");
      expect((await send("GetTask", { id })).result.status.message.parts[0].text).toBe("Refund A1?");
      expect((await send("SendMessage", answer({}))).result.task.contextId).toBe("context-a");
    },
  ],
  [
    "3.5.2",
    "all streams of a task have the same events in the same order, and one that is closed closes no other",
    async ({ server, binding, send, asking }) => {
      const { id } = await asking();
      const open = { count: 0 };
      const subscribe = (leaves: boolean) => {
        let isFirst = true;
        return follow(server, binding, {
          ...{ method: "SubscribeToTask", params: { id } },
          seen: () => {
            if (isFirst) open.count++;
            isFirst = false;
            return leaves;
          },
        });
      };
      const [left, ...streams] = [subscribe(true), subscribe(false), subscribe(false)];
      await expect.poll(() => open.count).toBe(3);
      expect(await left).toHaveLength(1);
      await send("SendMessage", said("m2", [{ text: "yes" }], { taskId: id }));
      await send("SendMessage", said("m3", [{ data: { amount: 5 } }], { taskId: id }));
      const [one, two] = await Promise.all(streams);
      expect(one).toEqual(two);
      expect(one!.at(-1).statusUpdate.status.state).toBe("TASK_STATE_COMPLETED");
    },
  ],
  [
    "5.4, 9.5, 11.6",
    "errors have their code, their status and an ErrorInfo",
    async ({ binding, send, asking }) => {
      const { id } = await asking();
      await send("CancelTask", { id });
      const ended = await asking("m2");
      await send("SendMessage", said("m3", [{ text: "yes" }], { taskId: ended.id }));
      await send("SendMessage", said("m4", [{ data: { amount: 5 } }], { taskId: ended.id }));
      const picture = [{ raw: "iVBORw0KGgo=", mediaType: "image/png" }];
      const rows: [string, number, number, Promise<Answered>][] = [
        ["TASK_NOT_FOUND", -32001, 404, send("GetTask", { id: "nothing" })],
        ["TASK_NOT_CANCELABLE", -32002, 400, send("CancelTask", { id: ended.id })],
        ["UNSUPPORTED_OPERATION", -32004, 400, send("GetExtendedAgentCard")],
        ["CONTENT_TYPE_NOT_SUPPORTED", -32005, 400, send("SendMessage", said("m5", picture))],
        ["VERSION_NOT_SUPPORTED", -32009, 400, send("ListTasks", {}, { "a2a-version": "9.9" })],
        ["INVALID_PARAMS", -32602, 400, send("SendMessage", said("m6", []))],
      ];
      for (const [reason, code, status, answer] of rows) {
        const { result: _result, message, ...answered } = await answer;
        expect(answered).toMatchObject({
          ...{ reason, type: "type.googleapis.com/google.rpc.ErrorInfo" },
          ...(binding === "JSONRPC" ? { code, status: 200 } : { code: status, status }),
        });
        expect(message, reason).toBeTruthy();
      }
    },
  ],
  [
    "5.5 to 5.7",
    "members have the names, states and times of ProtoJSON; unknown ones are ignored, missing ones refused",
    async ({ send }) => {
      const given = said("m1", [{ text: "A1", futureMember: 1 }], { futureMember: { a: 1 } });
      const { task } = (await send("SendMessage", { ...given, futureMember: "x" })).result;
      expect(task.status.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      expect(task.status.message).toMatchObject({ role: "ROLE_AGENT", taskId: task.id });
      // What a schema of a question has in it is the agent's.
      const { parts: _parts, ...message } = task.status.message;
      const all = JSON.stringify({ ...task, status: { ...task.status, message }, metadata: {} });
      expect([...all.matchAll(/"([a-z]+_[a-z_]+)":/g)].map(([, name]) => name)).toEqual([]);
      const missing = { messageId: "m2", parts: [{ text: "A1" }] };
      expect((await send("SendMessage", { message: missing })).reason).toBe("INVALID_PARAMS");
      expect((await send("SendMessage", {})).reason).toBe("INVALID_PARAMS");
    },
  ],
  [
    "3.3.2, 7.4, 13.1",
    "a caller without the right is refused, and finds nothing of what another one has started",
    async ({ server, binding }) => {
      const as = (key: string, method: string, params: object = {}) =>
        call(server, binding, method, params as Record<string, unknown>, { key });
      const started = (await as(OWNER, "SendMessage", said("m1", [{ text: "A1" }]))).result.task;
      const { id } = started;
      const config = { taskId: id, id: "c1", url: "https://example.com/hook" };
      await as(OWNER, "CreateTaskPushNotificationConfig", config);
      const methods: [string, object][] = [
        ["GetTask", { id }],
        ["SubscribeToTask", { id }],
        ["CancelTask", { id }],
        ["SendMessage", said("m2", [{ text: "yes" }], { taskId: id })],
        ["SendStreamingMessage", said("m3", [{ text: "yes" }], { taskId: id })],
        ["CreateTaskPushNotificationConfig", config],
        ["GetTaskPushNotificationConfig", config],
        ["ListTaskPushNotificationConfigs", { taskId: id }],
        ["DeleteTaskPushNotificationConfig", config],
      ];
      for (const [method, params] of methods)
        expect((await as(OTHER, method, params)).reason, method).toBe("TASK_NOT_FOUND");
      expect((await as(OTHER, "ListTasks", { contextId: started.contextId })).result.totalSize).toBe(0);
      expect((await as(OTHER, "ListTasks")).result.totalSize).toBe(0);
      expect((await as(OWNER, "GetTask", { id })).result.status.state).toBe("TASK_STATE_INPUT_REQUIRED");
      expect(
        (await as(OWNER, "ListTaskPushNotificationConfigs", { taskId: id })).result.configs,
      ).toHaveLength(1);
      const refused = await as(VIEWER, "SendMessage", said("m4", [{ text: "A1" }]));
      expect(refused).toMatchObject({ status: 403, reason: "FORBIDDEN" });
    },
  ],
  [
    "5.2, 8.3, 9.1, 11.1",
    "the card has what it must, and each interface that it names answers, in the media types of its binding",
    async ({ server, binding }) => {
      const card = (await (await server.request("/a2a/refunds/.well-known/agent-card.json")).json()) as {
        supportedInterfaces: { url: string; protocolBinding: string; protocolVersion: string }[];
      };
      for (const name of ["name", "description", "version", "capabilities", "skills", "defaultInputModes"])
        expect(card, name).toHaveProperty(name);
      const own = card.supportedInterfaces.find(({ protocolBinding }) => protocolBinding === binding)!;
      expect(own.protocolVersion).toBe("1.0");
      const headers = { "a2a-version": "1.0", "x-api-key": server.key, "content-type": "application/json" };
      const listed = await (binding === "JSONRPC"
        ? fetch(own.url, {
            ...{ method: "POST", headers },
            body: JSON.stringify({ jsonrpc: "2.0", id: "mine", method: "ListTasks", params: {} }),
          })
        : fetch(`${own.url}/tasks`, { headers }));
      expect(listed.headers.get("content-type")).toMatch(/^application\/(a2a\+)?json\b/);
      expect(await listed.json()).toMatchObject(
        binding === "JSONRPC" ? { jsonrpc: "2.0", id: "mine", result: { tasks: [] } } : { tasks: [] },
      );
      const stream = await server.request(
        binding === "JSONRPC" ? "/a2a/refunds" : "/a2a/refunds/message:stream",
        {
          headers: { "a2a-version": "1.0" },
          json:
            binding === "JSONRPC"
              ? {
                  jsonrpc: "2.0",
                  id: 1,
                  method: "SendStreamingMessage",
                  params: said("m1", [{ text: "A1" }]),
                }
              : said("m1", [{ text: "A1" }]),
        },
      );
      expect(stream.headers.get("content-type")).toMatch(/^text\/event-stream\b/);
      expect(await stream.text()).toContain("TASK_STATE_INPUT_REQUIRED");
    },
  ],
  [
    "3.6.2",
    "a version that is not supported, or none, is refused by every method, and patch numbers do not count",
    async ({ server, binding, send }) => {
      for (const version of ["9.9", "0.3", ""])
        for (const method of ["ListTasks", "SendMessage", "GetExtendedAgentCard"])
          expect((await send(method, said("m1", []), { "a2a-version": version })).reason, version).toBe(
            "VERSION_NOT_SUPPORTED",
          );
      expect((await send("ListTasks", {}, { "a2a-version": "1.0.7" })).result).toBeDefined();
      if (binding === "JSONRPC") return;
      const asked = await server.request("/a2a/refunds/tasks?A2A-Version=1.0");
      expect(asked.status).toBe(200);
    },
  ],
  [
    "7.4",
    "a request without a key is refused in the form of the binding",
    async ({ server, binding }) => {
      const refused = await server.request(binding === "JSONRPC" ? "/a2a/refunds" : "/a2a/refunds/tasks", {
        key: null,
        ...(binding === "JSONRPC" && { json: { jsonrpc: "2.0", id: 1, method: "ListTasks" } }),
      });
      expect(refused.status).toBe(401);
      expect(refused.headers.get("www-authenticate")).toMatch(/^Bearer /);
      const { error } = (await refused.json()) as { error: { code: number; message: string } };
      expect(error).toMatchObject({ code: binding === "JSONRPC" ? -32000 : 401 });
    },
  ],
];

it.each(BINDINGS.flatMap((binding) => REQUIREMENTS.map(([...row]) => [binding, ...row] as const)))(
  "%s, %s: %s",
  async (binding, _section, _rule, check) => {
    await using server = await open();
    const send: Call = (method, params = {}, headers = {}) =>
      call(server, binding, method, params as Record<string, unknown>, { headers });
    const asking: Given["asking"] = async (messageId = "m1", contextId = "") => {
      const { result } = await send("SendMessage", said(messageId, [{ text: "A1" }], { contextId }));
      return result.task;
    };
    await check({ server, binding, send, asking });
  },
);

it.each([
  ["no JSON", "{", "application/json", 400, -32700],
  ["no request", '{"jsonrpc":"1.0"}', "application/json", 400, -32600],
  ["parameters that are a list", '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}', "", 200, -32602],
  [
    "a method that does not exist",
    '{"jsonrpc":"2.0","id":1,"method":"Nothing","params":{}}',
    "",
    200,
    -32601,
  ],
  ["another media type", "<a/>", "text/xml", 415, -32000],
])("9.5: %s is an error of JSON-RPC", async (_, body, type, status, code) => {
  await using server = await open();
  const response = await server.request("/a2a/refunds", {
    method: "POST",
    headers: { "content-type": type || "application/a2a+json", "a2a-version": "1.0" },
    body,
  });
  expect(response.status).toBe(status);
  expect(await response.json()).toMatchObject({ jsonrpc: "2.0", error: { code } });
});

it.each([
  ["no JSON", "{", "application/json", 400, "INVALID_ARGUMENT", "INVALID_REQUEST"],
  ["another media type", "<a/>", "text/xml", 415, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED"],
  ["a long body", "long", "application/json", 413, "INVALID_ARGUMENT", "PAYLOAD_TOO_LARGE"],
])("11.6: %s is an error of REST", async (_, body, type, code, status, reason) => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a()], bodyLimit: 1000 });
  const response = await server.request("/a2a/refunds/message:send", {
    method: "POST",
    headers: { "content-type": type, "a2a-version": "1.0" },
    body: body === "long" ? JSON.stringify("x".repeat(2000)) : body,
  });
  expect(response.status).toBe(code);
  expect(await response.json()).toMatchObject({ error: { code, status, details: [{ reason }] } });
});

it("8.2, 8.6: the card of the only agent is at the root, may be kept, and is not sent again unchanged", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a({ publicCards: true })] });
  const path = "/.well-known/agent-card.json";
  const first = await server.request(path, { key: null });
  const etag = first.headers.get("etag")!;
  expect(await first.json()).toMatchObject({ name: "Refunds", capabilities: { streaming: true } });
  expect(first.headers.get("cache-control")).toBe("public, max-age=300");
  const again = await server.request(path, { key: null, headers: { "if-none-match": etag } });
  expect([again.status, await again.text()]).toEqual([304, ""]);
  const own = await server.request(`/a2a/refunds${path}`, { headers: { "if-none-match": '"other"' } });
  expect([own.status, own.headers.get("etag")]).toEqual([200, etag]);
});

it("among several agents, the root has the card of the one that is named", async () => {
  const agents = [refunds, writer];
  await using without = await testServer({ agents, plugins: [a2a()] });
  await using named = await testServer({ agents, plugins: [a2a({ main: "writer" })] });

  expect((await without.request("/.well-known/agent-card.json")).status).toBe(404);
  expect(await (await named.request("/.well-known/agent-card.json")).json()).toMatchObject({
    name: "Writer",
  });
  await expect(testServer({ agents, plugins: [a2a({ main: "nobody" })] })).rejects.toThrow(/"nobody"/);
});

it("a message whose task takes long begins its response, and has the whole result", async () => {
  let finish = (): void => {};
  const slow = defineAgent({
    name: "Slow",
    version: "1.0.0",
    methods: {
      job_start: {
        run: ({ job }) =>
          job.step(
            "work",
            () =>
              new Promise<string>((resolve) => {
                finish = () => resolve("done at last");
              }),
          ),
      },
    },
  });
  await using server = await testServer({ agents: [slow], plugins: [a2a()] });

  const response = await server.request("/a2a/slow/message:send", {
    json: said("m1", [{ data: {} }]),
    headers: { "a2a-version": "1.0" },
  });
  expect(response.status).toBe(200);
  finish();

  expect(await response.json()).toMatchObject({
    task: { status: { state: "TASK_STATE_COMPLETED" }, artifacts: [{ parts: [{ text: "done at last" }] }] },
  });
});
