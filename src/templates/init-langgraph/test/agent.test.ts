import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { createAgent } from "../src/agent.ts";
import { standIn } from "../src/stand-in.ts";

const fields = { topic: "oats" };
const model = await modelServer({ reply: standIn });
const agent = createAgent(createOpenAICompatible({ name: "test", baseURL: model.url })("stand-in"));

/** Refuses the first text with a remark, and approves the next one. */
function answers({ question }: { readonly question: string }) {
  return question.includes("Shorter!") ? { approved: true } : { approved: false, remark: "Shorter!" };
}

// Each test starts a service: on a busy machine that takes a while.
it("writes until a person approves", async () => {
  await using server = await testServer({ agents: [agent] });

  const { result } = await server.run(agent, { fields, answers });

  expect(result).toEqual({ message: expect.stringMatching(/Shorter! .*facts about oats/) });
}, 60_000);

it("ends the same after a crash at any point", async () => {
  await crashTest(agent, { fields, answers });
}, 60_000);
