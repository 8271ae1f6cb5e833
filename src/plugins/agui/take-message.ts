import type { ChatMessage } from "../../core/agents/define-chat.ts";
import type { Caller } from "../../core/audit/caller.ts";
import { ServiceError } from "../../core/base/errors.ts";
import type { SentTurn, Threads } from "../../core/conversations/threads.ts";

/** What a run gives a thread of a chat. */
export interface Given {
  readonly messages: readonly { readonly id?: unknown; readonly role: string; readonly content?: unknown }[];
  readonly resume: readonly {
    readonly interruptId: string;
    readonly status: "resolved" | "cancelled";
    readonly payload?: unknown;
  }[];
}

/** Takes what a run says in a thread: answers to questions, or the last message of the user; once, by the ids of those. */
export async function takeMessage(
  threads: Threads,
  { slug, id }: { readonly slug: string; readonly id: string },
  { messages, resume }: Given,
  by: Caller,
): Promise<SentTurn> {
  let turn: SentTurn | undefined;
  for (const { interruptId, status, payload } of resume)
    turn = await threads.answer(id, {
      ...{ key: interruptId, by, via: "ag-ui" },
      ...(status === "resolved" && { values: payload ?? {} }),
    });
  if (turn) return turn;
  const at = messages.findLastIndex(({ role }) => role === "user");
  const last = messages[at];
  if (!last) {
    throw new ServiceError("invalid_request", "The run has no message of the user", {
      detail: "Send one in messages, or answer the open questions with resume.",
    });
  }
  const history = (await threads.find(id)) ? [] : messages.slice(0, at).flatMap(toMessage);
  return threads.send(slug, id, {
    ...{ content: textOf(last.content), history, by, via: "ag-ui" },
    ...(typeof last.id === "string" && last.id !== "" && { key: last.id }),
  });
}

function toMessage({ role, content }: Given["messages"][number]): ChatMessage[] {
  const name = role === "developer" ? "system" : role;
  if (name !== "system" && name !== "user" && name !== "assistant") return [];
  const text = content === undefined || content === null ? "" : textOf(content);
  return text === "" ? [] : [{ role: name, content: text }];
}

/** The text of a message; media are refused. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  const parts = (Array.isArray(content) ? content : [{ type: typeof content }]) as {
    readonly type?: unknown;
    readonly text?: unknown;
  }[];
  const media = parts.find(({ type, text }) => type !== "text" || typeof text !== "string");
  if (media) throw unsupported(media.type);
  return parts.map(({ text }) => text).join("\n");
}

/** Refuses what an agent cannot take: an answer without the picture that it is about would be wrong. */
export function unsupported(type: unknown): ServiceError {
  return new ServiceError("invalid_request", `The agent does not accept content of type "${type}"`, {
    detail: "Send the text of the message, and other values as forwardedProps.fields.",
    status: 415,
  });
}
