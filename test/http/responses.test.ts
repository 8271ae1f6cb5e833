import { hash } from "node:crypto";
import { createOpenAI } from "@ai-sdk/openai";
import { Agent, Runner, setTracingDisabled } from "@openai/agents-core";
import { OpenAIResponsesModel } from "@openai/agents-openai";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { generateText, type ModelMessage, streamText } from "ai";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createResponder } from "./_responder.ts";

const { responder, calls, refunded } = createResponder();
const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;

let server: TestServer;
let client: OpenAI;
const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
beforeAll(async () => {
  const keys = ["one", "two"].map((name) => ({
    ...{ name, role: "starter" as const, sha256: hash("sha256", keyOf(name), "hex") },
  }));
  server = await testServer({ agents: [responder], access: { keys } });
  client = clientOf(server.key);
});
afterAll(() => server[Symbol.asyncDispose]());

type Request = OpenAI.Responses.ResponseCreateParamsNonStreaming;
const create = (input: Request["input"], more: Partial<Request> = {}, key?: string) =>
  client.responses.create(
    { model: "responder", input, ...more },
    key === undefined ? {} : { headers: { "idempotency-key": key } },
  );
const jobOf = (response: object) => (response as { thread_id: string }).thread_id;
/** What OpenAI's client adds to a response by itself. */
const plain = ({ output_text: _, ...response }: OpenAI.Responses.Response) => response;

describe("OpenAI's client", () => {
  it("gets a response, which is a job that ends with it, and reads it again", async () => {
    const response = await create("hello", { instructions: "Be brief" });

    expect(response.output_text).toBe("You said hello after [system: Be brief]");
    expect(response).toMatchObject({
      object: "response",
      status: "completed",
      model: "responder",
      error: null,
    });
    expect(response.usage).toMatchObject({ total_tokens: 0 });
    expect((await server.service.get(JOBS).get(jobOf(response))).status).toBe("completed");
    expect(plain(await client.responses.retrieve(response.id))).toEqual(plain(response));
  });

  it("gets the same as events, in their order, whose texts are the answer", async () => {
    for (const input of ["hello", "find", "refund 1"]) {
      const stream = client.responses.stream({ model: "responder", input });
      const events: OpenAI.Responses.ResponseStreamEvent[] = [];
      for await (const event of stream) events.push(event);
      const response = await stream.finalResponse();

      const deltas = events.flatMap((event) =>
        event.type === "response.output_text.delta" ? [event.delta] : [],
      );
      expect(deltas.join("")).toBe(response.output_text);
      expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, at) => at));
      const types = events.map(({ type }) => type);
      expect([...new Set(types)]).toEqual([
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        ...(input === "find" ? ["response.mcp_call.completed", "response.output_item.done"] : []),
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        ...(input === "find" ? [] : ["response.output_item.done"]),
        "response.completed",
      ]);
      expect((await client.responses.retrieve(response.id)).output).toMatchObject(
        JSON.parse(JSON.stringify(response.output, (key, value) => (key === "parsed" ? undefined : value))),
      );
    }
  });

  it("sees the calls of the agent's own tools", async () => {
    const { output, output_text } = await create("find");

    expect(output_text).toBe("Found rye.");
    expect(output.map(({ type }) => type)).toEqual(["message", "mcp_call"]);
    expect(output[1]).toMatchObject({
      ...{ name: "lookup", server_label: "responder", status: "completed", error: null },
      ...{ arguments: '{"order":7}', output: '{"found":["rye"]}' },
    });
  });

  it("continues a response, more than once, each time with the messages up to it", async () => {
    const first = await create("one", { instructions: "Be brief" });
    const second = await create("two", { previous_response_id: first.id });
    const other = await create("three", { previous_response_id: first.id });
    const third = await create("four", { previous_response_id: second.id });

    const began = `system: Be brief; user: one; assistant: ${first.output_text}`;
    expect(second.output_text).toBe(`You said two after [${began}]`);
    expect(other.output_text).toBe(`You said three after [${began}]`);
    expect(third.output_text).toBe(
      `You said four after [${began}; user: two; assistant: ${second.output_text}]`,
    );
  });

  it("continues a response that has failed, whose message has no answer", async () => {
    const failed = await create("broken", { background: true });
    await expect.poll(async () => (await client.responses.retrieve(failed.id)).status).toBe("failed");

    const next = await create("again", { previous_response_id: failed.id });

    expect(next.output_text).toBe("You said again after [user: broken]");
  });

  it("continues a conversation, which is a thread that other clients continue, too", async () => {
    const first = await create("one", { conversation: "c-1" });
    const second = await create("two", { conversation: { id: "c-1" } });
    const { choices } = await client.chat.completions.create({
      ...{
        model: "responder",
        messages: [{ role: "user", content: "three" }],
        metadata: { thread_id: "c-1" },
      },
    });
    const branch = await create("four", { previous_response_id: first.id });

    const began = `user: one; assistant: ${first.output_text}`;
    expect(second.output_text).toBe(`You said two after [${began}]`);
    expect(second.conversation).toEqual({ id: "c-1" });
    expect(choices[0]?.message.content).toBe(
      `You said three after [${began}; user: two; assistant: ${second.output_text}]`,
    );
    expect(branch.output_text).toBe(`You said four after [${began}]`);
    expect(branch.conversation).toBeNull();
    expect(plain(await client.responses.retrieve(second.id))).toEqual(plain(second));
  });

  it("answers a question in words, by the response that asks, by its history, and in a conversation", async () => {
    refunded.length = 0;
    const asked = await create("refund 1");
    const unclear = await create("only half of it", { previous_response_id: asked.id });
    const answered = await create("Sure, go ahead.", { previous_response_id: unclear.id });
    const other = await create("refund 2");
    const byHistory = await create([
      { role: "user", content: "refund 2" },
      { role: "assistant", content: other.output_text },
      { role: "user", content: "no thanks" },
    ]);
    await create("refund 3", { conversation: "c-2" });
    const inThread = await create("yes", { conversation: "c-2" });

    expect(asked.output_text).toMatch(/^Refund 5 euros\?\n\n\(Reply yes or no\. #[0-9a-f]{16}\)$/);
    expect(unclear.output_text).toContain("The reply was not understood as an answer.");
    expect([answered, byHistory, inThread].map(({ output_text }) => output_text)).toEqual([
      "It is refunded.",
      "It is not refunded.",
      "It is refunded.",
    ]);
    expect(refunded).toEqual(["refund 1", "refund 3"]);
    expect(jobOf(answered)).toBe(jobOf(asked));
    for (const response of [asked, unclear, answered, inThread])
      expect(plain(await client.responses.retrieve(response.id))).toEqual(plain(response));
  });

  it("gets the first response for a request that it sends again, also after a crash", async () => {
    calls.length = 0;
    refunded.length = 0;
    const all = async () => {
      const first = await create("one", {}, "r-1");
      const asked = await create("refund 9", { previous_response_id: first.id }, "r-2");
      const paid = await create("yes", { previous_response_id: asked.id }, "r-3");
      const thread = await create("one", { conversation: "c-3" }, "r-4");
      const waits = await create("refund 10", { conversation: "c-3" }, "r-5");
      const streamed = client.responses.stream(
        { model: "responder", input: "yes", conversation: "c-3" },
        { headers: { "idempotency-key": "r-6" } },
      );
      return [first, asked, paid, thread, waits, await streamed.finalResponse()].map(plain);
    };

    const first = await all();
    expect(await all()).toEqual(first);
    await server.crash();
    client = clientOf(server.key);
    expect(await all()).toEqual(first);

    expect(calls).toEqual(["one", "one"]);
    expect(refunded).toEqual(["refund 9", "refund 10"]);
    await expect(create("other", {}, "r-1")).rejects.toMatchObject({ status: 409 });
    await expect(create("no", { conversation: "c-3" }, "r-5")).rejects.toMatchObject({ status: 409 });
  });

  it("does not answer a question with the message that has led to it, sent again without a key", async () => {
    refunded.length = 0;
    const first = await create("refund 12", { conversation: "c-5" });
    const again = await create("refund 12", { conversation: "c-5" });

    expect(first.output_text).toContain("Refund 5 euros?");
    expect(again.output_text).toContain("This is what was said before the question.");
    expect(refunded).toEqual([]);
  });

  it("reads a response in the background until it is complete", async () => {
    const started = await create("wait", { background: true });
    const still = await client.responses.retrieve(started.id);
    await expect(create("next", { previous_response_id: started.id })).rejects.toThrow(/is not complete/);
    await server.request("/events/resume.it", { json: {} });

    expect([started.status, still.status, started.output]).toEqual(["in_progress", "in_progress", []]);
    await expect
      .poll(async () => (await client.responses.retrieve(started.id)).output_text)
      .toBe("You said wait after []");
    const streamed = await client.responses.retrieve(started.id, { stream: true });
    const types: string[] = [];
    for await (const { type } of streamed) types.push(type);
    expect(types.at(-1)).toBe("response.completed");
  });

  it("gets an error where the answer fails, whole and as a stream", async () => {
    const failed = { status: 422, message: expect.stringContaining("The model is away") };
    await expect(create("broken")).rejects.toMatchObject(failed);
    const read = async () => {
      for await (const _ of await client.responses.create({
        ...{ model: "responder", input: "broken", stream: true },
      }));
    };
    await expect(read()).rejects.toThrow(/The model is away/);
  });

  it("deletes a response with its job, and none that is part of a conversation", async () => {
    const response = await create("hello");
    const part = await create("hello", { conversation: "c-4" });
    await client.responses.delete(response.id);

    await expect(client.responses.retrieve(response.id)).rejects.toMatchObject({ status: 404 });
    await expect(create("x", { previous_response_id: response.id })).rejects.toMatchObject({ status: 404 });
    expect((await server.request(`/jobs/${jobOf(response)}`)).status).toBe(404);
    await expect(client.responses.delete(part.id)).rejects.toThrow(/part of the conversation "c-4"/);
  });

  it("does not find a response that it has not stored", async () => {
    const response = await create("hello", { store: false }, "not-stored");

    expect(response).toMatchObject({ store: false, output_text: "You said hello after []" });
    await expect(client.responses.retrieve(response.id)).rejects.toMatchObject({ status: 404 });
    expect(await create("hello", { store: false }, "not-stored")).toEqual(response);
  });

  it("is refused by name what agents do not do", async () => {
    const refused = async (more: object, why: RegExp, status = 400) =>
      expect(create("x", more as Partial<Request>)).rejects.toMatchObject({
        ...{ status, message: expect.stringMatching(why) },
      });
    const tool = { type: "function", name: "f", parameters: {}, strict: false };

    await refused({ tools: [tool] }, /tools are not supported/);
    await refused({ text: { format: { type: "json_object" } } }, /text\.format\.type must be "text"/);
    await refused({ prompt: { id: "p" } }, /prompt is not supported/);
    await refused({ background: true, store: false }, /background needs store/);
    await refused({ previous_response_id: "resp_x", conversation: "c" }, /exclude each other/);
    await refused({ input: [] }, /must have a message/);
    await refused({ input: [{ role: "assistant", content: "x" }] }, /last message/);
    const item = { type: "item_reference", id: (await create("hello")).output[0]!.id };
    await refused({ input: [item, item, { role: "user", content: "x" }] }, /refers to the item \S+ twice/);
    await refused({ input: [{ type: "computer_call_output", call_id: "c" }] }, /must be a message/);
    const image = [{ type: "input_image", image_url: "x" }];
    await refused({ input: [{ role: "user", content: image }] }, /is at a URL, and is not fetched/, 415);
    const video = [{ type: "input_video", video: "x" }];
    await refused({ input: [{ role: "user", content: video }] }, /only text, images, audio and files/);
    await expect(create("x", { previous_response_id: "resp_none" })).rejects.toMatchObject({ status: 404 });
    await expect(create("x", { model: "nobody" })).rejects.toMatchObject({ code: "model_not_found" });
  });

  it("gets the name of a route that is not offered, in the form that it reads", async () => {
    const { id } = await create("ok");
    const named = (what: RegExp) => ({
      ...{ status: 404, type: "invalid_request_error", code: "not_found" },
      message: expect.stringMatching(what),
    });

    await expect(client.conversations.create({})).rejects.toMatchObject(
      named(/POST \/v1\/conversations is not offered/),
    );
    await expect(client.responses.inputItems.list(id)).rejects.toMatchObject(
      named(/input_items is not offered/),
    );
    await expect(client.responses.cancel(id)).rejects.toMatchObject(named(/cancel is not offered/));
    await expect(client.embeddings.create({ model: "m", input: "x" })).rejects.toMatchObject(
      named(/\/v1\/embeddings is not offered/),
    );
    expect(await (await server.request("/v2/conversations")).json()).toMatchObject({ error: "Not found" });
  });

  it("finds nothing of what another starter has said", async () => {
    const one = clientOf(keyOf("one"));
    const two = clientOf(keyOf("two"));
    const secret = await one.responses.create({ model: "responder", input: "secret" });
    const asked = await one.responses.create({ model: "responder", input: "refund 11" });
    const item = secret.output[0]!.id!;
    const ask = (more: object) => two.responses.create({ model: "responder", input: "yes", ...more });
    const reference = { type: "item_reference" as const, id: item };
    const stolen = await ask({
      input: [
        { role: "assistant", content: asked.output_text },
        { role: "user", content: "yes" },
      ],
    });

    expect((await one.responses.retrieve(secret.id)).output_text).toContain("secret");
    for (const attempt of [
      () => two.responses.retrieve(secret.id),
      () => ask({ previous_response_id: secret.id }),
      () => ask({ previous_response_id: asked.id }),
      () => ask({ input: [reference, { role: "user", content: "x" }] }),
    ])
      await expect(attempt()).rejects.toMatchObject({ status: 404 });
    await expect(two.responses.delete(secret.id)).rejects.toMatchObject({ status: 403 });
    expect(jobOf(stolen)).not.toBe(jobOf(asked));
    expect(refunded).not.toContain("refund 11");
  });
});

describe("a history with calls of tools, from another model", () => {
  const told =
    'user: weather?; assistant: Called weather({"city":"Rome"}): 18 degrees; assistant: It is warm.';

  it("is accepted as a response's input", async () => {
    const response = await create([
      { role: "user", content: "weather?" },
      { type: "reasoning", id: "rs_1", summary: [] },
      { type: "function_call", call_id: "c1", name: "weather", arguments: '{"city":"Rome"}' },
      { type: "function_call_output", call_id: "c1", output: "18 degrees" },
      { role: "assistant", content: "It is warm." },
      { role: "user", content: "thanks" },
    ]);

    expect(response.output_text).toBe(`You said thanks after [${told}]`);
  });

  it("has the output of a call once, however often the call's id comes", async () => {
    const call = { type: "function_call" as const, call_id: "c1", name: "weather", arguments: "{}" };
    const output = "much ".repeat(1000);
    const response = await create([
      ...Array.from({ length: 200 }, () => call),
      { type: "function_call_output", call_id: "c1", output },
      { role: "user", content: "thanks" },
    ]);

    expect(response.output_text.split("Called weather").length - 1).toBe(200);
    expect(response.output_text.split(output).length - 1).toBe(1);
  });

  it("is accepted as the messages of a chat completion", async () => {
    const weather = { name: "weather", arguments: '{"city":"Rome"}' };
    const { choices } = await client.chat.completions.create({
      model: "responder",
      messages: [
        { role: "user", content: "weather?" },
        { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: weather }] },
        { role: "tool", tool_call_id: "c1", content: "18 degrees" },
        { role: "assistant", content: "It is warm." },
        { role: "user", content: "thanks" },
      ],
    });

    expect(choices[0]?.message.content).toBe(`You said thanks after [${told}]`);
  });
});

it.each(["json_object", "json_schema"])(
  "a chat completion in the form %s is refused by name",
  async (type) => {
    const response_format = { type, json_schema: { name: "x", schema: {} } } as never;
    await expect(
      client.chat.completions.create({
        ...{ model: "responder", messages: [{ role: "user", content: "x" }], response_format },
      }),
    ).rejects.toMatchObject({
      status: 400,
      message: expect.stringMatching(/response_format\.type must be "text"/),
    });
  },
);

describe("the AI SDK's provider for OpenAI, as it is", () => {
  const model = () => createOpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key })("responder");

  it("talks, with its history, a tool of the agent and a question", async () => {
    refunded.length = 0;
    const messages: ModelMessage[] = [];
    const say = async (content: string) => {
      messages.push({ role: "user", content });
      const { text, response } = await generateText({ model: model(), messages, maxRetries: 0 });
      messages.push(...response.messages);
      return text;
    };

    const first = await say("hello");
    const found = await say("find");
    const second = await say("and now");
    const asked = await say("refund 4");
    const answered = await say("yes please");

    expect(first).toBe("You said hello after []");
    expect(second).toBe(
      `You said and now after [user: hello; assistant: ${first}; user: find; assistant: ${found}]`,
    );
    expect([found, asked.split("\n")[0], answered]).toEqual([
      "Found rye.",
      "Refund 5 euros?",
      "It is refunded.",
    ]);
    expect(refunded).toEqual(["refund 4"]);
  });

  it("streams, and has the message of an error", async () => {
    const { textStream } = streamText({ model: model(), prompt: "hello" });
    let text = "";
    for await (const part of textStream) text += part;
    const errors: unknown[] = [];
    const onError = ({ error }: { error: unknown }) => void errors.push(error);
    for await (const _ of streamText({ model: model(), prompt: "broken", maxRetries: 0, onError })
      .textStream);

    expect(text).toBe("You said hello after []");
    expect(errors).toMatchObject([{ message: expect.stringContaining("The model is away") }]);
    await expect(generateText({ model: model(), prompt: "broken", maxRetries: 0 })).rejects.toThrow(
      /The model is away/,
    );
  });
});

describe("OpenAI's Agents SDK", () => {
  setTracingDisabled(true);
  const agent = () =>
    new Agent({
      name: "Front",
      instructions: "Be brief",
      model: new OpenAIResponsesModel(client, "responder"),
    });
  const runner = new Runner();

  it("runs an agent of the service as its model, with a history, by the last response and as a stream", async () => {
    const first = await runner.run(agent(), "find");
    const second = await runner.run(agent(), [...first.history, { role: "user", content: "and now" }]);
    const third = await runner.run(agent(), "bye", { previousResponseId: second.lastResponseId! });
    const streamed = await runner.run(agent(), "hello", { stream: true });
    let text = "";
    for await (const part of streamed.toTextStream()) text += part;

    expect(first.finalOutput).toBe("Found rye.");
    expect(second.finalOutput).toBe(
      "You said and now after [system: Be brief; user: find; assistant: Found rye.]",
    );
    expect(third.finalOutput).toContain(`assistant: ${second.finalOutput}]`);
    expect([text, streamed.finalOutput]).toEqual([
      "You said hello after [system: Be brief]",
      "You said hello after [system: Be brief]",
    ]);
    await expect(runner.run(agent(), "broken")).rejects.toThrow(/The model is away/);
  });
});
