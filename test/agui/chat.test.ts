import { HttpAgent, verifyEvents } from "@ag-ui/client";
import { EventSchema } from "@ag-ui/core/schemas";
import { type Case, defineChat } from "agent-control-service";
import { type TestServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import * as v from "valibot";
import { beforeEach, expect, it } from "vitest";
import { agUi } from "../../src/agui.ts";

let calls = 0;
const desk = defineChat({
  name: "Desk",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    if (message === "broken") throw new Error("The model is away");
    if (message.startsWith("refund")) {
      await turn.step("find", () => ({ order: 7 }), { kind: "tool", input: { message } } as object);
      const { approved } = await turn.ask("refund", {
        question: "Refund it?",
        fields: v.object({ approved: v.boolean() }),
      });
      return approved ? "refunded" : "kept";
    }
    return turn.step("model", ({ emit }) => {
      calls++;
      const answer = `heard ${messages.length}: ${message}`;
      for (const word of answer.split(/(?<= )/)) emit(word);
      return answer;
    });
  },
});

let server: TestServer;
beforeEach(async () => {
  calls = 0;
  server = await testServer({ agents: [desk], plugins: [agUi()] });
  return () => server[Symbol.asyncDispose]();
});

type Sent = { readonly type: string } & Record<string, unknown>;

/** A chat window: its client keeps the messages, and its verifier refuses what does not follow the protocol. */
function chat(threadId: string) {
  const url = `${server.url}/ag-ui/desk`;
  const agent = new HttpAgent({ url, threadId, headers: { "X-API-Key": server.key } });
  const run = async (more: object = {}): Promise<Sent[]> => {
    const events: Sent[] = [];
    await agent
      .runAgent(more, { onEvent: ({ event }) => void events.push(event as unknown as Sent) })
      .catch((error: unknown) => {
        if (!events.some(({ type }) => type === "RUN_ERROR")) throw error;
      });
    for (const event of events) expect(EventSchema.safeParse(event).error).toBeUndefined();
    return events;
  };
  const say = (content: string, id: string) => {
    agent.addMessage({ id, role: "user", content });
    return run();
  };
  return { agent, run, say };
}

const textOf = (events: Sent[]) =>
  events.map(({ delta, type }) => (type === "TEXT_MESSAGE_CONTENT" ? delta : "")).join("");
const interruptOf = (events: Sent[]) =>
  (events.at(-1) as never as { outcome: { interrupts: { id: string }[] } }).outcome.interrupts[0]!.id;

it("the messages of a chat window are the turns of one thread, each of them once", async () => {
  expect(verifyEvents).toBeTypeOf("function");
  const window = chat("t");

  const first = await window.say("hello", "m1");
  const second = await window.say("and now", "m2");
  const again = await window.run();

  expect(first.at(-1)).toMatchObject({ type: "RUN_FINISHED", outcome: { type: "success" } });
  expect([textOf(first), textOf(second), textOf(again)]).toEqual([
    "heard 1: hello",
    "heard 3: and now",
    "heard 3: and now",
  ]);
  expect(calls).toBe(2);
});

it("a question is an interrupt, which resume answers once; a tool's call is shown with its result", async () => {
  const window = chat("t");
  const asked = await window.say("refund 7", "m1");
  const resume = [
    { interruptId: interruptOf(asked), status: "resolved" as const, payload: { approved: true } },
  ];
  await server.crash();
  const answered = await chat("t").run({ resume });
  const again = await chat("t").run({ resume });

  expect(asked.filter(({ type }) => type.startsWith("TOOL_CALL_"))).toMatchObject([
    { type: "TOOL_CALL_START", toolCallName: "find" },
    { type: "TOOL_CALL_ARGS", delta: '{"message":"refund 7"}' },
    { type: "TOOL_CALL_END" },
    { type: "TOOL_CALL_RESULT", content: '{"order":7}' },
  ]);
  expect(answered.at(-1)).toMatchObject({ type: "RUN_FINISHED", result: "refunded" });
  expect(again.at(-1)).toMatchObject({ type: "RUN_FINISHED", result: "refunded" });
});

it("a failed answer ends the run, and not the thread", async () => {
  const window = chat("t");

  const failed = await window.say("broken", "m1");
  const next = await chat("t").say("still there", "m2");

  expect(failed.at(-1)).toMatchObject({ type: "RUN_ERROR", message: "The model is away" });
  expect(textOf(next)).toBe("heard 2: still there");
});

it("a thread is continued by a client for OpenAI, which is shown the question before it answers", async () => {
  await chat("t").say("refund 7", "m1");
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
  const say = async (content: string) => {
    const messages = [{ role: "user" as const, content }];
    const { choices } = await client.chat.completions.create({
      ...{ model: "desk", messages, metadata: { thread_id: "t" } },
    });
    return choices[0]!.message.content;
  };

  const texts = [await say("yes"), await say("yes please"), await say("thanks")];
  const cases = (await (await server.request("/jobs/t/cases")).json()) as Case[];

  expect(texts).toEqual(["Refund it?\n\n(Reply yes or no.)", "refunded", "heard 3: thanks"]);
  expect(cases.map(({ name }) => name)).toEqual(["refund 7", "thanks"]);
});

it("a picture without a content is refused, and so is a run without a message", async () => {
  const send = (messages: object[]) =>
    server.request("/ag-ui/desk", { json: { threadId: "t", runId: "r", messages } });
  const picture = await send([{ id: "m", role: "user", content: [{ type: "image", source: {} }] }]);

  expect([picture.status, (await send([])).status]).toEqual([415, 422]);
});
