import * as v from "valibot";
import type { GivenFile } from "../../agents/read-values.ts";
import { invalid } from "../check.ts";
import { ContentSchema, type HistoryItem } from "./openai-history.ts";

/** An item of a history in the words of OpenAI's responses. */
const ItemSchema = v.variant(
  "type",
  [
    v.looseObject({
      type: v.optional(v.literal("message"), "message"),
      role: v.picklist(["user", "assistant", "system", "developer"]),
      content: ContentSchema,
    }),
    v.looseObject({
      type: v.literal("function_call"),
      ...{ call_id: v.string(), name: v.string(), arguments: v.string() },
    }),
    v.looseObject({
      type: v.literal("custom_tool_call"),
      ...{ call_id: v.string(), name: v.string(), input: v.string() },
    }),
    v.looseObject({
      type: v.picklist(["function_call_output", "custom_tool_call_output"]),
      ...{ call_id: v.string(), output: ContentSchema },
    }),
    v.looseObject({ type: v.literal("item_reference"), id: v.string() }),
    // What an agent has done for an answer: its answer says what came of it.
    v.looseObject({ type: v.picklist(["reasoning", "mcp_call", "mcp_list_tools"]) }),
  ],
  "must be a message, a function_call, a function_call_output or an item_reference",
);

/** What a response answers: a text, or a conversation whose last message is one of the user. */
export const InputSchema = v.union([
  v.string(),
  v.pipe(v.array(ItemSchema), v.minLength(1, "must have a message")),
]);
export type ResponseInput = v.InferOutput<typeof InputSchema>;

/** The history of an input; `find` gives what an item says that it only refers to. */
export async function readInput(
  input: ResponseInput,
  find: (id: string) => Promise<{ readonly content: string; readonly files: readonly GivenFile[] }>,
): Promise<HistoryItem[]> {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  const items: HistoryItem[] = [];
  const referred = new Set<string>();
  for (const item of input) {
    switch (item.type) {
      case "message":
        items.push({ type: "message", role: item.role, content: item.content });
        break;
      case "function_call":
        items.push({ type: "call", id: item.call_id, name: item.name, input: item.arguments });
        break;
      case "custom_tool_call":
        items.push({ type: "call", id: item.call_id, name: item.name, input: item.input });
        break;
      case "function_call_output":
      case "custom_tool_call_output":
        items.push({ type: "output", id: item.call_id, output: item.output });
        break;
      case "item_reference":
        // A call of the agent's own tool.
        if (item.id.startsWith("mcp_")) break;
        // As OpenAI does: a short request could become a history without end.
        if (referred.has(item.id)) throw invalid("body", `input refers to the item ${item.id} twice`);
        referred.add(item.id);
        items.push({ type: "message", role: "assistant", ...(await find(item.id)) });
    }
  }
  return items;
}
