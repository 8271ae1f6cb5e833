import { crashTest, testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { agent } from "../src/agent.ts";

const fields = { texts: ["To be, or not to be", "Hello"] };
const answers = { keep: { keep: false } };

// Each test starts a service: on a busy machine that takes a while.
it("omits the long texts that a person does not keep", async () => {
  await using server = await testServer({ agents: [agent] });

  const { result } = await server.run(agent, { fields, answers });

  expect(result).toMatchObject({ total: 1 });
}, 60_000);

it("ends the same after a crash at any point", async () => {
  await crashTest(agent, { fields, answers });
}, 60_000);
