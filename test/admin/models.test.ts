import { prices } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import type { CallEntry } from "../../src/core/models/run-entry.ts";
import { readAnswer, readMessages } from "../../src/plugins/admin/views/conversation.ts";
import { agentOf } from "../runs/_agent.ts";
import { startJob, until } from "../runs/_jobs.ts";
import { signIn } from "./_sign-in.ts";

const SECRET = "sk-a-very-secret-key-of-a-provider";
const cost = prices({ small: { input: 1000, output: 5000 }, large: { input: 3000, output: 9000 } });

const agent = agentOf(
  async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    for (const [n, model] of ["small", "large", "small"].entries()) {
      const request = {
        model,
        messages: [
          { role: "system", content: "You are <kind>." },
          { role: "user", content: `Is bread ${n} cheap? ${SECRET}` },
        ],
        tools: [{ type: "function", function: { name: "search" } }],
      };
      const tool_calls = [{ id: "c", function: { name: "search", arguments: '{"query":"rye"}' } }];
      const message = { role: "assistant", content: `Answer ${n}`, tool_calls };
      const usage = { prompt_tokens: 10 + n, completion_tokens: 3 };
      const call = (_: unknown, { attempt }: { attempt: number }) => {
        if (n === 1 && attempt === 1) throw new Error("socket hang up");
        return { model, choices: [{ message, finish_reason: "tool_calls" }], usage };
      };
      await item.model(`ask ${n}`, request, call, {
        cost,
        retries: 1,
        backoff: { initial: "1ms" },
        estimate: 0.007,
      });
    }
    await item.step("search", () => ({ found: "rye bread" }), { kind: "tool", input: { query: "rye" } });
    await item.close();
  },
  { parameters: [{ name: "KEY", value: SECRET }] },
);

it("pages show prompt, answer, tools, tokens and cost of a job, without secrets, and sums that match its steps", async () => {
  await using server = await testServer({ agents: [agent] });
  const { id } = await startJob(server.service);
  const { status, total_cost } = await until(server.service, id);
  expect(status).toBe("completed");
  const cookie = await signIn(server);
  const get = (path: string, accept = "text/html") => server.request(path, { headers: { accept, cookie } });

  for (const path of [`/admin/jobs/${id}?tab=calls`, "/admin/cases/a"]) {
    const page = await (await get(path)).text();
    expect(page).toContain("You are &lt;kind&gt;.");
    expect(page).toContain("Is bread 1 cheap?");
    expect(page).toContain("Answer 2");
    expect(page).toMatch(/calls <b>search<\/b>/);
    expect(page).toContain("rye bread");
    expect(page).toContain("small · 10 tokens in, 3 out · tool_calls");
    expect(page).toContain("2 attempts");
    expect(page).not.toContain(SECRET);
  }

  const { items } = (await (await get("/admin/api/models", "application/json")).json()) as {
    items: { day: string; agent: string; model: string; calls: number; failed: number; cost: number }[];
  };
  const log = await server.service.get(JOBS).log(id);
  const entries = log.map(({ entry }) => entry as CallEntry).filter(({ kind }) => kind === "model");
  const spent = entries.reduce((sum, entry) => sum + (entry.cost ?? 0), 0);
  expect(items.map(({ model, calls, failed }) => [model, calls, failed]).toSorted()).toEqual([
    ["large", 2, 1],
    ["small", 2, 0],
  ]);
  const sum = items.reduce((all, item) => all + item.cost, 0);
  expect(sum).toBeCloseTo(spent, 10);
  expect(sum).toBeCloseTo(total_cost, 10);
  for (const model of ["large", "small"]) {
    const ofModel = entries.filter(({ name }) => (name === "ask 1") === (model === "large"));
    const cost = ofModel.reduce((all, entry) => all + (entry.cost ?? 0), 0);
    expect(items.find((item) => item.model === model)?.cost).toBeCloseTo(cost, 10);
  }
  const days = new Set(entries.map(({ at }) => at.slice(0, 10)));
  expect(items.every(({ day, agent }) => agent === "worker" && days.has(day))).toBe(true);

  const page = await (await get("/admin/models")).text();
  for (const name of ["By Model", "By Agent", "By Day", "worker", "large", "small"])
    expect(page).toContain(name);
  const inAll = /<tr><td>All<\/td>.*?<td class="num">(\$[\d.,]+)<\/td><\/tr>/.exec(page)![1]!;
  expect(page).toContain(`aria-label="Cost of calls in the last 30 days: ${inAll}"`);
  const columns = [...page.matchAll(/<g><title>(\d{4}-\d\d-\d\d): ([^<]+)<\/title>/g)];
  expect(columns).toHaveLength(30);
  expect(columns.filter(([, , said]) => said !== "none").map(([, day, said]) => [day, said])).toEqual([
    [[...days][0], inAll],
  ]);
  const today = await (await get("/admin/models?days=1")).text();
  expect(today).toContain("Calls of models of today, UTC, failed attempts included.");
  const [axis] = /<div class="axis"[\s\S]*?<\/div>/.exec(today)!;
  expect(axis.match(/<span>/g)).toHaveLength(1);
});

it.each([
  ["OpenAI", { messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] }],
  ["Anthropic", { messages: [{ role: "user", content: "Hi" }], max_tokens: 5 }],
  ["the responses API", { input: [{ role: "user", content: [{ type: "input_text", text: "Hi" }] }] }],
  ["the AI SDK", { prompt: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] }],
  ["a text", "Hi"],
])("a prompt is read from a request of %s", (_, input) => {
  expect(readMessages(input)).toEqual([{ role: "user", parts: [{ kind: "text", text: "Hi" }] }]);
});

it.each([
  [
    "Anthropic",
    {
      content: [
        { type: "text", text: "Yes" },
        { type: "tool_use", name: "f", input: { a: 1 } },
      ],
    },
  ],
  [
    "the responses API",
    {
      output: [
        { type: "message", role: "assistant", content: [{ type: "output_text", text: "Yes" }] },
        { type: "function_call", name: "f", arguments: '{"a":1}' },
      ],
    },
  ],
  [
    "the AI SDK",
    {
      content: [
        { type: "text", text: "Yes" },
        { type: "tool-call", toolName: "f", input: '{"a":1}' },
      ],
    },
  ],
  [
    "a stream of the AI SDK",
    {
      parts: [
        { type: "text-start", id: "1" },
        { type: "text-delta", id: "1", delta: "Yes" },
        { type: "tool-call", toolName: "f", input: '{"a":1}' },
        { type: "finish", finishReason: "stop" },
      ],
    },
  ],
])("an answer of %s is read as text and calls", (_, result) => {
  expect(readAnswer(result)).toEqual({
    role: "assistant",
    parts: [
      { kind: "text", text: "Yes" },
      { kind: "call", name: "f", given: { a: 1 } },
    ],
  });
});
