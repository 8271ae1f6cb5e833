// @alone
import * as conventions from "@opentelemetry/semantic-conventions/incubating";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { otlpReceiver, type Span, valueIn } from "./_otlp.ts";

const { spans, metrics } = otlpReceiver();

const ANSWER = {
  ...{ id: "chatcmpl-1", model: "small-2026-01-01" },
  choices: [{ finish_reason: "tool_calls", message: { role: "assistant" } }],
  usage: {
    ...{ prompt_tokens: 10, completion_tokens: 3 },
    prompt_tokens_details: { cached_tokens: 4 },
    completion_tokens_details: { reasoning_tokens: 2 },
  },
};

const agent = agentOf(async ({ job }) => {
  const item = await job.openCase({ id: "a", name: "a" });
  const request = { model: "small", max_tokens: 50, temperature: 0.5, messages: [] };
  const call = (_: unknown, { emit }: { emit: (chunk: unknown) => void }) => {
    emit("Yes");
    return ANSWER;
  };
  await item.model("ask", request, call, { provider: "openai" });
  await item.step("search", () => 1, { kind: "tool", key: "call_1" });
  await item.step("handbook", () => 1, { kind: "retrieval" });
  await item.model("fails", request, () => Promise.reject(new TypeError("no"))).catch(() => {});
  await item.close();
});

const attributesOf = (span: Span): Record<string, unknown> =>
  Object.fromEntries(
    span.attributes
      .filter(({ key }) => /^(gen_ai|error)\./.test(key))
      .map(({ key, value }) => [key, valueIn(value)]),
  );

/** SpanKind of OTLP. */
const INTERNAL = 1;
const CLIENT = 3;

it("spans and metrics of model calls, tools and retrievals follow the published conventions", async () => {
  let page: string;
  {
    await using server = await testServer({ agents: [agent] });
    const { id } = await startJob(server.service);
    await until(server.service, id);
    expect((await server.service.get(JOBS).get(id)).status).toBe("completed");
    page = await (await server.request("/metrics")).text();
  }
  await expect.poll(() => spans.filter(({ name }) => name.startsWith("chat")).length).toBe(2);
  const ofKind = (name: string, kind: number) =>
    spans.filter((span) => span.name === name && span.kind === kind).map(attributesOf);

  const [asked, failed] = ofKind("chat small", CLIENT).toSorted(
    (a, b) => Object.keys(b).length - Object.keys(a).length,
  );
  expect(asked).toEqual({
    "gen_ai.conversation.id": "job-1",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "small",
    "gen_ai.request.max_tokens": 50,
    "gen_ai.request.temperature": 0.5,
    "gen_ai.response.model": "small-2026-01-01",
    "gen_ai.response.id": "chatcmpl-1",
    "gen_ai.response.finish_reasons": ["tool_calls"],
    "gen_ai.response.time_to_first_chunk": expect.any(Number),
    "gen_ai.usage.input_tokens": 10,
    "gen_ai.usage.output_tokens": 3,
    "gen_ai.usage.cache_read.input_tokens": 4,
    "gen_ai.usage.reasoning.output_tokens": 2,
  });
  expect(failed).toMatchObject({ "gen_ai.request.model": "small", "error.type": "TypeError" });
  expect(ofKind("execute_tool search", INTERNAL)).toEqual([
    {
      "gen_ai.conversation.id": "job-1",
      "gen_ai.operation.name": "execute_tool",
      "gen_ai.tool.name": "search",
      "gen_ai.tool.call.id": "call_1",
      "gen_ai.tool.type": "function",
    },
  ]);
  expect(ofKind("retrieval handbook", CLIENT)).toEqual([
    {
      "gen_ai.conversation.id": "job-1",
      "gen_ai.operation.name": "retrieval",
      "gen_ai.data_source.id": "handbook",
    },
  ]);

  // Each name is one of the published ones.
  const keys = spans.flatMap((span) => Object.keys(attributesOf(span)));
  const names = [...metrics.keys()].filter((name) => name.startsWith("gen_ai."));
  expect(names.length).toBe(3);
  expect(Object.values(conventions)).toEqual(expect.arrayContaining([...keys, ...names]));

  const usage = metrics.get("gen_ai.client.token.usage");
  expect(usage?.unit).toBe("{token}");
  const points = usage!.histogram!.dataPoints.map(({ attributes, sum, explicitBounds }) => {
    const named = attributes.map(({ key, value }) => [key, valueIn(value)]);
    return { ...Object.fromEntries(named), sum, first: explicitBounds[0], last: explicitBounds.at(-1) };
  });
  const labels = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "small",
    "gen_ai.response.model": "small-2026-01-01",
    ...{ first: 1, last: 67_108_864 },
  };
  expect(points).toEqual([
    { ...labels, "gen_ai.token.type": "input", sum: 10 },
    { ...labels, "gen_ai.token.type": "output", sum: 3 },
  ]);
  expect(metrics.get("gen_ai.client.operation.duration")?.unit).toBe("s");
  expect(page).toMatch(/gen_ai_client_token_usage_sum\{.*gen_ai_token_type="input"\} 10/);
});
