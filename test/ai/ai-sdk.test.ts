import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent, type JobStartContext } from "agent-control-service";
import { durable, durableTools } from "agent-control-service/ai";
import { CASES, JOBS } from "agent-control-service/plugin";
import { crashTest, type ModelServer, modelServer, testServer } from "agent-control-service/testing";
import { generateText, stepCountIs, streamText, tool } from "ai";
import { afterEach, beforeEach, expect, test } from "vitest";
import { z } from "zod";
import { refundAgent } from "../../examples/refund-agent/agent.ts";
import { createShop, shopModel } from "../../examples/refund-agent/shop.ts";
import type { CallEntry } from "../../src/core/models/run-entry.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";

let model: ModelServer;
beforeEach(async () => {
  model = await modelServer({ reply: shopModel });
});
afterEach(() => model.close());

const small = (server: ModelServer = model) =>
  createOpenAICompatible({ name: "openai", baseURL: server.url, includeUsage: true })("small-model");

/** Approves refunds, except for that of order 13. */
const answers = (question: { question: string }) => ({ approved: !question.question.includes("order 13") });

const REQUEST = "Please refund the orders 12, 13 and 14";
const RESULT =
  "Refunded 120 for order 12 A person has refused this call. It was not made. Refunded 140 for order 14";

test("an agent of the AI SDK looks up orders in parallel, asks about each refund, and takes a refusal", async () => {
  const shop = createShop();
  const agent = refundAgent(model.url, shop);
  await using server = await testServer({ agents: [agent] });

  const { result, job } = await server.run(agent, { fields: { request: REQUEST }, answers });

  expect(result).toEqual({ text: RESULT });
  expect([...shop.refunds.values()]).toEqual(["12: 120", "14: 140"]);
  const log = (await server.service.get(JOBS).log(job.id)).map(({ entry }) => entry as CallEntry);
  const steps = log.filter((entry) => entry.type === "call" && entry.call === "step");
  expect(steps.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "model model",
    ...["tool order", "tool order", "tool order"],
    "model model",
    ...["tool refund", "tool refund"],
    "model model",
  ]);
  expect(steps[0]!.model).toMatchObject({
    ...{ requested: "small-model", name: "small-model", provider: "openai", finish_reason: "tool-calls" },
    ...{ input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
  });
  expect(steps[1]).toMatchObject({ input: { id: "12" }, result: { id: "12", total: 120 } });
  const spent = steps.reduce((sum, { cost = 0 }) => sum + cost, 0);
  expect(spent).toBeGreaterThan(0);
  expect(job.total_cost).toBeCloseTo(spent, 10);
});

test("killed at every recorded line, it pays no model call twice, refunds once, and gives the same result", async () => {
  const shop = createShop();
  const fields = { request: "Please refund the orders 12 and 13" };
  const report = await crashTest(refundAgent(model.url, shop), { fields, answers });

  expect(report.interruptions).toBeGreaterThan(15);
  // Every life made the same three calls, each with the same key: a provider that knows them charges three.
  expect(model.paid.length).toBe(3);
  expect(model.paidTwice).toEqual([]);
  expect([...shop.refunds.values()].toSorted()).toEqual(["12: 120"]);
});

test("a question of a tool waits for days, over restarts, and the calls before it are not made again", async () => {
  const agent = refundAgent(model.url, createShop());
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service, { fields: { request: "Refund 12" } });
  await until(server.service, id, ["awaiting"]);
  const calls = model.paid.length + model.repeated.length;

  await server.crash();
  await server.advance("3d");
  await server.crash();
  await until(server.service, id, ["awaiting"]);
  const [caseId] = (await server.service.get(CASES).list({ where: { job_id: id } })).items;
  await server.request(`/jobs/${id}/cases/${caseId!.id}/update`, { json: { answer: { approved: true } } });

  expect((await until(server.service, id)).result).toEqual({ text: "Refunded 120 for order 12" });
  expect(calls).toBe(2);
  expect(model.paid.length + model.repeated.length).toBe(3);
});

async function runOf(run: (context: JobStartContext) => unknown) {
  await using server = await testServer({ agents: [agentOf(run)] });
  const { id } = await startJob(server.service);
  const job = await until(server.service, id);
  return { job, log: (await server.service.get(JOBS).log(id)).map(({ entry }) => entry) };
}

test("a streamed answer is recorded whole, and reaches code once it is recorded", async () => {
  await using echo = await modelServer();
  const run = async ({ job }: JobStartContext) => {
    const made = streamText({ model: durable(small(echo), job), prompt: "Is bread cheap?" });
    const parts: string[] = [];
    for await (const part of made.textStream) parts.push(part);
    return { parts, usage: (await made.usage).outputTokens };
  };
  const { job, log } = await runOf(run);

  expect(job.result).toEqual({ parts: ["(stand-in) You wrote: Is bread cheap?"], usage: expect.any(Number) });
  const step = log.find((entry) => entry.type === "call") as CallEntry;
  expect(step).toMatchObject({
    kind: "model",
    model: { finish_reason: "stop", first_token_ms: expect.any(Number), output_tokens: expect.any(Number) },
  });
  expect(echo.paid.length).toBe(1);
  await crashTest(defineAgent({ name: "Streams", version: "1.0.0", methods: { job_start: { run } } }));
  // Another job asks the same, with its own key.
  expect(echo.paid.length).toBe(2);
});

test("a refused request waits as long as the provider says, and is not charged", async () => {
  let tries = 0;
  await using busy = await modelServer({
    reply: () => (++tries < 3 ? { error: { status: 429, message: "busy", retryAfter: 0 } } : "At last"),
  });
  const { job, log } = await runOf(async ({ job }) => {
    const { text } = await generateText({
      model: durable(small(busy), job, { estimate: 5, cost: () => 0 }),
      prompt: "Hello",
    });
    return text;
  });

  expect(job).toMatchObject({ result: "At last", total_cost: 0 });
  expect(log.filter(({ type }) => type === "attempt").length).toBe(2);
});

test("an error that does not pass is not tried again, by the SDK neither", async () => {
  let tries = 0;
  await using strict = await modelServer({
    reply: () => {
      tries++;
      return { error: { status: 401, message: "the key was rejected" } };
    },
  });
  const { job } = await runOf(({ job }) =>
    generateText({ model: durable(small(strict), job), prompt: "Hello" }),
  );

  expect(job.error).toContain("the key was rejected");
  expect(tries).toBe(1);
});

test("a tool may make steps and start children itself, and its calls replay in parallel", async () => {
  await using named = await modelServer({
    reply: ({ last }) =>
      last.role === "user"
        ? { toolCalls: ["a", "b", "c"].map((topic) => ({ name: "research", arguments: { topic } })) }
        : "done",
  });
  const researcher = defineAgent({
    name: "Researcher",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [{ name: "topic", field_type: "CharField" }],
        run: ({ job, fields }) => job.step("read", () => `about ${(fields as { topic: string }).topic}`),
      },
    },
  });
  const leader = agentOf(async ({ job }) => {
    const tools = durableTools(job, {
      research: {
        ...tool({
          inputSchema: z.object({ topic: z.string() }),
          execute: async ({ topic }) => {
            const found = await job.step(`note ${topic}`, () => topic.toUpperCase());
            const child = await job.start("researcher", { topic }, { key: topic });
            return `${found} ${String(await child.result())}`;
          },
        }),
        steps: true,
      },
    });
    const { steps } = await generateText({
      model: durable(small(named), job),
      prompt: "Research",
      stopWhen: stepCountIs(3),
      tools,
    });
    return steps[0]!.toolResults.map(({ output }) => output);
  });

  await crashTest(leader, { agents: [researcher] });

  expect(named.paidTwice).toEqual([]);
  await using server = await testServer({ agents: [leader, researcher] });
  const { result } = await server.run(leader);
  expect(result).toEqual(["A about a", "B about b", "C about c"]);
});

test("durable says what it needs, where it is given a model's name", () => {
  expect(() => durable("gpt-5-mini" as never, {} as never)).toThrow(/without a model object/);
});
