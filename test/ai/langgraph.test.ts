import { JOBS } from "agent-control-service/plugin";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { createShop } from "../../examples/refund-agent/shop.ts";
import { refundGraph } from "../../examples/refund-graph/agent.ts";
import type { CallEntry } from "../../src/core/models/run-entry.ts";

const fields = { request: "Refund 12 and 13" };

test.each([
  [true, "refunded"],
  [false, "refused"],
])(
  "a graph's nodes are steps, and its interrupt is a question; answered with %s",
  async (approved, outcome) => {
    await using model = await modelServer();
    const agent = refundGraph(model.url, createShop());
    await using server = await testServer({ agents: [agent] });
    const answers = { interrupt: { approved } };

    const { result, job } = await server.run(agent, { fields, answers });

    const text = `(stand-in) You wrote: Refund 12 and 13: ${outcome}`;
    expect(result).toEqual({ text, approved, orders: ["12", "13"] });
    const log = (await server.service.get(JOBS).log(job.id)).map(({ entry }) => entry as CallEntry);
    const calls = log.filter(
      (entry) => entry.type === "call" && (entry.call === "step" || entry.call === "ask"),
    );
    expect(calls.map(({ name }) => name).toSorted()).toEqual([
      "approve",
      "approve",
      "find 1",
      "find 2",
      "write",
    ]);
  },
);

test("killed at every recorded line, a graph pays no model call twice and gives the same result", async () => {
  await using model = await modelServer();
  const report = await crashTest(refundGraph(model.url, createShop()), {
    fields,
    answers: { interrupt: { approved: true } },
  });

  expect(report.interruptions).toBeGreaterThan(10);
  expect(model.paid.length).toBe(1);
  expect(model.paidTwice).toEqual([]);
});
