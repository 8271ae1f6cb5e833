import { Annotation, END, interrupt, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { defineAgent } from "agent-control-service";
import { durableNode, runGraph } from "agent-control-service/ai";
import * as v from "valibot";
import type { Shop } from "../refund-agent/agent.ts";

const State = Annotation.Root({
  request: Annotation<string>,
  orders: Annotation<{ id: string; total: number }[]>({
    reducer: (all, more) => [...all, ...more].toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    default: () => [],
  }),
  approved: Annotation<boolean>,
  text: Annotation<string>,
});

/** The refund agent as a graph: two nodes look orders up side by side, a person approves, a model writes the answer. */
export function refundGraph(llmUrl: string, shop: Shop) {
  const find = (which: number) =>
    durableNode(`find ${which + 1}`, async ({ request }: typeof State.State) => {
      const id = request.match(/\d+/g)?.[which];
      return { orders: id ? [await shop.findOrder(id)] : [] };
    });
  const graph = new StateGraph(State)
    .addNode("first", find(0))
    .addNode("second", find(1))
    .addNode(
      "approve",
      durableNode("approve", ({ orders }: typeof State.State) => {
        const sums = orders.map(({ id, total }) => `${total} for order ${id}`).join(", ");
        const fields = [{ name: "approved", field_type: "BooleanField", required: true }];
        const { approved } = interrupt({ question: `Refund ${sums}?`, fields }) as { approved: boolean };
        return { approved };
      }),
    )
    .addNode(
      "write",
      durableNode(
        "write",
        async ({ request, approved }: typeof State.State, { signal, idempotencyKey }) => {
          const content = `${request}: ${approved ? "refunded" : "refused"}`;
          const response = await fetch(`${llmUrl}/chat/completions`, {
            method: "POST",
            headers: { "Content-Type": "application/json", "Idempotency-Key": idempotencyKey ?? "" },
            body: JSON.stringify({ model: "small-model", messages: [{ role: "user", content }] }),
            ...(signal && { signal }),
          });
          const { choices } = (await response.json()) as { choices: [{ message: { content: string } }] };
          return { text: choices[0].message.content };
        },
        { retries: 2 },
      ),
    )
    .addEdge(START, "first")
    .addEdge(START, "second")
    .addEdge("first", "approve")
    .addEdge("second", "approve")
    .addEdge("approve", "write")
    .addEdge("write", END)
    .compile({ checkpointer: new MemorySaver() });

  return defineAgent({
    name: "Refund Graph",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: v.object({ request: v.string() }),
        async run({ job, fields }) {
          const item = await job.openCase({ id: "request", name: fields.request });
          const { text, approved, orders } = await runGraph(graph, item, { request: fields.request });
          await item.close({ text });
          return { text, approved, orders: orders.map(({ id }) => id) };
        },
      },
    },
  });
}
