import { defineChat } from "agent-control-service";
import { durableTools } from "agent-control-service/ai";
import { CASES, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { tool } from "ai";
import * as v from "valibot";
import { beforeEach, expect, it } from "vitest";
import { z } from "zod";
import { uiChat } from "./_ui-chat.ts";

let calls: string[] = [];
let refunds: number[] = [];
let hold: Promise<void> | undefined;
const desk = defineChat({
  name: "Desk",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    if (message === "broken") throw new Error("The model is away");
    if (message.startsWith("refund")) {
      await turn.step("find", () => ({ order: 7 }), { kind: "tool" });
      const { refund } = durableTools(turn, {
        refund: {
          ...tool({
            inputSchema: z.object({ order: z.number() }),
            execute: ({ order }) => {
              refunds.push(order);
              return "sent";
            },
          }),
          approval: ({ order }: { order: number }) => `Refund order ${order}?`,
        },
      });
      const result = await refund.execute!({ order: 7 }, { toolCallId: "c1", messages: [] });
      return `refund: ${result}`;
    }
    if (message === "where") {
      const { city } = await turn.ask("city", {
        question: "Where?",
        fields: v.object({ city: v.pipe(v.string(), v.minLength(3)) }),
      });
      return `to ${city}`;
    }
    return turn.step("model", async ({ emit }) => {
      calls.push(message);
      const answer = `heard ${messages.length}: ${message}`;
      for (const word of answer.split(/(?<= )/)) {
        emit(word);
        await hold;
      }
      return answer;
    });
  },
});

let server: TestServer;
beforeEach(async () => {
  calls = [];
  refunds = [];
  hold = undefined;
  server = await testServer({ agents: [desk] });
  return () => server[Symbol.asyncDispose]();
});

const open = (id = "t", more: object = {}) => uiChat(server, { agent: "desk", id, ...more });
const ready = (window: ReturnType<typeof uiChat>) => expect.poll(() => window.chat.status).toBe("ready");

it("the messages of a chat are the turns of one thread, with their texts as they come", async () => {
  const window = open();

  expect(await window.say("hello")).toBe("heard 1: hello");
  expect(await window.say("and now")).toBe("heard 3: and now");

  expect(window.chat.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant"]);
  expect((await server.service.get(JOBS).list()).items.map(({ id }) => id)).toEqual(["t"]);
  expect(calls).toEqual(["hello", "and now"]);
});

it("a tool's approval is given in the chat, once, and its calls are parts", async () => {
  const window = open();
  await window.say("refund 7");
  const asked = window.asked()!;
  expect(asked).toMatchObject({ state: "approval-requested", input: { question: "Refund order 7?" } });
  const before = structuredClone(window.chat.messages);

  await window.chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
  await expect.poll(() => window.lastText()).toBe("refund: sent");
  await ready(window);

  const states = window.tools().map(({ toolName, state }) => `${toolName}: ${state}`);
  expect(states).toEqual([
    "find: output-available",
    "approve refund: output-available",
    "refund: output-available",
  ]);
  expect(window.chat.messages).toHaveLength(2);
  // The window that has not heard of it says the same again.
  const again = open("t", { messages: before });
  await again.chat.addToolApprovalResponse({ id: asked.approval!.id, approved: true });
  await expect.poll(() => again.lastText()).toBe("refund: sent");
  const other = open("t", { messages: before });
  await other.chat.addToolApprovalResponse({ id: asked.approval!.id, approved: false });
  await expect.poll(() => other.lastText()).toMatch(/was answered before.*approved: true[\s\S]*refund: sent/);
  expect(refunds).toEqual([7]);
});

it("a refusal reaches the model with its reason, and nothing is done", async () => {
  const window = open();
  await window.say("refund 7");

  await window.chat.addToolApprovalResponse({
    ...{ id: window.asked()!.approval!.id, approved: false, reason: "too late" },
  });

  await expect
    .poll(() => window.lastText())
    .toBe("refund: A person has refused this call: too late. It was not made.");
  expect(window.tools().map(({ state }) => state)).toContain("output-denied");
  expect(refunds).toEqual([]);
});

it("a question with a form is a tool of the client, which is asked again where the answer does not fit", async () => {
  const window = open();
  await window.say("where");
  const asked = window.asked()!;
  expect(asked).toMatchObject({
    ...{ toolName: "city", state: "input-available" },
    input: { question: "Where?", schema: { properties: { city: { type: "string" } } } },
  });
  const { toolCallId } = asked;

  await window.chat.addToolOutput({ tool: "city", toolCallId, output: { city: "X" } });
  await expect.poll(() => (window.asked()?.input as { note?: string })?.note).toMatch(/city/);
  await ready(window);
  await window.chat.addToolOutput({ tool: "city", toolCallId, output: { city: "Rome" } });

  await expect.poll(() => window.lastText()).toBe("to Rome");
  await ready(window);
  expect((await server.service.get(CASES).list()).total).toBe(1);
});

it("a question is answered in words, as the window has shown it", async () => {
  const window = open();
  await window.say("refund 7");

  expect(await window.say("sure, go ahead")).toBe("refund: sent");
  expect(refunds).toEqual([7]);
});

it("a question that was shown several times is answered where it was shown last", async () => {
  const window = open();
  await window.say("refund 7");
  await window.say("perhaps");
  await window.say("perhaps");
  const shown = window.tools().filter(({ state }) => state === "approval-requested");

  await window.chat.addToolApprovalResponse({ id: shown.at(-1)!.approval!.id, approved: true });

  await expect.poll(() => window.lastText()).toBe("refund: sent");
  expect(new Set(window.chat.messages.map(({ id }) => id)).size).toBe(6);
  expect(new Set(shown.map(({ toolCallId }) => toolCallId)).size).toBe(3);
});

it("a request that is sent again gets the first response, also after a crash", async () => {
  const first = await open().say("hello", "m1");
  await open().say("later", "m2");
  await server.crash();

  expect(await open().say("hello", "m1")).toBe(first);
  expect(await open().say("hello", "m1")).toBe(first);
  expect(await open().say("other", "m1")).toMatch(/already exists with different content/);
  expect(calls).toEqual(["hello", "later"]);
});

it("a page that is loaded again resumes the answer from its beginning", async () => {
  let release = (): void => {};
  hold = new Promise((done) => {
    release = done;
  });
  const window = open();
  const saying = window.say("slow", "m1");
  await expect.poll(() => window.lastText()).toBe("heard ");
  const messages = structuredClone(window.chat.messages);
  await window.chat.stop();
  await saying;

  const loaded = open("t", { messages });
  const resuming = loaded.chat.resumeStream();
  await expect.poll(() => loaded.chat.status).toBe("streaming");
  release();
  await resuming;

  expect(loaded.lastText()).toBe("heard 1: slow");
  expect(loaded.chat.messages).toHaveLength(2);
  const idle = open("t", { messages: loaded.chat.messages });
  await idle.chat.resumeStream();
  expect(idle.lastText()).toBe("heard 1: slow");
  expect(calls).toEqual(["slow"]);
});

it("a page that is loaded while the agent asks is shown the question, and what was answered before", async () => {
  const window = open();
  await window.say("refund 7");

  const loaded = open();
  await loaded.chat.resumeStream();
  await loaded.chat.addToolApprovalResponse({ id: loaded.asked()!.approval!.id, approved: true });

  await expect.poll(() => loaded.lastText()).toBe("refund: sent");
});

it("a failed answer is an error of the chat, and not the end of the thread", async () => {
  const window = open();

  expect(await window.say("broken")).toBe("The model is away");
  window.chat.clearError();
  expect(await window.say("still there")).toBe("heard 2: still there");
});

it("a picture that is none is refused by name, and starts nothing", async () => {
  const window = open();
  await window.chat.sendMessage({
    parts: [{ type: "file", mediaType: "image/png", url: "data:image/png;base64,AA==" }],
  });

  expect(window.chat.error?.message).toContain("image/png");
  expect((await server.service.get(JOBS).list()).total).toBe(0);
});

it.each([
  ["a part without its text", [{ type: "text", txt: "hello" }], "The text of part 1 of a message is missing"],
  ["no text", [{ type: "step-start" }], "The last message has no text"],
  ["an empty text", [{ type: "text", text: "" }], "The last message has no text"],
])("a message with %s is refused, and calls no model", async (_, parts, error) => {
  const json = { id: "t", messages: [{ id: "m", role: "user", parts }] };

  const refused = await server.request("/chat/desk", { json });

  expect(refused.status).toBe(422);
  expect(await refused.json()).toMatchObject({ error_type: "invalid_request", error });
  expect(calls).toEqual([]);
  expect(await (await server.request("/jobs")).json()).toEqual([]);
});

it("the stream says its version, and each message has one id", async () => {
  const json = { id: "t", messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "hello" }] }] };
  const [first, again] = [
    await server.request("/chat/desk", { json }),
    await server.request("/chat/desk", { json }),
  ];

  expect(first.headers.get("x-vercel-ai-ui-message-stream")).toBe("v1");
  const texts = [await first.text(), await again.text()];
  expect(texts[0]).toMatch(/data: \[DONE\]\n\n$/);
  expect(texts.map((text) => /"messageId":"([^"]+)"/.exec(text)?.[1])).toEqual(["t-0", "t-0"]);
});
