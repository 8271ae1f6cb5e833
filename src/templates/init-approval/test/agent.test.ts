import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { createAgent } from "../src/agent.ts";
import { standIn } from "../src/stand-in.ts";

const fields = { message: "Refund order 7" };
const model = await modelServer({ reply: standIn });
const agent = createAgent(createOpenAICompatible({ name: "test", baseURL: model.url })("stand-in"));

// Each test starts a service: on a busy machine that takes a while.
it("pays back what a person has approved, and nothing else", async () => {
  await using server = await testServer({ agents: [agent] });

  const yes = await server.run(agent, { fields, answers: { "approve refund": { approved: true } } });
  const no = await server.run(agent, { fields, answers: { "approve refund": { approved: false } } });

  expect(yes.result).toMatchObject({ message: expect.stringContaining("Refunded 70 for order 7") });
  expect(no.result).toMatchObject({ message: expect.not.stringContaining("Refunded") });
}, 60_000);

it("ends the same after a crash at any point", async () => {
  await crashTest(agent, { fields, answers: { "approve refund": { approved: true } } });
}, 60_000);
