// @long
import { Annotation, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { defineAgent } from "agent-control-service";
import { durableNode, runGraph } from "agent-control-service/ai";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { crashTest, modelServer, testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { createShop } from "../../examples/refund-agent/shop.ts";
import { refundGraph } from "../../examples/refund-graph/agent.ts";
import type { CallEntry } from "../../src/core/models/run-entry.ts";
import { shareOf } from "../_share.ts";

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

test.each(shareOf([true, false], 2))(
  "killed at every recorded line, a graph whose question is answered with %s pays no model call twice and gives the same result",
  async (approved) => {
    await using model = await modelServer();
    const report = await crashTest(refundGraph(model.url, createShop()), {
      fields,
      answers: { interrupt: { approved } },
    });

    expect(report.interruptions).toBeGreaterThan(10);
    expect(model.paid.length).toBe(1);
    expect(model.paidTwice).toEqual([]);
  },
);

test("a fork before an interrupt answers it another way, and runs only the nodes after it", async () => {
  await using model = await modelServer();
  const agent = refundGraph(model.url, createShop());
  await using server = await testServer({ agents: [agent] });
  const { job } = await server.run(agent, { fields, answers: { interrupt: { approved: true } } });
  const runner = server.service.get(RUNNER);

  const { id } = await runner.fork(job.id, { from: "ask:interrupt" });
  const open = () => server.service.get(CASES).list({ where: { job_id: id, status: "awaiting" } });
  await expect.poll(async () => (await open()).total).toBe(1);
  const [item] = (await open()).items;
  await runner.answer(id, item!.id, { answer: { approved: false }, message: null });
  const { result } = await runner.ended(id, 60_000);

  const text = "(stand-in) You wrote: Refund 12 and 13: refused";
  expect(result).toEqual({ text, approved: false, orders: ["12", "13"] });
  const ran = (await server.service.get(JOBS).log(id)).map(({ entry }) => entry as CallEntry);
  const write = ran.find(({ type, name }) => type === "call" && name === "write");
  // The state that the node was given.
  expect(write?.input).toMatchObject({ request: "Refund 12 and 13", approved: false });
  expect(model.paid.length).toBe(2);
});

test("killed at every recorded line, a graph continues in one job with the state that it returned before", async () => {
  const State = Annotation.Root({
    said: Annotation<string[]>({ reducer: (all, more) => [...all, ...more], default: () => [] }),
  });
  const graph = new StateGraph(State)
    .addNode(
      "echo",
      durableNode("echo", ({ said }: typeof State.State) => ({ said: [`after ${said.length}`] })),
    )
    .addEdge(START, "echo")
    .compile();
  const seen = new Set<string>();
  const agent = defineAgent({
    name: "Thread",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          let state: typeof State.State = { said: [] };
          for (const word of ["one", "two"])
            state = await runGraph(graph, job, { said: [...state.said, word] });
          seen.add(state.said.join(", "));
          return state.said;
        },
      },
    },
  });

  await crashTest(agent);

  expect([...seen]).toEqual(["one, after 1, two, after 3"]);
});

/** An agent whose graph has three nodes that interrupt at the same time, one of them twice. */
function askingAgent(where: "case" | "job") {
  const done: string[] = [];
  const State = Annotation.Root({
    said: Annotation<string[]>({ reducer: (all, more) => [...all, ...more].toSorted(), default: () => [] }),
  });
  const asking = (name: string, questions: readonly string[]) =>
    durableNode(name, async () => {
      const answers = questions.map((question) => interrupt(question) as string);
      done.push(name);
      return { said: [`${name}: ${answers.join(", ")}`] };
    });
  const graph = new StateGraph(State)
    .addNode("one", asking("one", ["First?"]))
    .addNode("two", asking("two", ["Second?", "Third?"]))
    // Without a step of its own.
    .addNode("three", () => ({ said: [`three: ${interrupt("Fourth?") as string}`] }))
    .addEdge(START, "one")
    .addEdge(START, "two")
    .addEdge(START, "three")
    .compile({ checkpointer: new MemorySaver() });
  const agent = defineAgent({
    name: "Asking",
    version: "1.0.0",
    methods: {
      job_start: {
        async run({ job }) {
          const handle = where === "case" ? await job.openCase({ id: "all", name: "All" }) : job;
          const { said } = await runGraph(graph, handle, {});
          if ("close" in handle) await handle.close();
          return said;
        },
      },
    },
  });
  return { agent, done };
}

const toEach = ({ question }: { question: string }) => ({ answer: `to ${question}` });
const SAID = ["one: to First?", "three: to Fourth?", "two: to Second?, to Third?"];

test.each(["case", "job"] as const)(
  "nodes of a graph that interrupt a %s at the same time get the answers to their own questions",
  async (where) => {
    const { agent } = askingAgent(where);
    await using server = await testServer({ agents: [agent] });

    const { result } = await server.run(agent, { answers: toEach });

    expect(result).toEqual(SAID);
  },
);

test.each(shareOf(["case", "job"] as const, 2))(
  "so they do in a %s that is killed at every recorded line",
  async (where) => {
    const { agent, done } = askingAgent(where);

    const report = await crashTest(agent, { answers: toEach });

    expect(report.interruptions).toBeGreaterThan(10);
    expect(done).toContain("two");
  },
);

test("questions of a graph that runs in a job are open at the same time", async () => {
  const { agent } = askingAgent("job");
  await using server = await testServer({ agents: [agent] });

  await server.request("/agents/asking/jobs", { json: { job_context: { job_id: "job-1" } } });

  const open = () => server.service.get(CASES).list({ where: { job_id: "job-1", status: "awaiting" } });
  await expect.poll(async () => (await open()).total).toBe(3);
});
