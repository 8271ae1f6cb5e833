import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { createAgent } from "../src/agent.ts";
import { standIn } from "../src/stand-in.ts";

const fields = { message: "Hello", once: true };
const model = await modelServer({ reply: standIn });
const agent = createAgent(createOpenAICompatible({ name: "test", baseURL: model.url })("stand-in"));

// Each test starts a service: on a busy machine that takes a while.
it("answers a message", async () => {
  await using server = await testServer({ agents: [agent] });

  const { result } = await server.run(agent, { fields });

  expect(result).toEqual({ message: "Hello", answer: "(stand-in) Your message 1 was: Hello" });
}, 60_000);

it("ends the same after a crash at any point", async () => {
  await crashTest(agent, { fields });
}, 60_000);
