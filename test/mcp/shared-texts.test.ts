import { hash } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { a2a } from "../../src/a2a.ts";
import { mcp } from "../../src/mcp.ts";
import { connectPlain } from "./_client.ts";

const methods = { job_start: { run: () => null } };
const refunds = defineAgent({
  ...{ name: "Refunds", version: "1.0.0", methods },
  prompts: [
    {
      ...{ name: "refund", description: "Pay a customer back" },
      arguments: { order: "Number of the order", reason: "What the customer says" },
      text: "Refund {order}: {reason}. Answer as { json }, not {other}.",
    },
  ],
  resources: [
    {
      uri: "docs://policy",
      name: "Policy",
      description: "What we refund",
      content: "Refund what is broken. ä",
    },
    { uri: "docs://logo", name: "Logo", mimeType: "image/png", content: new Uint8Array([1, 2, 3]) },
  ],
});
const keyOf = (name: string) => `svck_${name}_${"x".repeat(43)}`;
const quiet = defineAgent({ name: "Quiet", version: "1.0.0", methods });

it.each([false, true])("what agents declare is listed and read (revision of 2026: %s)", async (modern) => {
  await using server = await testServer({ agents: [refunds, quiet], plugins: [mcp()] });
  const client = await connectPlain(server, { modern });

  expect((await client.listPrompts()).prompts).toEqual([
    {
      name: "refund",
      description: "Pay a customer back",
      arguments: [
        { name: "order", description: "Number of the order", required: true },
        { name: "reason", description: "What the customer says", required: true },
      ],
    },
  ]);
  const given = { order: "{reason} A1", reason: "it is $& broken" };
  expect(await client.getPrompt({ name: "refund", arguments: given })).toMatchObject({
    messages: [
      {
        role: "user",
        content: {
          type: "text",
          text: "Refund {reason} A1: it is $& broken. Answer as { json }, not {other}.",
        },
      },
    ],
  });
  expect((await client.listResources()).resources).toMatchObject([
    { uri: "docs://policy", name: "Policy", description: "What we refund", mimeType: "text/plain", size: 25 },
    { uri: "docs://logo", name: "Logo", mimeType: "image/png", size: 3 },
  ]);
  expect((await client.readResource({ uri: "docs://policy" })).contents).toMatchObject([
    { uri: "docs://policy", mimeType: "text/plain", text: "Refund what is broken. ä" },
  ]);
  expect((await client.readResource({ uri: "docs://logo" })).contents).toMatchObject([{ blob: "AQID" }]);
});

it("what does not exist, lacks an argument or has another one is refused by name", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [mcp()] });
  const client = await connectPlain(server, { modern: true });
  const prompt = (name: string, given: Record<string, string>) =>
    client.getPrompt({ name, arguments: given });

  await expect(prompt("nothing", {})).rejects.toThrow(/no prompt "nothing"/);
  await expect(prompt("refund", { order: "A1" })).rejects.toThrow(/needs reason/);
  await expect(prompt("refund", { order: "A1", reason: "x", oder: "A2" })).rejects.toThrow(/has no oder/);
  await expect(client.readResource({ uri: "docs://nothing" })).rejects.toMatchObject({ code: -32602 });
});

it("a service whose agents declare nothing, and agents that clients do not see, share nothing", async () => {
  await using none = await testServer({ agents: [quiet], plugins: [mcp()] });
  await using hidden = await testServer({ agents: [refunds, quiet], plugins: [mcp({ agents: ["quiet"] })] });

  for (const server of [none, hidden]) {
    const client = await connectPlain(server);
    expect(client.getServerCapabilities()).not.toHaveProperty("prompts");
    expect(client.getServerCapabilities()).not.toHaveProperty("resources");
  }
});

it("a caller who may use one agent reads what that one declares only", async () => {
  await using server = await testServer({
    ...{ agents: [refunds, quiet], plugins: [mcp()] },
    access: {
      keys: [
        { name: "all", role: "starter", sha256: hash("sha256", keyOf("all"), "hex") },
        { name: "one", role: "starter", sha256: hash("sha256", keyOf("one"), "hex"), agents: ["quiet"] },
      ],
    },
  });
  const listed = async (key: string) => {
    const client = await connectPlain({ url: server.url, key });
    const [{ prompts }, { resources }] = await Promise.all([client.listPrompts(), client.listResources()]);
    return [prompts.length, resources.length];
  };

  expect(await listed(keyOf("all"))).toEqual([1, 2]);
  expect(await listed(keyOf("one"))).toEqual([0, 0]);
});

it.each([
  [{ prompts: [{ name: "p", description: "d", text: "{oder}", arguments: { order: "o" } }] }, /no {order}/],
  [{ prompts: [{ name: "p", text: "t" }] }, /prompts\[0\] needs description/],
  [{ prompts: [{ name: "p", description: "d", txt: "t" }] }, /prompts\[0\]\.txt/],
  [{ prompts: {} }, /prompts must be a list/],
  [{ resources: [{ uri: "policy", name: "n", content: "c" }] }, /resources\[0\] needs uri/],
  [{ resources: [{ uri: "docs://a", name: "n", content: 1 }] }, /resources\[0\] needs content/],
])("a declaration that cannot work stops the start: %j", async (wrong, problem) => {
  const agent = defineAgent({ ...{ name: "Wrong", version: "1.0.0", methods }, ...(wrong as object) });
  await expect(testServer({ agents: [agent], plugins: [mcp()] })).rejects.toThrow(problem);
});

it("two agents that declare the same stop the start", async () => {
  const other = defineAgent({ ...refunds, name: "Other" } as never);
  await expect(testServer({ agents: [refunds, other as never], plugins: [mcp()] })).rejects.toThrow(
    /prompt "refund"/,
  );
});

it("cards have the texts of prompts as examples", async () => {
  await using server = await testServer({ agents: [refunds], plugins: [a2a()] });
  const card = (await (await server.request("/a2a/refunds/.well-known/agent-card.json")).json()) as {
    skills: { examples: string[] }[];
  };
  expect(card.skills[0]!.examples).toEqual(["Refund {order}: {reason}. Answer as { json }, not {other}."]);
});
