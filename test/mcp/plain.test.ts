import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { mcp } from "../../src/mcp.ts";
import { refunds } from "./_agent.ts";
import { connectPlain } from "./_client.ts";

interface Shown {
  readonly job_id: string;
  readonly status: string;
  readonly questions: readonly { readonly question: string }[];
}

const options = { agents: [refunds], plugins: [mcp({ wait: "1s" })] };

it.each([false, true])(
  "a client without tasks works with four tools (revision of 2026: %s)",
  async (modern) => {
    await using server = await testServer(options);
    const client = await connectPlain(server, { modern });
    const call = async (name: string, args: Record<string, unknown>) => {
      const result = await client.callTool({ name, arguments: args });
      return { ...(result.structuredContent as unknown as Shown), isError: result.isError };
    };

    const { tools } = await client.listTools();
    const started = await call("job_start", { agent: "refunds", fields: { order: "A1" }, wait: 20 });
    const job_id = started.job_id as unknown as string;
    const first = (started as unknown as { questions: { question: string }[] }).questions[0]!;
    const answered = await call("job_answer", {
      job_id,
      question: first.question,
      answer: { approved: true },
    });
    const again = await call("job_answer", { job_id, question: first.question, answer: { approved: true } });
    const other = await call("job_answer", { job_id, question: first.question, answer: { approved: false } });
    const asked = await call("job_status", { job_id, wait: 20 });
    const second = asked.questions[0]!;
    await call("job_answer", { job_id, question: second.question, answer: { amount: 3 } });
    const ended = await call("job_status", { job_id, wait: 20 });
    const direct = await call("refunds", { order: "A2" });
    const cancelled = await call("job_cancel", { job_id: direct.job_id });

    expect(tools.map(({ name }) => name)).toEqual([
      "refunds",
      "job_start",
      "job_status",
      "job_answer",
      "job_cancel",
    ]);
    expect(tools[0]).toMatchObject({
      description: "Pays a customer back",
      inputSchema: {
        type: "object",
        properties: {
          order: { type: "string", description: "Number of the order" },
          lines: { type: "array", items: { type: "object", required: ["sku", "count"] } },
        },
        required: ["order"],
      },
    });
    expect(started).toMatchObject({ status: "awaiting", questions: [{ text: "Refund A1?" }] });
    expect([answered.isError, other.isError]).toEqual([false, true]);
    expect(again).toEqual(answered);
    expect(ended).toMatchObject({ status: "completed", result: { message: "Refunded 3" } });
    expect(direct).toMatchObject({ status: "awaiting", isError: false });
    expect(["cancelling", "cancelled"]).toContain(cancelled.status);
  },
);

it("mistakes are results that a model can read, or errors of the protocol", async () => {
  await using server = await testServer(options);
  const client = await connectPlain(server, { modern: true });
  const call = (name: string, args: Record<string, unknown>) => client.callTool({ name, arguments: args });

  expect(await call("refunds", {})).toMatchObject({
    isError: true,
    content: [{ text: expect.stringContaining("order is required") }],
  });
  expect(await call("job_status", { job_id: "nothing" })).toMatchObject({ isError: true });
  expect(await call("job_start", { agent: "refunds", fields: { order: "A1" }, wait: 999 })).toMatchObject({
    isError: true,
  });
  await expect(call("unknown", {})).rejects.toMatchObject({ code: -32602 });
});

it("requests without the right key, and large ones, do not reach the protocol", async () => {
  await using server = await testServer({ ...options, bodyLimit: 1000 });
  const body = { jsonrpc: "2.0", id: 1, method: "tools/list" };

  for (const key of [null, "wrong"]) {
    expect((await server.request("/mcp", { json: body, key })).status).toBe(401);
  }
  expect((await server.request("/mcp", { json: { ...body, params: "x".repeat(2000) } })).status).toBe(413);
  expect((await server.request("/mcp")).status).toBe(405);
});

it.each([
  ["no JSON", "{", {}, 400, -32700],
  ["no request", '{"jsonrpc":"1.0"}', {}, 400, -32600],
  ["a wrong key", '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', { "x-api-key": "wrong" }, 401, -32000],
])(
  "what does not reach the protocol is an error of JSON-RPC, too: %s",
  async (_, body, headers, status, code) => {
    await using server = await testServer(options);
    const response = await fetch(new URL("/mcp", server.url), {
      ...{ method: "POST", body },
      headers: { "content-type": "application/json", "x-api-key": server.key, ...headers },
    });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code } });
  },
);

it("an agent that does not exist stops the start of the service", async () => {
  await expect(testServer({ ...options, plugins: [mcp({ agents: ["nobody"] })] })).rejects.toThrow(
    'agent "nobody" does not exist; the agents are refunds',
  );
});
