import { type Case, defineChat } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { mcp } from "../../src/mcp.ts";
import { storeJob } from "../http/_jobs.ts";
import { uiChat } from "../http/_ui-chat.ts";
import { connectPlain } from "../mcp/_client.ts";
import { connect, messageOf, send, shown } from "./_client.ts";

const desk = defineChat({
  name: "Refunds",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    if (message === "broken") throw new Error("The model is away");
    if (!message.startsWith("refund"))
      return turn.step("model", ({ emit }) => {
        for (const word of ["heard ", `${messages.length}: `, message]) emit(word);
        return `heard ${messages.length}: ${message}`;
      });
    const fields = v.object({ approved: v.boolean() });
    const { approved } = await turn.ask("refund", { question: "Refund it?", fields });
    return approved ? "refunded" : "kept";
  },
});

it.each(["JSONRPC", "HTTP+JSON"] as const)(
  "a text to a chat agent is a task that ends with the answer, after its question: %s",
  async (binding) => {
    await using server = await testServer({ agents: [desk], plugins: [a2a()] });
    const client = await connect(server, binding);

    const heard = await send(client, messageOf("m1", [{ text: "hello" }]));
    const asked = await send(client, messageOf("m2", [{ text: "refund 7" }]));
    const done = await send(client, messageOf("m3", [{ text: "yes" }], asked.id));

    expect(JSON.stringify(heard.artifacts)).toContain("heard 1: hello");
    expect([heard.status?.state, done.status?.state]).toEqual([3, 3]);
    expect(JSON.stringify(done.artifacts)).toContain("refunded");
  },
);

it("the tasks of one context are listed however many threads the agent has", async () => {
  await using server = await testServer({ agents: [desk], plugins: [a2a()] });
  const client = await connect(server, "JSONRPC");
  const first = await send(client, { ...messageOf("m1", [{ text: "hello" }]), contextId: "c 1" });
  for (let n = 0; n < 1000; n++) await storeJob(server.service, `t${n}`, "refunds");
  const list = (contextId: string) =>
    client.listTasks({
      ...{ tenant: "", contextId, status: 0, pageToken: "", includeArtifacts: false },
      statusTimestampAfter: undefined,
    });

  expect((await list("c 1")).tasks.map(({ id }) => id)).toEqual([first.id]);
  await expect(list("")).rejects.toThrow(/1001 threads: name a contextId/);
});

describe.each(["JSONRPC", "HTTP+JSON"] as const)("a context of a chat agent is a thread: %s", (binding) => {
  const open = async () => {
    const server = await testServer({ agents: [desk], plugins: [a2a({ allowPrivate: true })] });
    const client = await connect(server, binding);
    const say = (id: string, text: string, contextId: string, taskId = "") =>
      send(client, { ...messageOf(id, [{ text }], taskId), contextId });
    const turns = async (thread: string) =>
      ((await (await server.request(`/jobs/${thread}/cases`)).json()) as Case[]).map(({ name }) => name);
    return { server, client, say, turns, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
  };

  it("later messages with it are its turns, and each is a task of its own", async () => {
    await using world = await open();
    const { client, say, turns } = world;
    const first = await say("m1", "hello", "");
    const second = await say("m2", "and now", first.contextId);

    expect([first, second].map((task) => shown(task).artifacts.Result)).toEqual([
      "heard 1: hello",
      "heard 3: and now",
    ]);
    expect(second.contextId).toBe(first.contextId);
    expect(second.id).not.toBe(first.id);
    expect(await client.getTask({ tenant: "", id: first.id })).toMatchObject({
      ...{ id: first.id, contextId: first.contextId },
    });
    const listed = await client.listTasks({
      ...{ tenant: "", contextId: first.contextId, status: 0, pageToken: "", includeArtifacts: true },
      statusTimestampAfter: undefined,
    });
    expect(listed.tasks.map(({ id }) => id)).toEqual([second.id, first.id]);
    expect(await turns(String(first.metadata?.thread))).toEqual(["hello", "and now"]);
  });

  it("a message that is sent again is the same task, with the same answer, also after a crash", async () => {
    await using world = await open();
    const { server, say, turns } = world;
    const first = await say("m1", "hello", "c 1");
    const asked = await say("m2", "refund 7", "c 1");
    const done = await say("m3", "sure, go ahead", "c 1", asked.id);
    await server.crash();
    const later = await connect(server, binding);
    const again = (id: string, text: string, taskId = "") =>
      send(later, { ...messageOf(id, [{ text }], taskId), contextId: "c 1" });

    expect(await again("m1", "hello")).toEqual(first);
    expect(await again("m2", "refund 7")).toEqual(asked);
    expect(await again("m3", "sure, go ahead", asked.id)).toEqual(done);
    expect([first.contextId, done.contextId]).toEqual(["c 1", "c 1"]);
    expect(shown(done)).toMatchObject({ state: "TASK_STATE_COMPLETED", artifacts: { Result: "refunded" } });
    expect(await turns(String(first.metadata?.thread))).toEqual(["hello", "refund 7"]);
    await expect(again("m4", "more", asked.id)).rejects.toThrow(/has ended/);
    const other = { ...messageOf("m5", [{ text: "more" }], asked.id), contextId: "other" };
    await expect(send(later, other)).rejects.toThrow(/context/);
  });

  it("a question is answered by data or in words, or by its context alone once it was shown", async () => {
    await using world = await open();
    const { client, say } = world;
    const asked = await say("m1", "refund 7", "c");
    const unclear = await say("m2", "perhaps", "c", asked.id);
    const data = { ...messageOf("m3", [{ data: { approved: false } }], asked.id), contextId: "c" };
    const kept = await send(client, data);
    const again = await send(client, data);
    await say("m4", "refund 8", "c");
    const word = await say("m5", "yes please", "c");

    expect(shown(asked)).toMatchObject({
      state: "TASK_STATE_INPUT_REQUIRED",
      says: ["Refund it?", expect.anything()],
    });
    expect([unclear.id, JSON.stringify(shown(unclear).says)]).toEqual([
      asked.id,
      expect.stringContaining("not understood"),
    ]);
    expect(shown(kept).artifacts.Result).toBe("kept");
    expect(again).toEqual(kept);
    expect(shown(word).artifacts.Result).toBe("refunded");
  });

  it("a stream has the task, its text as it comes, and its end; a subscription continues over a question", async () => {
    await using world = await open();
    const { client, say } = world;
    const events = [];
    const message = { ...messageOf("m1", [{ text: "hello" }]), contextId: "c" };
    const request = { tenant: "", message, configuration: undefined, metadata: undefined };
    for await (const { payload } of client.sendMessageStream(request)) events.push(payload!.$case);
    const asked = await say("m2", "refund 7", "c");
    const seen: unknown[] = [];
    const following = (async () => {
      for await (const { payload } of client.resubscribeTask({ tenant: "", id: asked.id }))
        seen.push(payload?.$case === "statusUpdate" ? payload.value.status?.state : payload?.$case);
    })();
    await expect.poll(() => seen).toContain(6);
    await say("m3", "yes", "c", asked.id);
    await following;

    expect(events.slice(0, 2)).toEqual(["task", "artifactUpdate"]);
    expect(events.at(-1)).toBe("statusUpdate");
    expect(seen.at(-1)).toBe(3);
    expect(seen).toContain("artifactUpdate");
  });

  it("a stream of a message that is sent again begins as the first one, and ends with the question that was answered since", async () => {
    await using world = await open();
    const { client, say } = world;
    const streamOf = async () => {
      const message = { ...messageOf("m1", [{ text: "refund 7" }]), contextId: "c" };
      const request = { tenant: "", message, configuration: undefined, metadata: undefined };
      const states: {
        kind: string;
        state?: number | undefined;
        message?: string | undefined;
        task: string;
      }[] = [];
      for await (const { payload } of client.sendMessageStream(request)) {
        if (payload?.$case !== "task" && payload?.$case !== "statusUpdate") continue;
        const { $case: kind, value } = payload;
        const { state, message } = value.status ?? {};
        states.push({
          kind,
          state,
          message: message?.messageId,
          task: "id" in value ? value.id : value.taskId,
        });
      }
      return states;
    };
    const first = await streamOf();
    await say("m2", "yes", "c", first[0]!.task);

    expect(await streamOf()).toEqual(first);
    expect(first.map(({ kind, state }) => [kind, state])).toEqual([
      ["task", 2],
      ["statusUpdate", 6],
    ]);
  });

  it("a failed answer fails the task, and not the context", async () => {
    await using world = await open();
    const { client, say } = world;
    const failed = await say("m1", "broken", "c");

    expect(shown(failed)).toMatchObject({ state: "TASK_STATE_FAILED", says: ["The model is away"] });
    expect(shown(await say("m2", "still there", "c")).artifacts.Result).toBe("heard 2: still there");
    const last = await say("m3", "refund 9", "c");
    await client.cancelTask({ tenant: "", id: last.id, metadata: undefined });
    await expect
      .poll(async () => shown(await client.getTask({ tenant: "", id: last.id })).state)
      .toBe("TASK_STATE_CANCELED");
    await expect(say("m4", "more", "c")).rejects.toThrow(/ended/);
  });
});

it("a thread that began in a chat window is continued as a context, which does not see what it asks unseen", async () => {
  await using server = await testServer({ agents: [desk], plugins: [a2a()] });
  const window = uiChat(server, { agent: "refunds", id: "t" });
  await window.say("refund 7");
  const client = await connect(server);
  const say = (id: string, text: string) => send(client, { ...messageOf(id, [{ text }]), contextId: "t" });

  const unseen = await say("m1", "yes");
  const answered = await say("m2", "yes");

  expect(shown(unseen).state).toBe("TASK_STATE_INPUT_REQUIRED");
  expect(shown(answered).artifacts.Result).toBe("refunded");
  expect(await window.say("thanks")).toBe("heard 3: thanks");
});

it("the tool of a chat agent returns its answer, and leaves no thread open", async () => {
  await using server = await testServer({ agents: [desk], plugins: [mcp()] });
  const client = await connectPlain(server);

  const result = await client.callTool({ name: "refunds", arguments: { message: "hello" } });

  expect(JSON.stringify(result)).toContain("heard 1: hello");
  const jobs = (await (await server.request("/jobs")).json()) as unknown;
  expect(JSON.stringify(jobs)).toContain('"completed"');
});

it("a thread of a chat agent is continued by its tool, and its question answered in words or by job_answer", async () => {
  await using server = await testServer({ agents: [desk], plugins: [mcp()] });
  const client = await connectPlain(server);
  const call = async (args: object, name = "refunds", key?: string) => {
    const _meta = key === undefined ? {} : { _meta: { "agent-control-service/idempotency-key": key } };
    const { structuredContent } = await client.callTool({ name, arguments: { ...args }, ..._meta });
    return structuredContent as Record<string, unknown> & { questions?: { question: string }[] };
  };
  const say = (message: string, key?: string) => call({ message, thread: "a thread" }, "refunds", key);

  const first = await say("hello", "k-1");
  expect(await say("hello", "k-1")).toEqual(first);
  expect(first).toMatchObject({ status: "completed", result: "heard 1: hello" });
  const asked = await say("refund 7", "k-2");
  expect(asked).toMatchObject({ status: "awaiting", questions: [{ text: "Refund it?" }] });
  expect(await say("refund 7", "k-2")).toMatchObject({ status: "awaiting" });
  expect(await say("perhaps")).toMatchObject({
    status: "awaiting",
    message: expect.stringMatching(/not understood/),
  });
  expect(await say("sure, go ahead", "k-3")).toMatchObject({ status: "completed", result: "refunded" });
  expect(await say("sure, go ahead", "k-3")).toMatchObject({ status: "completed", result: "refunded" });
  const { job_id, questions } = await say("refund 8");
  const answer = { job_id, question: questions![0]!.question, answer: { approved: false } };
  expect(await call(answer, "job_answer")).toMatchObject({ status: "completed", result: "kept" });
  expect(await call(answer, "job_answer")).toMatchObject({ status: "completed", result: "kept" });
  expect(await say("broken")).toMatchObject({ status: "failed", error: "The model is away" });

  expect((await server.request(`/jobs/${job_id}/cases`)).headers.get("x-total-count")).toBe("4");
});
