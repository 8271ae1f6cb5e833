import { Agent, Runner, setTracingDisabled } from "@openai/agents-core";
import { OpenAIChatCompletionsModel } from "@openai/agents-openai";
import { durable } from "agent-control-service/ai";
import { JOBS } from "agent-control-service/plugin";
import { crashTest, type ModelServer, modelServer, testServer } from "agent-control-service/testing";
import OpenAI from "openai";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createShop, shopModel } from "../../examples/refund-agent/shop.ts";
import { refundOpenai } from "../../examples/refund-openai/agent.ts";
import type { CallEntry } from "../../src/core/models/run-entry.ts";
import { shareOf } from "../_share.ts";
import { agentOf } from "../runs/_agent.ts";

let model: ModelServer;
beforeEach(async () => {
  setTracingDisabled(true);
  model = await modelServer({ reply: shopModel });
});
afterEach(() => model.close());

/** Approves refunds, except for that of order 13. */
const answers = (question: { question: string }) => ({ approved: !question.question.includes('"13"') });
const fields = { request: "Please refund the orders 12 and 13" };
const TEXT = "Refunded 120 for order 12 A person has refused this call. It was not made.";

test("an agent of the OpenAI Agents SDK makes its calls as steps, and asks where a tool needs approval", async () => {
  const agent = refundOpenai(model.url, createShop());
  await using server = await testServer({ agents: [agent] });

  const { result, job } = await server.run(agent, { fields, answers });

  expect(result).toEqual({ text: TEXT });
  const log = (await server.service.get(JOBS).log(job.id)).map(({ entry }) => entry as CallEntry);
  const steps = log.filter((entry) => entry.type === "call" && entry.call === "step");
  expect(steps.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    ...["model model", "tool order", "tool order", "model model", "tool refund", "model model"],
  ]);
  expect(steps[0]!.model).toMatchObject({
    ...{ requested: "small-model", provider: "openai", finish_reason: "tool_calls" },
    ...{ input_tokens: expect.any(Number), output_tokens: expect.any(Number) },
  });
  expect(job.total_cost).toBeGreaterThan(0);
});

test.each(shareOf(["killed at every recorded line"], 2))(
  "%s, it pays no model call twice and gives the same result",
  async () => {
    const shop = createShop();
    const report = await crashTest(refundOpenai(model.url, shop), { fields, answers });

    expect(report.interruptions).toBeGreaterThan(15);
    expect(model.paid.length).toBe(3);
    expect(model.paidTwice).toEqual([]);
    expect([...shop.refunds.values()]).toEqual(["12: 120"]);
  },
);

test("a streamed run of the chat API is recorded whole and replays", async () => {
  await using echo = await modelServer();
  const agent = agentOf(async ({ job }) => {
    const client = new OpenAI({ baseURL: echo.url, apiKey: "none" });
    const talker = new Agent({
      name: "Talker",
      model: durable(new OpenAIChatCompletionsModel(client, "small-model"), job, { model: "small-model" }),
    });
    const run = await new Runner().run(talker, "Hello", { stream: true });
    await run.completed;
    return run.finalOutput;
  });
  await using server = await testServer({ agents: [agent] });

  expect((await server.run(agent)).result).toBe("(stand-in) You wrote: Hello");
  await crashTest(agent);
});
