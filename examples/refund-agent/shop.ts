import type { ModelReply, ModelServerRequest } from "agent-control-service/testing";
import type { Shop } from "./agent.ts";

/** A shop in memory; a refund with a known key is made once. */
export function createShop(): Shop & { readonly refunds: ReadonlyMap<string, string> } {
  const refunds = new Map<string, string>();
  return {
    refunds,
    findOrder: async (id) => ({ id, total: 10 * Number(id), state: "delivered" }),
    refund: async (order, amount, key) => {
      refunds.set(key, `${order}: ${amount}`);
      return `Refunded ${amount} for order ${order}`;
    },
  };
}

/** A model that does what such an agent's model does: looks up all orders at the same time, then refunds each. */
export function shopModel({ messages, last }: ModelServerRequest): ModelReply {
  const request = messages.find(({ role }) => role === "user")!.text;
  const orders = [...request.matchAll(/\d+/g)].map(([id]) => id);
  if (last.role === "user") return { toolCalls: orders.map((id) => ({ name: "order", arguments: { id } })) };
  const results = messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1);
  if (results[0]!.text.includes("total")) {
    const found = results.map(({ text }) => JSON.parse(text) as { id: string; total: number });
    return {
      toolCalls: found.map(({ id, total }) => ({ name: "refund", arguments: { id, amount: total } })),
    };
  }
  return results.map(({ text }) => text).join(" ");
}
