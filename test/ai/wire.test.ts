import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { defineAgent } from "agent-control-service";
import { durable } from "agent-control-service/ai";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { streamText } from "ai";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { AttemptEntry, CallEntry } from "../../src/core/models/run-entry.ts";
import { openModel } from "../../src/templates/init-model/src/model.ts";

type Answer = (response: ServerResponse) => void;

const KEY = "sk-of-the-wire-test";
/** What the provider does with the next requests. */
let answers: Answer[];
let asked: { readonly headers: IncomingMessage["headers"]; readonly body: Record<string, unknown> }[];
const provider = createServer(async (request, response) => {
  const body = (await json(request)) as Record<string, unknown>;
  asked.push({ headers: request.headers, body });
  const answer = answers.shift();
  if (answer) answer(response);
  else refuse(500, "nothing more was expected")(response);
});

beforeAll(() => new Promise<void>((resolve) => void provider.listen(0, "127.0.0.1", resolve)));
afterAll(() => new Promise<void>((resolve) => void provider.close(() => resolve())));
beforeEach(() => {
  [answers, asked] = [[], []];
  vi.stubEnv("OPENAI_API_KEY", KEY);
  vi.stubEnv("MODEL_URL", `http://127.0.0.1:${(provider.address() as AddressInfo).port}/v1`);
});
afterEach(() => {
  vi.unstubAllEnvs();
  provider.closeAllConnections();
});

/** An error as OpenAI words it. */
function refuse(status: number, message: string, headers: Record<string, string> = {}): Answer {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers });
    response.end(JSON.stringify({ error: { message, type: "server_error", param: null, code: null } }));
  };
}

interface Stream {
  readonly words: readonly string[];
  /** How the stream ends; all others are no whole answer. */
  readonly end?: "whole" | "cut" | "closed" | "error";
}

/** A streamed answer of a chat completion, in OpenAI's wire format. */
function stream({ words, end = "whole" }: Stream): Answer {
  const head = { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-5-mini-2026" };
  return (response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    const event = (value: unknown) => response.write(`data: ${JSON.stringify(value)}\n\n`);
    const part = (delta: object, finish_reason: string | null = null) =>
      event({ ...head, choices: [{ index: 0, delta, finish_reason }] });
    part({ role: "assistant", content: "" });
    for (const content of words) part({ content });
    if (end === "cut") setTimeout(() => response.destroy(), 20);
    if (end === "error") event({ error: { message: "The server had an error", type: "server_error" } });
    if (end === "whole") {
      part({}, "stop");
      event({ ...head, choices: [], usage: { prompt_tokens: 11, completion_tokens: 5, total_tokens: 16 } });
      response.write("data: [DONE]\n\n");
    }
    if (end !== "cut") response.end();
  };
}

/** A job that streams an answer of the model which `svc init` opens. */
async function ask() {
  const model = await openModel(() => "no stand-in answers where a key is set");
  const agent = defineAgent({
    name: "Assistant",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          const { text } = streamText({
            model: durable(model, job, { backoff: { initial: 1 } }),
            prompt: "Is bread cheap?",
            onError: () => {},
          });
          return { text: await text };
        },
      },
    },
  });
  await using server = await testServer({ agents: [agent] });
  const { job, result } = await server.run(agent);
  const log = (await server.service.get(JOBS).log(job.id)).map(({ entry }) => entry);
  return {
    job,
    result,
    step: log.find((entry): entry is CallEntry => entry.type === "call" && entry.call === "step"),
    attempts: log.filter((entry): entry is AttemptEntry => entry.type === "attempt"),
  };
}

test("a provider's stream is read with its tokens, and the key goes to the provider alone", async () => {
  answers = [stream({ words: ["Bread ", "is ", "cheap."] })];

  const { job, result, step } = await ask();

  expect(result).toEqual({ text: "Bread is cheap." });
  expect(step?.model).toMatchObject({
    ...{ provider: "openai", requested: "gpt-5-mini", finish_reason: "stop" },
    ...{ input_tokens: 11, output_tokens: 5 },
  });
  expect(asked[0]?.headers.authorization).toBe(`Bearer ${KEY}`);
  expect(asked[0]?.body).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  expect(JSON.stringify([job, step])).not.toContain(KEY);
});

test.each([
  ["too many requests", () => refuse(429, "Rate limit reached", { "retry-after": "0" })],
  ["an overloaded provider", () => refuse(529, "Overloaded")],
  [
    "a connection that is cut in the middle of an answer",
    () => stream({ words: ["Bread ", "is "], end: "cut" }),
  ],
  ["an answer without an end", () => stream({ words: ["Bread ", "is "], end: "closed" })],
  ["an error in the middle of an answer", () => stream({ words: ["Bread "], end: "error" })],
])("%s is no answer: the call is made again", async (_what, failure) => {
  answers = [failure(), stream({ words: ["Bread ", "is ", "cheap."] })];

  const { result, attempts } = await ask();

  expect(result).toEqual({ text: "Bread is cheap." });
  expect(attempts).toHaveLength(1);
  expect(asked).toHaveLength(2);
});

test("a request that the provider rejects is not made again", async () => {
  answers = [refuse(400, "This model's maximum context length is 128000 tokens")];

  const { job, step } = await ask();

  expect(job.status).toBe("failed");
  expect(step?.error?.message).toContain("maximum context length");
  expect(asked).toHaveLength(1);
});
