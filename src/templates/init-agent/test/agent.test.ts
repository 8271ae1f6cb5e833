import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { createAgent } from "../src/agent.ts";
import { standIn } from "../src/stand-in.ts";

const fields = { question: "Are there plums and pears?" };
const model = await modelServer({ reply: standIn });
const agent = createAgent(createOpenAICompatible({ name: "test", baseURL: model.url })("stand-in"));

// Each test starts a service: on a busy machine that takes a while.
it("looks up what the question names", async () => {
  await using server = await testServer({ agents: [agent] });

  const { result } = await server.run(agent, { fields });

  expect(result).toEqual({ message: "(stand-in) In stock: 0 plums, 35 pears." });
}, 60_000);

it("ends the same after a crash at any point", async () => {
  await crashTest(agent, { fields });
}, 60_000);
