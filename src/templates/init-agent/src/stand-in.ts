import type { ModelReply, ModelServerRequest } from "agent-control-service/testing";

/** Answers in place of a model: looks up the products that a question names, then says what it found. */
export function standIn({ messages, last }: ModelServerRequest): ModelReply {
  if (last.role === "user") {
    const products = last.text.toLowerCase().match(/apples|pears|plums/g) ?? [];
    if (products.length === 0) return "(stand-in) I know apples, pears and plums only.";
    return { toolCalls: products.map((product) => ({ name: "stock", arguments: { product } })) };
  }
  const results = messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1);
  const found = results.map(({ text }) => JSON.parse(text) as { product: string; pieces: number });
  return `(stand-in) In stock: ${found.map(({ product, pieces }) => `${pieces} ${product}`).join(", ")}.`;
}
