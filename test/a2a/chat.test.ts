import { defineChat } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { mcp } from "../../src/mcp.ts";
import { connectPlain } from "../mcp/_client.ts";
import { connect, messageOf, send } from "./_client.ts";

const desk = defineChat({
  name: "Refunds",
  version: "1.0.0",
  async reply({ message, turn }) {
    if (!message.startsWith("refund")) return `heard ${message}`;
    const fields = v.object({ approved: v.boolean() });
    const { approved } = await turn.ask("refund", { question: "Refund it?", fields });
    return approved ? "refunded" : "kept";
  },
});

it.each(["JSONRPC", "HTTP+JSON"] as const)(
  "a text to a chat agent is a task that ends with the answer, after its question: %s",
  async (binding) => {
    await using server = await testServer({ agents: [desk], plugins: [a2a()] });
    const client = await connect(server, binding);

    const heard = await send(client, messageOf("m1", [{ text: "hello" }]));
    const asked = await send(client, messageOf("m2", [{ text: "refund 7" }]));
    const done = await send(client, messageOf("m3", [{ text: "yes" }], asked.id));

    expect(JSON.stringify(heard.artifacts)).toContain("heard hello");
    expect([heard.status?.state, done.status?.state]).toEqual([3, 3]);
    expect(JSON.stringify(done.artifacts)).toContain("refunded");
  },
);

it("the tool of a chat agent returns its answer, and leaves no thread open", async () => {
  await using server = await testServer({ agents: [desk], plugins: [mcp()] });
  const client = await connectPlain(server);

  const result = await client.callTool({ name: "refunds", arguments: { message: "hello" } });

  expect(JSON.stringify(result)).toContain("heard hello");
  const jobs = (await (await server.request("/jobs")).json()) as unknown;
  expect(JSON.stringify(jobs)).toContain('"completed"');
});
