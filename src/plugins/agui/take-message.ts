import * as v from "valibot";
import type { GivenFile } from "../../core/agents/read-values.ts";
import type { Caller } from "../../core/audit/caller.ts";
import { ServiceError } from "../../core/base/errors.ts";
import { toGivenFile } from "../../core/conversations/file-parts.ts";
import type { SentChatMessage, SentTurn } from "../../core/conversations/thread-message.ts";
import type { Threads } from "../../core/conversations/threads.ts";

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
    ...{ ...readContent(last.content), history, by, via: "ag-ui" },
    ...(typeof last.id === "string" && last.id !== "" && { key: last.id }),
  });
}

function toMessage({ role, content }: Given["messages"][number]): SentChatMessage[] {
  const name = role === "developer" ? "system" : role;
  if (name !== "system" && name !== "user" && name !== "assistant") return [];
  const read = readContent(content ?? "");
  return read.content === "" && read.files.length === 0 ? [] : [{ role: name, ...read }];
}

/** What the value of a source is; a handle is the id of an upload. */
const SOURCES: Readonly<Record<string, "data" | "url" | "upload">> = {
  ...{ data: "data", url: "url", file: "upload" },
};
const SourceSchema = v.looseObject({
  type: v.string(),
  value: v.optional(v.string()),
  mimeType: v.optional(v.string()),
});
const PartSchema = v.looseObject({
  type: v.string(),
  text: v.optional(v.string()),
  source: v.optional(SourceSchema),
  filename: v.optional(v.string()),
  metadata: v.optional(v.nullable(v.looseObject({ filename: v.optional(v.string()) }))),
});

/** The text and the files of a message. */
export function readContent(content: unknown): { readonly content: string; readonly files: GivenFile[] } {
  if (typeof content === "string") return { content, files: [] };
  const given = Array.isArray(content) ? content : [{ type: typeof content }];
  const parts = given.map((one) => {
    const part = v.safeParse(PartSchema, one);
    if (!part.success) throw unsupported((one as { type?: unknown } | null)?.type);
    return part.output;
  });
  return {
    content: parts
      .flatMap(({ type, text }) => (type === "text" && text !== undefined ? [text] : []))
      .join("\n"),
    files: parts.flatMap((part) => (part.type === "text" ? textOnly(part) : [toFile(part)])),
  };
}

function textOnly({ type, text }: v.InferOutput<typeof PartSchema>): [] {
  if (text === undefined) throw unsupported(type);
  return [];
}

function toFile({ type, source, filename, metadata }: v.InferOutput<typeof PartSchema>): GivenFile {
  const as = SOURCES[source?.type ?? ""];
  if (source?.value === undefined || as === undefined)
    throw unsupported(source === undefined ? type : `${type} with a source of type ${source.type}`);
  const name = filename ?? metadata?.filename;
  return toGivenFile({ name, type: source.mimeType, [as]: source.value });
}

/** Refuses what an agent cannot take: an answer without the picture that it is about would be wrong. */
export function unsupported(type: unknown): ServiceError {
  return new ServiceError("invalid_request", `The agent does not accept content of type "${type}"`, {
    detail:
      "Send the text of the message, files with their content, and other values as forwardedProps.fields.",
    status: 415,
  });
}
