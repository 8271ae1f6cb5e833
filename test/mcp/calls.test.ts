import { hash } from "node:crypto";
import type { Client } from "@modelcontextprotocol/client";
import { defineAgent } from "agent-control-service";
import { definePlugin, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { mcp } from "../../src/mcp.ts";
import { refunds } from "./_agent.ts";
import { connectPlain } from "./_client.ts";

/** Works in steps until it is stopped, or until it may end. */
function worker() {
  const state = { mayEnd: false };
  const agent = defineAgent({
    name: "Worker",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          for (let n = 0; n < 1000; n++) {
            if (await job.step(`part ${n}`, async () => state.mayEnd)) return "worked";
            await job.sleep(0.02);
          }
          throw new Error("nobody let the worker end");
        },
      },
    },
  });
  return { agent, state };
}

async function open() {
  const { agent, state } = worker();
  const server = await testServer({ agents: [agent, refunds], plugins: [mcp({ wait: "60s" })] });
  return { server, state, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

/** The status of the only job, which a call has started. */
async function statusOf(server: TestServer): Promise<string | undefined> {
  const { items } = await server.service.get(JOBS).list();
  return items[0]?.status;
}

const IDEMPOTENCY_KEY = "agent-control-service/idempotency-key";

it.each([false, true])("a cancelled call cancels its job (revision of 2026: %s)", async (modern) => {
  await using given = await open();
  const client = await connectPlain(given.server, { modern });
  const abort = new AbortController();

  const calling = client.callTool({ name: "worker", arguments: {} }, { signal: abort.signal });
  const failed = expect(calling).rejects.toThrow();
  await expect.poll(() => statusOf(given.server)).toBe("in_progress");
  abort.abort();
  await failed;

  await expect.poll(() => statusOf(given.server)).toBe("cancelled");
});

it("a call with a key, whose client loses its connection, continues, and the next one has its result", async () => {
  await using given = await open();
  const client = await connectPlain(given.server, { modern: true });
  const abort = new AbortController();
  const call = { name: "worker", arguments: {}, _meta: { [IDEMPOTENCY_KEY]: "k1" } };

  const failed = expect(client.callTool(call, { signal: abort.signal })).rejects.toThrow();
  await expect.poll(() => statusOf(given.server)).toBe("in_progress");
  abort.abort();
  await failed;
  given.state.mayEnd = true;

  expect(await client.callTool(call)).toMatchObject({ content: [{ text: "worked" }], isError: false });
});

it.each([false, true])(
  "a call with a key that is made again has its first result, whatever has happened to its job since (revision of 2026: %s)",
  async (modern) => {
    await using given = await open();
    const { server } = given;
    const call = (client: Client, key: string, name = "refunds") =>
      client.callTool({
        name,
        arguments:
          name === "refunds"
            ? { order: "A1" }
            : { agent: "refunds", fields: { order: "A2" }, wait: 60, idempotency_key: key },
        _meta: { [IDEMPOTENCY_KEY]: key },
      });
    const client = await connectPlain(server, { modern });
    const first = [await call(client, "k1"), await call(client, "k2", "job_start")];
    const { job_id, questions } = first[0]!.structuredContent as {
      job_id: string;
      questions: { question: string }[];
    };
    const answer = { job_id, question: questions[0]!.question, answer: { approved: true } };
    const answered = await client.callTool({ name: "job_answer", arguments: answer });

    for (const _ of [2, 3]) {
      await server.crash();
      const next = await connectPlain(server, { modern });
      expect([await call(next, "k1"), await call(next, "k2", "job_start")]).toEqual(first);
      expect(await next.callTool({ name: "job_answer", arguments: answer })).toEqual(answered);
      const other = { ...answer, answer: { approved: false } };
      expect(await next.callTool({ name: "job_answer", arguments: other })).toMatchObject({ isError: true });
    }
    expect(first.map(({ structuredContent }) => structuredContent)).toMatchObject([
      { status: "awaiting", questions: [{ text: "Refund A1?" }], cases: [{ status: "awaiting" }] },
      { status: "awaiting", questions: [{ text: "Refund A2?" }] },
    ]);
  },
);

it("the same answer of another caller is no repetition: two keys are not two people", async () => {
  const agent = defineAgent({
    name: "Payer",
    version: "1.0.0",
    methods: {
      job_start: {
        run: async ({ job }) => {
          const item = await job.openCase({ id: "payment", name: "Payment" });
          const fields = v.object({ pay: v.boolean() });
          const { pay } = await item.ask({ question: "Pay?", fields, approvers: 2 });
          await item.close({ pay });
          return pay;
        },
      },
    },
  });
  const keyOf = (name: string) => `svck_test_${name}_${"k".repeat(43)}`;
  const keys = ["one", "two"].map((name) => ({
    ...{ name, role: "operator" as const, sha256: hash("sha256", keyOf(name)) },
  }));
  await using server = await testServer({
    agents: [agent],
    plugins: [mcp({ wait: "60s" })],
    access: { keys },
  });
  const { url } = server;
  const mine = await connectPlain({ url, key: keyOf("one") });
  const { job_id, questions } = (await mine.callTool({ name: "payer", arguments: {} })).structuredContent as {
    job_id: string;
    questions: { question: string }[];
  };
  const call = {
    name: "job_answer",
    arguments: { job_id, question: questions[0]!.question, answer: { pay: true } },
  };

  const first = await mine.callTool(call);
  const again = await mine.callTool(call);
  const waiting = await statusOf(server);
  const last = await (await connectPlain({ url, key: keyOf("two") })).callTool(call);

  expect(first).toMatchObject({ isError: false });
  expect(again).toEqual(first);
  expect(waiting).toBe("awaiting");
  expect(last).toMatchObject({ isError: true });
  expect(await statusOf(server)).toBe("awaiting");
});

it("a message of another session cancels nothing", async () => {
  await using given = await open();
  const client = await connectPlain(given.server);
  const calling = client.callTool({ name: "worker", arguments: {} });
  await expect.poll(() => statusOf(given.server)).toBe("in_progress");

  for (const session of [undefined, "another"])
    for (let requestId = 0; requestId < 5; requestId++)
      await given.server.request("/mcp", {
        json: { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId } },
        headers: session === undefined ? {} : { "mcp-session-id": session },
      });
  given.state.mayEnd = true;

  expect(await calling).toMatchObject({ content: [{ text: "worked" }], isError: false });
});

it.each([false, true])("a call reports its progress (revision of 2026: %s)", async (modern) => {
  await using given = await open();
  const client = await connectPlain(given.server, { modern });
  const heard: { progress: number; message?: string }[] = [];

  const result = await client.callTool(
    { name: "worker", arguments: {} },
    {
      onprogress: (progress) => {
        heard.push(progress);
        if (heard.length === 3) given.state.mayEnd = true;
      },
    },
  );

  expect(result).toMatchObject({ content: [{ text: "worked" }] });
  expect(heard.slice(0, 3).map(({ progress }) => progress)).toEqual([1, 2, 3]);
  expect(heard[0]?.message).toEqual(expect.any(String));
});

it("the end of the service cancels no job whose client waits", async () => {
  const moves: string[] = [];
  const watcher = definePlugin({
    name: "watcher",
    setup: ({ participate }) =>
      void participate((change) => {
        if (change.kind === "job:changed") moves.push(change.job.status);
      }),
  })();
  const { agent } = worker();
  await using server = await testServer({ agents: [agent], plugins: [mcp({ wait: "60s" }), watcher] });
  const client = await connectPlain(server, { modern: true });
  const calling = client.callTool({ name: "worker", arguments: {} }).catch(() => undefined);
  await expect.poll(() => statusOf(server)).toBe("in_progress");

  await server.service.close();
  await calling;

  expect(moves).not.toContain("cancelling");
  expect(moves).not.toContain("cancelled");
});

it("results fit the output schema that their tool has", async () => {
  await using given = await open();
  const client = await connectPlain(given.server);

  const { tools } = await client.listTools();
  expect(tools.every(({ outputSchema }) => outputSchema?.type === "object")).toBe(true);
  // The client checks each against its schema.
  const asked = await client.callTool({ name: "refunds", arguments: { order: "A1" } });
  expect(asked.structuredContent).toMatchObject({ status: "awaiting", questions: [{ text: "Refund A1?" }] });
  const { job_id } = asked.structuredContent as { job_id: string };
  for (const name of ["job_status", "job_cancel"])
    expect((await client.callTool({ name, arguments: { job_id } })).structuredContent).toMatchObject({
      job_id,
    });
});

it("a page of another origin is refused, and one of the service or of an allowed origin is not", async () => {
  await using server = await testServer({
    ...{ agents: [refunds], plugins: [mcp()], allowedOrigins: ["https://app.example.com"] },
  });
  const statusFrom = async (origin: string) => {
    const json = { jsonrpc: "2.0", id: 1, method: "tools/list" };
    const response = await server.request("/mcp", { json, headers: { origin } });
    return response.status === 200
      ? 200
      : [response.status, ((await response.json()) as { error: { code: number } }).error.code];
  };
  const { port } = new URL(server.url);

  for (const own of [new URL(server.url).origin, `http://localhost:${port}`, "https://app.example.com"])
    expect(await statusFrom(own), own).toBe(200);
  for (const other of [
    "http://evil.example.com",
    `http://evil.example.com:${port}`,
    "null",
    "http://localhost:1",
  ])
    expect(await statusFrom(other), other).toEqual([403, -32000]);
});
