import type { ModelReply, ModelServerRequest } from "agent-control-service/testing";

/** Answers in place of a model: looks the order up, refunds it, and says what came of it. */
export function standIn({ messages, last }: ModelServerRequest): ModelReply {
  if (last.role === "user") {
    const [id] = last.text.match(/\d+/) ?? [];
    if (id === undefined) return "(stand-in) Which order is it?";
    return { toolCalls: [{ name: "order", arguments: { id } }] };
  }
  const asked = messages.findLast(({ toolCalls }) => toolCalls.length > 0)?.toolCalls[0]?.name;
  if (asked === "refund") return `(stand-in) ${last.text}`;
  const { id, total } = JSON.parse(last.text) as { id: string; total: number };
  return { toolCalls: [{ name: "refund", arguments: { id, amount: total } }] };
}
