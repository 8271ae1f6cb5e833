import * as v from "valibot";
import type { ChatMessage } from "../../agents/define-chat.ts";
import { ServiceError } from "../../base/errors.ts";

const ONLY_TEXT = "only text is supported";

/** Content of a message in the words of OpenAI's two routes: a text, or parts of it. */
export const ContentSchema = v.union([
  v.string(),
  v.array(
    v.variant(
      "type",
      [
        v.looseObject({ type: v.picklist(["text", "input_text", "output_text"]), text: v.string() }),
        v.looseObject({ type: v.literal("refusal"), refusal: v.string() }),
      ],
      ONLY_TEXT,
    ),
  ),
]);
type Content = v.InferOutput<typeof ContentSchema>;

/** Says why a request with tools is refused. */
export const OwnToolsSchema = v.nullish(
  v.pipe(v.array(v.unknown()), v.maxLength(0, "are not supported: the agent has its own")),
);

/** The form of an answer: only text can be asked for, as nothing makes an agent keep to another one. */
export const TextFormatSchema = v.nullish(
  v.looseObject({
    type: v.literal("text", 'must be "text": the agent decides what its answers look like'),
  }),
);

/** What a client has in its history: a message, or the call of a tool and its output, as another model has made it. */
export type HistoryItem =
  | { readonly type: "message"; readonly role: string; readonly content: Content }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly input: string }
  | { readonly type: "output"; readonly id: string; readonly output: Content };

/** The text of a message's content. */
export function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) => (part.type === "refusal" ? part.refusal : part.text)).join("");
}

/**
 * A history as an agent reads it. What tools did for another model is text: the agent could not make these calls. It is a
 * message of the assistant, as the words of a tool are no instructions.
 */
export function toHistory(items: readonly HistoryItem[]): ChatMessage[] {
  const outputs = new Map(items.flatMap((item) => (item.type === "output" ? [[item.id, item.output]] : [])));
  const calls = new Set(items.flatMap((item) => (item.type === "call" ? [item.id] : [])));
  return items.flatMap((item): ChatMessage[] => {
    if (item.type === "message") return [{ role: roleOf(item.role), content: textOf(item.content) }];
    if (item.type === "output")
      return calls.has(item.id) ? [] : [note(`Output of the call ${item.id}`, item.output)];
    return [note(`Called ${item.name}(${item.input})`, outputs.get(item.id))];
  });
}

/** Takes the message that is to be answered off a conversation. */
export function splitLast(messages: readonly ChatMessage[]): {
  readonly content: string;
  readonly history: readonly ChatMessage[];
} {
  const last = messages.at(-1);
  if (last?.role !== "user") {
    throw new ServiceError("invalid_request", "The last message must be one of the user", {
      detail: "It is the one that is answered.",
    });
  }
  return { content: last.content, history: messages.slice(0, -1) };
}

function note(what: string, output: Content | undefined): ChatMessage {
  return { role: "assistant", content: output === undefined ? what : `${what}: ${textOf(output)}` };
}

function roleOf(role: string): ChatMessage["role"] {
  if (role === "developer") return "system";
  return role as ChatMessage["role"];
}
