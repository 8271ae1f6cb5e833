import { type Case, defineChat, type Job, NonRetryableError } from "agent-control-service";
import { CASES, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { TurnText } from "../../src/core/conversations/turn-text.ts";
import type { EmittedChunks } from "../../src/core/models/emitted-chunks.ts";
import { greeter } from "../_setup.ts";
import { EventReader } from "./_event-reader.ts";

const calls: string[] = [];

/** Answers with how many messages of people it has seen, word by word. */
const parrot = defineChat({
  name: "Parrot",
  version: "1.0.0",
  async reply({ message, messages, turn }) {
    const seen = messages.filter(({ role }) => role === "user").length;
    if (message.startsWith("refund")) {
      const { approved } = await turn.ask("refund", {
        question: "Refund 5 euros?",
        fields: v.object({ approved: v.boolean() }),
      });
      return approved ? "It is refunded." : "It is not refunded.";
    }
    return turn.step(
      "model",
      ({ emit, attempt }) => {
        calls.push(message);
        const answer = `You said ${message} as number ${seen}. `;
        for (const word of answer.split(/(?<= )/)) {
          emit(word);
          if (message === "flaky" && attempt === 1 && word === "as ") throw new Error("The model hung up");
        }
        if (message === "broken") throw new NonRetryableError("The model is away");
        return answer;
      },
      { retries: 1, backoff: { initial: "1ms" } },
    );
  },
});

let server: TestServer;
let client: OpenAI;
beforeAll(async () => {
  server = await testServer({ agents: [parrot, greeter] });
  client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: server.key, maxRetries: 0 });
});
afterAll(() => server[Symbol.asyncDispose]());

const user = (content: string) => ({ role: "user" as const, content });
const say = (thread_id: string, content: string) =>
  client.chat.completions.create({ model: "parrot", messages: [user(content)], metadata: { thread_id } });
const contentOf = (completion: OpenAI.ChatCompletion) => completion.choices[0]!.message.content;

describe("the official OpenAI client", () => {
  it("lists the agents that people can chat with, and no others", async () => {
    const models = await client.models.list();
    const model = await client.models.retrieve("parrot");

    expect(models.data.map(({ id }) => id)).toEqual(["parrot"]);
    expect(model).toMatchObject({ id: "parrot", object: "model" });
    await expect(client.models.retrieve("greeter")).rejects.toThrow(/no chat agent .*greeter/);
  });

  it("gets an answer to a conversation, which is a job that ends with it", async () => {
    const completion = await client.chat.completions.create({
      model: "parrot",
      temperature: 0.5,
      messages: [
        { role: "system", content: "Be brief" },
        user("one"),
        { role: "assistant", content: "You said one" },
        { role: "user", content: [{ type: "text", text: "two" }] },
      ],
    });

    expect(completion).toMatchObject({ object: "chat.completion", model: "parrot" });
    expect(completion.choices).toMatchObject([{ finish_reason: "stop", message: { role: "assistant" } }]);
    expect(contentOf(completion)).toBe("You said two as number 2. ");
    const { thread_id } = completion as unknown as { thread_id: string };
    await expect.poll(async () => (await server.service.get(JOBS).get(thread_id)).status).toBe("completed");
  });

  it("gets the answer as a stream that is the answer in full, also where an attempt failed in the middle", async () => {
    for (const message of ["hello", "flaky"]) {
      const stream = await client.chat.completions.create({
        model: "parrot",
        messages: [user(message)],
        stream: true,
        stream_options: { include_usage: true },
      });

      const chunks: OpenAI.ChatCompletionChunk[] = [];
      for await (const chunk of stream) chunks.push(chunk);

      const text = chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join("");
      expect(text).toBe(`You said ${message} as number 1. `);
      expect(chunks[0]?.choices[0]?.delta.role).toBe("assistant");
      expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe("stop");
      expect(chunks.at(-1)?.usage).toMatchObject({ total_tokens: 0 });
    }
  });

  it("starts and continues a thread under an id of its choice, which keeps the conversation", async () => {
    const first = await say("thread-1", "one");
    const second = await say("thread-1", "two");

    expect([contentOf(first), contentOf(second)]).toEqual([
      "You said one as number 1. ",
      "You said two as number 2. ",
    ]);
    const job = await server.service.get(JOBS).get("thread-1");
    const { items } = await server.service.get(CASES).list({ where: { job_id: job.id }, sort: "created_at" });
    expect(items.map(({ ref, name, status }) => [ref, name, status])).toEqual([
      ["turn-1", "one", "completed"],
      ["turn-2", "two", "completed"],
    ]);
    expect(items[1]?.final_delivery).toEqual({ message: "two", answer: "You said two as number 2. " });
    await expect(client.chat.completions.create({ model: "greeter", messages: [user("x")] })).rejects.toThrow(
      /no chat agent/,
    );
  });

  it("gets the agent's question as content, and answers it with the next message", async () => {
    const asked = await say("thread-2", "refund please");
    const unclear = await say("thread-2", "yes, but only half of it");
    const answered = await say("thread-2", "Yes.");

    expect(contentOf(asked)).toBe("Refund 5 euros?\n\n(Reply yes or no.)");
    expect(contentOf(unclear)).toBe(
      "Refund 5 euros?\n\nThe reply was not understood as an answer.\n\n(Reply yes or no.)",
    );
    expect(contentOf(answered)).toBe("It is refunded.");
  });

  it("gets an error where the answer fails, and the thread continues", async () => {
    // With another status, the client would send it again.
    await expect(say("thread-3", "broken")).rejects.toMatchObject({
      status: 422,
      message: expect.stringContaining("The model is away"),
    });
    const streamed = await client.chat.completions.create({
      model: "parrot",
      messages: [user("broken")],
      stream: true,
    });
    const read = async () => {
      for await (const _ of streamed);
    };

    await expect(read()).rejects.toThrow(/The model is away/);
    expect(contentOf(await say("thread-3", "and now"))).toBe("You said and now as number 2. ");
  });

  it("gets another id with each answer, and the same one for a stream", async () => {
    const request = (content: string, thread_id?: string) => ({
      ...{ model: "parrot", messages: [user(content)] },
      ...(thread_id !== undefined && { metadata: { thread_id } }),
    });
    const headers = { "idempotency-key": "same-answer" };
    const alone = await client.chat.completions.create(request("a"));
    const first = await client.chat.completions.create(request("b", "ids"));
    const second = await client.chat.completions.create(request("c", "ids"), { headers });
    const streamed = await client.chat.completions.create(
      { ...request("c", "ids"), stream: true },
      { headers },
    );
    const ids = new Set<string>();
    for await (const { id } of streamed) ids.add(id);

    expect(new Set([alone.id, first.id, second.id]).size).toBe(3);
    expect([...ids]).toEqual([second.id]);
    expect(alone.id).toContain((alone as { thread_id?: string }).thread_id!);
  });

  it("is refused with a wrong key, and with what agents do not do", async () => {
    const wrong = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "wrong", maxRetries: 0 });
    const create = (more: object) =>
      client.chat.completions.create({ model: "parrot", messages: [user("x")], ...more });

    await expect(wrong.models.list()).rejects.toMatchObject({ status: 401, code: "invalid_api_key" });
    await expect(client.models.retrieve("nobody")).rejects.toMatchObject({
      ...{ status: 404, code: "model_not_found", type: "invalid_request_error" },
      message: expect.stringContaining("nobody"),
    });
    await expect(create({ n: 2 })).rejects.toThrow(/n must be 1/);
    await expect(create({ messages: [] })).rejects.toThrow(/must have a message/);
    await expect(create({ messages: [{ role: "assistant", content: "x" }] })).rejects.toThrow(/last message/);
    await expect(create({ tools: [{ type: "function", function: { name: "f" } }] })).rejects.toThrow(
      /are not supported/,
    );
    await expect(
      create({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "x" } }] }] }),
    ).rejects.toMatchObject({
      status: 415,
      code: "invalid_request",
      type: "invalid_request_error",
      param: null,
    });
    // As everywhere.
    const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` }, key: null });
    expect((await server.request("/jobs", bearer(server.key))).status).toBe(200);
    expect((await server.request("/jobs", bearer("another-key"))).status).toBe(401);
  });
});

describe("a thread", () => {
  const start = async (id: string, job_fields: object = {}) =>
    server.request("/agents/parrot/jobs", { json: { job_context: { job_id: id }, job_fields } });
  const send = (id: string, json: object) => server.request(`/jobs/${id}/messages`, { json });

  it("takes each message once, and streams the answer with the case of its turn", async () => {
    calls.length = 0;
    await start("native");
    await using reader = new EventReader(await server.request("/jobs/native/stream"));
    const sent = await send("native", { content: "hi", id: "m-1" });
    await send("native", { content: "hi", id: "m-1" });
    const other = await send("native", { content: "else", id: "m-1" });
    await send("native", { content: "bye", id: "m-2" });
    await expect.poll(() => calls).toEqual(["hi", "bye"]);
    await server.request("/agents/parrot/stop", { json: { job_context: { job_id: "native" } } });
    const events = await reader.rest();

    expect([sent.status, other.status]).toEqual([202, 409]);
    expect(await sent.json()).toEqual({ job_id: "native", message_id: "m-1" });
    const chunks = events.filter(({ event }) => event === "chunk").map(({ data }) => data);
    const cases = (await (await server.request("/jobs/native/cases")).json()) as Case[];
    const texts = cases.map(({ id }) =>
      chunks.flatMap(({ case_id, chunks }) => (case_id === id ? (chunks as string[]) : [])).join(""),
    );
    expect(texts).toEqual(["You said hi as number 1. ", "You said bye as number 2. "]);
    expect((await send("native", { content: "still there?" })).status).toBe(409);
  });

  it("that a program has started survives an answer that failed", async () => {
    await start("hurt", { message: "broken" });
    const cases = async () => (await (await server.request("/jobs/hurt/cases")).json()) as Case[];
    await expect.poll(async () => (await cases())[0]?.status).toBe("failed");

    const sent = await send("hurt", { content: "and now" });

    expect(sent.status).toBe(202);
    await expect
      .poll(async () => (await cases())[1]?.final_delivery?.answer)
      .toBe("You said and now as number 2. ");
  });

  it("ends with an answer that failed where its agent says so", async () => {
    const strict = defineChat({
      ...{ name: "Strict", version: "1.0.0", instructions: { stop_on_error: true } },
      reply: () => Promise.reject(new Error("The model is away")),
    });
    await using own = await testServer({ agents: [strict] });
    const official = new OpenAI({ baseURL: `${own.url}/v1`, apiKey: own.key, maxRetries: 0 });
    const request = { model: "strict", messages: [user("hi")], metadata: { thread_id: "strict-1" } };

    await expect(official.chat.completions.create(request)).rejects.toThrow(/The model is away/);

    const job = async () => (await (await own.request("/agents/strict/jobs/strict-1")).json()) as Job;
    await expect.poll(async () => (await job()).status).toBe("failed");
  });

  it("continues after a restart with its history, and asks no model again", async () => {
    calls.length = 0;
    await start("kept", { message: "one" });
    const closed = async () =>
      ((await (await server.request("/jobs/kept/cases")).json()) as Case[]).filter(
        ({ status }) => status === "completed",
      ).length;
    await expect.poll(closed).toBe(1);
    await server.crash();
    await send("kept", { content: "two" });
    await expect.poll(closed).toBe(2);

    expect(calls).toEqual(["one", "two"]);
    const cases = (await (await server.request("/jobs/kept/cases")).json()) as Case[];
    expect(cases.at(-1)?.final_delivery?.answer).toBe("You said two as number 2. ");
  });

  it("that is none takes no messages", async () => {
    await server.request("/agents/greeter/jobs", {
      json: { job_context: { job_id: "greeting" }, job_fields: { name: "Ada" } },
    });

    const refused = await send("greeting", { content: "hi" });
    const unknown = await send("nobody", { content: "hi" });

    expect([refused.status, unknown.status]).toEqual([409, 404]);
    expect((await refused.json()) as { detail: string }).toMatchObject({
      detail: expect.stringContaining("defineChat"),
    });
  });

  it("ends when no message has come for its time", async () => {
    const idle = defineChat({ name: "Idle", version: "1.0.0", idle: "1h", reply: () => "hello" });
    await using own = await testServer({ agents: [idle] });
    await own.request("/agents/idle/jobs", {
      json: { job_context: { job_id: "idle-1" }, job_fields: { message: "hi" } },
    });
    await own.advance("2h");

    const job = async () => (await (await own.request("/jobs/idle-1")).json()) as Job;
    await expect.poll(async () => (await job()).status).toBe("completed");
  });
});

describe("the text of a turn, for a reader that can only append", () => {
  const chunk = (chunks: string[], more: Partial<EmittedChunks> = {}): EmittedChunks => ({
    ...{ type: "chunk", run: 1, name: "model", position: 0, attempt: 1, index: 0, case_id: "c", chunks },
    ...more,
  });
  const read = (chunks: EmittedChunks[], answer: string) => {
    const text = new TurnText();
    return chunks.map((one) => text.add(one)).join("") + text.finish(answer);
  };

  it("is the answer, whatever is emitted", () => {
    const again = { attempt: 2 };
    expect(read([], "Hello")).toBe("Hello");
    expect(read([chunk(["Hel"])], "Hello")).toBe("Hello");
    expect(read([chunk(["Hello "])], "Hello")).toBe("Hello ");
    expect(read([chunk(["Let me see. "]), chunk(["Hello"], { position: 1 })], "Hello")).toBe(
      "Let me see. Hello",
    );
    expect(read([chunk(["Hel"]), chunk(["H"], again), chunk(["ello"], again)], "Hello")).toBe("Hello");
    const over = "\n\n[The answer was started over]\n\n";
    expect(read([chunk(["Hel"]), chunk(["Good"], again)], "Good day")).toBe(`Hel${over}Good day`);
    expect(read([chunk(["lo"], { index: 9, skipped: 9 })], "Hello")).toBe("Hello");
    expect(read([chunk(["H"]), chunk(["lo"], { index: 9, skipped: 8 })], "Hello")).toBe("Hello");
    expect(read([chunk(["J"]), chunk(["lo"], { index: 9, skipped: 8 })], "Hello")).toBe(`J${over}Hello`);
    expect(read([chunk(["<b>"])], "Hello")).toBe("<b>\n\nHello");
  });
});
