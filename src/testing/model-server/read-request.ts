import { parseJson } from "../../core/base/parse-json.ts";
import type { ModelMessage, ModelServerRequest } from "./messages.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Reads a request of either API. */
export function readRequest(body: Fields, idempotencyKey: string | undefined): ModelServerRequest {
  const messages = Array.isArray(body.messages)
    ? (body.messages as Fields[]).map(fromChat)
    : fromInput(body.input, body.instructions);
  const tools = ((body.tools as Fields[] | undefined) ?? []).map((tool) =>
    String((tool.function as Fields | undefined)?.name ?? tool.name),
  );
  const last = messages.at(-1) ?? { role: "user", text: "", toolCalls: [] };
  return { model: String(body.model ?? "stand-in"), messages, tools, last, idempotencyKey, body };
}

function fromChat(message: Fields): ModelMessage {
  const calls = (message.tool_calls as { id: string; function: { name: string; arguments: string } }[]) ?? [];
  return {
    role: String(message.role),
    text: toText(message.content),
    toolCalls: calls.map(({ id, function: { name, arguments: given } }) => ({
      ...{ id, name },
      arguments: parseJson(given, given),
    })),
    ...(typeof message.tool_call_id === "string" && { toolCallId: message.tool_call_id }),
  };
}

function fromInput(input: unknown, instructions: unknown): ModelMessage[] {
  const system =
    typeof instructions === "string" ? [{ role: "system", text: instructions, toolCalls: [] }] : [];
  if (typeof input === "string") return [...system, { role: "user", text: input, toolCalls: [] }];
  const items = ((input as Fields[] | undefined) ?? []).map((item): ModelMessage => {
    if (item.type === "function_call") {
      const call = {
        id: String(item.call_id),
        name: String(item.name),
        arguments: parseJson(String(item.arguments), item.arguments),
      };
      return { role: "assistant", text: "", toolCalls: [call] };
    }
    if (item.type === "function_call_output")
      return { role: "tool", text: toText(item.output), toolCalls: [], toolCallId: String(item.call_id) };
    return { role: String(item.role), text: toText(item.content), toolCalls: [] };
  });
  return [...system, ...items];
}

function toText(content: unknown): string {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map((part: Fields) => toText(part.text)).join("");
  const text = (content as Fields | null | undefined)?.text;
  return typeof text === "string" ? text : "";
}
