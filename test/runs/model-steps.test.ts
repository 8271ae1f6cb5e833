import type { JobInstructions, JobStartContext } from "agent-control-service";
import { prices } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { readAnswer } from "../../src/core/agents/model-answer.ts";
import { readModelUses } from "../../src/core/entities/model-uses.ts";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import { agentOf } from "./_agent.ts";
import { NO_LIMITS, startJob, until } from "./_jobs.ts";

const REQUEST = { model: "small", messages: [{ role: "user", content: "Is bread cheap?" }] };
const cost = prices({ small: { input: 1000, output: 5000, cached: 100 } });

const answer = (text: string, prompt_tokens = 10, completion_tokens = 2) => ({
  id: "chatcmpl-1",
  model: "small-2026-01-01",
  choices: [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: text } }],
  usage: {
    prompt_tokens,
    completion_tokens,
    prompt_tokens_details: { cached_tokens: Math.min(4, prompt_tokens) },
  },
});

async function runOf(
  run: (context: JobStartContext) => unknown,
  instructions: Partial<JobInstructions> = {},
) {
  await using server = await testServer({ agents: [agentOf(run)] });
  const { id } = await startJob(server.service, {
    context: { job_instructions: { ...NO_LIMITS, ...instructions } },
  });
  const job = await until(server.service, id);
  const entries = (await server.service.get(JOBS).log(id)).map(({ entry }) => entry);
  const uses = await readModelUses(server.service.get(STORE), "2000-01-01");
  return { job, entries, uses };
}

const named = (entries: readonly RunEntry[], type: string) => entries.filter((entry) => entry.type === type);

test("a call of a model is recorded with its request, its answer, its tokens and what it cost", async () => {
  const { job, entries, uses } = await runOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    const { choices } = await item.model("triage", REQUEST, () => answer("Yes"), {
      provider: "openai",
      cost,
    });
    await item.close({ text: choices[0]!.message.content });
  });

  expect(job).toMatchObject({ status: "completed", total_cost: 0.0164 });
  expect(entries.find((entry) => entry.type === "call" && entry.call === "step")).toMatchObject({
    kind: "model",
    name: "triage",
    input: REQUEST,
    result: answer("Yes"),
    cost: 0.0164,
    model: {
      requested: "small",
      name: "small-2026-01-01",
      provider: "openai",
      input_tokens: 10,
      output_tokens: 2,
      cached_tokens: 4,
      finish_reason: "stop",
      response_id: "chatcmpl-1",
    },
  });
  expect(uses).toEqual([
    {
      day: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      agent: "worker",
      model: "small-2026-01-01",
      ...{ calls: 1, failed: 0, input_tokens: 10, output_tokens: 2, cached_tokens: 4, reasoning_tokens: 0 },
      cost: 0.0164,
    },
  ]);
});

test("what a failed attempt used counts, and a request that the provider refused costs nothing", async () => {
  const { job, entries, uses } = await runOf(({ job }) =>
    job.model(
      "flaky",
      REQUEST,
      (_, { attempt, report }) => {
        if (attempt === 1) throw Object.assign(new Error("Too many requests"), { status: 429 });
        if (attempt === 2) {
          report({ usage: { inputTokens: 10, outputTokens: 1 } });
          throw new Error("The answer is no JSON");
        }
        if (attempt === 3) throw new Error("socket hang up");
        return answer("Yes");
      },
      { cost, estimate: 0.5, retries: 3, backoff: { initial: "1ms" } },
    ),
  );

  const tries = named(entries, "attempt") as { cost?: number; model?: unknown; kind?: string }[];
  expect(tries.map((entry) => entry.cost)).toEqual([undefined, 0.015, 0.5]);
  expect(tries[1]).toMatchObject({ kind: "model", model: { requested: "small", output_tokens: 1 } });
  expect(job.total_cost).toBe(0.5314);
  const sum = uses.reduce((total, use) => total + use.cost, 0);
  expect(sum).toBeCloseTo(0.5314, 10);
  expect(uses.reduce((total, use) => total + use.calls, 0)).toBe(4);
  expect(uses.reduce((total, use) => total + use.failed, 0)).toBe(3);
});

test("a model may have any name, also one with half of a character", async () => {
  const { job, uses } = await runOf(({ job }) =>
    job.model("named", { ...REQUEST, model: "half \ud83d" }, () => answer("Yes"), { cost, estimate: 0.5 }),
  );

  expect(job).toMatchObject({ status: "completed", error: null });
  expect(uses.map(({ calls }) => calls)).toEqual([1]);
});

test("max_cost counts an estimate before a call, and what it cost after it", async () => {
  let calls = 0;
  const { job: refused } = await runOf(
    ({ job }) => job.model("dear", REQUEST, () => answer(`${++calls}`), { cost, estimate: 2 }),
    { max_cost: 1 },
  );
  expect(refused).toMatchObject({ status: "failed", stop_reason: "max_cost", total_cost: 0 });
  expect(calls).toBe(0);

  const { job: ended, entries } = await runOf(
    async ({ job }) => {
      for (let n = 0; n < 5; n++)
        await job.model(`call ${n}`, REQUEST, () => answer("long", 0, 100), { cost, estimate: 0.1 });
    },
    { max_cost: 1.2 },
  );
  // Each costs 0.5: the third exceeds the limit, and is recorded.
  expect(ended).toMatchObject({ status: "failed", stop_reason: "max_cost" });
  expect(ended.error).toContain("over max_cost 1.2");
  expect(named(entries, "call").length).toBe(3);
  expect(ended.total_cost).toBe(named(entries, "call").length * 0.5);
});

test("a job that has exceeded its cost resumes under a higher limit, without repeating a call", async () => {
  let calls = 0;
  const agent = agentOf(async ({ job }) => {
    for (let n = 0; n < 3; n++)
      await job.model(
        `call ${n}`,
        REQUEST,
        () => {
          calls++;
          return answer("x", 0, 100);
        },
        { cost, estimate: 0 },
      );
    return "done";
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service, {
    context: { job_instructions: { ...NO_LIMITS, max_cost: 0.7 } },
  });
  await until(server.service, id, ["failed"]);

  await server.service.get(RUNNER).resume(id, { max_cost: 10 });

  expect(await until(server.service, id, ["completed"])).toMatchObject({ total_cost: 1.5, result: "done" });
  expect(calls).toBe(3);
});

test("a recorded call of a model is answered from the record after a crash", async () => {
  let calls = 0;
  const agent = agentOf(async ({ job }) => {
    const { id } = await job.model("once", REQUEST, () => {
      calls++;
      return answer("Yes");
    });
    await job.sleep("1h");
    return id;
  });
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await expect
    .poll(async () => (await server.service.get(JOBS).log(id)).some(({ entry }) => entry.type === "begun"))
    .toBe(true);

  await server.crash();
  await server.advance("2h");

  expect((await until(server.service, id)).result).toBe("chatcmpl-1");
  expect(calls).toBe(1);
});

test("secrets in a request or an answer are not stored", async () => {
  const secret = "sk-a-very-secret-key-of-a-provider";
  const agent = agentOf(
    async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      await item.model("leaky", { ...REQUEST, user: secret }, () => answer(`the key is ${secret}`));
      await item.close();
    },
    { parameters: [{ name: "KEY", value: secret, is_required: true }] },
  );
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  await until(server.service, id, ["completed"]);

  const log = JSON.stringify(await server.service.get(JOBS).log(id));
  expect(log).not.toContain(secret);
  expect(log).toContain("the key is ");
  expect(JSON.stringify(await server.service.get(CASES).get("a"))).not.toContain(secret);
});

test("what a step is given is recorded whatever it is, and long data in its beginning", async () => {
  const circle: Record<string, unknown> = {};
  circle.self = circle;
  const { entries } = await runOf(async ({ job }) => {
    const input = { text: "x".repeat(100_000), image: new Uint8Array(2000), call: () => 1, big: 7n };
    await job.step("long", () => 1, { kind: "tool", input });
    await job.step("circle", () => 1, { kind: "retrieval", input: circle });
  });

  const [long, round] = named(entries, "call") as { kind: string; input: Record<string, unknown> }[];
  expect(long).toMatchObject({ kind: "tool", input: { image: "(2000 bytes)", big: "7" } });
  expect(String(long!.input.text).length).toBeLessThan(40_000);
  expect(round!.input).toEqual({ unreadable: expect.any(String) });
});

test.each([
  [{ kind: "models" }, /kind models: it must be model, tool, retrieval, person/],
  [{ cost: -1 }, /cost -1/],
])("a step with %j is refused", async (options, problem) => {
  const { job } = await runOf(({ job }) => job.step("odd", () => 1, options as never));

  expect(job.error).toMatch(problem);
});

test("an invalid report fails the attempt", async () => {
  const { job } = await runOf(({ job }) => job.step("odd", ({ report }) => report({ cost: Number.NaN })));

  expect(job.error).toContain("The cost that a step reports is NaN");
});

test.each([
  [
    "the responses API",
    {
      ...{ id: "resp_1", model: "m", status: "completed", output: [] },
      usage: { input_tokens: 5, output_tokens: 3, output_tokens_details: { reasoning_tokens: 2 } },
    },
    { finishReason: "completed", usage: { inputTokens: 5, outputTokens: 3, reasoningTokens: 2 } },
  ],
  [
    "Anthropic, which counts cached tokens apart",
    {
      ...{ id: "msg_1", model: "m", stop_reason: "end_turn", content: [] },
      usage: {
        input_tokens: 5,
        output_tokens: 3,
        cache_read_input_tokens: 7,
        cache_creation_input_tokens: 1,
      },
    },
    {
      finishReason: "end_turn",
      usage: { inputTokens: 13, outputTokens: 3, cachedTokens: 7, cacheWriteTokens: 1 },
    },
  ],
  [
    "the AI SDK",
    {
      finishReason: { unified: "tool-calls", raw: "tool_calls" },
      response: { id: "r", modelId: "m" },
      usage: { inputTokens: { total: 5, cacheRead: 1 }, outputTokens: { total: 3, reasoning: 2 } },
    },
    {
      finishReason: "tool-calls",
      usage: { inputTokens: 5, outputTokens: 3, cachedTokens: 1, reasoningTokens: 2 },
    },
  ],
  ["anything else", "a text", {}],
])("usage is read from answers of %s", (_, given, report) => {
  expect(readAnswer(given)).toMatchObject(report);
});

test("a price is found by a model's name with a provider or a date, and not by a part of another name", () => {
  const list = prices(prices.list);
  const usage = { inputTokens: 1_000_000, outputTokens: 0 };
  const at = (model: string) => list(usage, { model, provider: undefined });

  expect(at("openai/gpt-5-mini-2025-08-07")).toBe(0.25);
  expect(at("claude-haiku-4-5-20251001")).toBe(1);
  expect(at("gpt-5-mini-turbo")).toBeUndefined();
});
