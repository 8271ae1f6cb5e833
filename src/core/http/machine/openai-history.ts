import * as v from "valibot";
import type { GivenFile } from "../../agents/read-values.ts";
import { ServiceError } from "../../base/errors.ts";
import { toGivenFile } from "../../conversations/file-parts.ts";
import type { SentChatMessage } from "../../conversations/thread-message.ts";

const FileSchema = v.looseObject({
  file_id: v.nullish(v.string()),
  file_data: v.nullish(v.string()),
  file_url: v.nullish(v.string()),
  filename: v.nullish(v.string()),
});

/** Content of a message in the words of OpenAI's two routes: a text, or parts of the one or the other. */
export const ContentSchema = v.union([
  v.string(),
  v.array(
    v.variant(
      "type",
      [
        v.looseObject({ type: v.picklist(["text", "input_text", "output_text"]), text: v.string() }),
        v.looseObject({ type: v.literal("refusal"), refusal: v.string() }),
        v.looseObject({ type: v.literal("image_url"), image_url: v.looseObject({ url: v.string() }) }),
        v.looseObject({
          type: v.literal("input_image"),
          ...{ image_url: v.nullish(v.string()), file_id: v.nullish(v.string()) },
        }),
        v.looseObject({
          type: v.literal("input_audio"),
          input_audio: v.looseObject({ data: v.string(), format: v.picklist(["wav", "mp3"]) }),
        }),
        v.looseObject({ type: v.literal("file"), file: FileSchema }),
        v.looseObject({ type: v.literal("input_file"), ...FileSchema.entries }),
      ],
      "only text, images, audio and files are supported",
    ),
  ),
]);
type Content = v.InferOutput<typeof ContentSchema>;
type Part = Exclude<Content, string>[number];

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
  | {
      readonly type: "message";
      readonly role: string;
      readonly content: Content;
      /** Besides those in its content. */
      readonly files?: readonly GivenFile[];
    }
  | { readonly type: "call"; readonly id: string; readonly name: string; readonly input: string }
  | { readonly type: "output"; readonly id: string; readonly output: Content };

/** Finds a file by an id of `/v1/files`. */
type FindFile = (id: string) => Promise<GivenFile>;

/**
 * A history as an agent reads it. What tools did for another model is text: the agent could not make these calls. It is a
 * message of the assistant, as the words of a tool are no instructions.
 */
export async function toHistory(items: readonly HistoryItem[], find: FindFile): Promise<SentChatMessage[]> {
  const outputs = new Map(items.flatMap((item) => (item.type === "output" ? [[item.id, item.output]] : [])));
  const calls = new Set(items.flatMap((item) => (item.type === "call" ? [item.id] : [])));
  const messages: SentChatMessage[] = [];
  for (const item of items) {
    if (item.type === "message") {
      const { text, files } = await readContent(item.content, find);
      messages.push(withFiles({ role: roleOf(item.role), content: text }, [...files, ...(item.files ?? [])]));
    } else if (item.type === "call") {
      const output = outputs.get(item.id);
      // Of one call: a short request that repeats its id would become a history without end.
      outputs.delete(item.id);
      messages.push(await note(`Called ${item.name}(${item.input})`, output, find));
    } else if (!calls.has(item.id)) {
      messages.push(await note(`Output of the call ${item.id}`, item.output, find));
    }
  }
  return messages;
}

/** Takes the message that is to be answered off a conversation. */
export function splitLast(messages: readonly SentChatMessage[]): {
  readonly content: string;
  readonly files: readonly GivenFile[];
  readonly history: readonly SentChatMessage[];
} {
  const last = messages.at(-1);
  if (last?.role !== "user") {
    throw new ServiceError("invalid_request", "The last message must be one of the user", {
      detail: "It is the one that is answered.",
    });
  }
  return { content: last.content, files: last.files ?? [], history: messages.slice(0, -1) };
}

async function note(what: string, output: Content | undefined, find: FindFile): Promise<SentChatMessage> {
  const { text, files } = await readContent(output ?? "", find);
  return withFiles({ role: "assistant", content: output === undefined ? what : `${what}: ${text}` }, files);
}

function withFiles(message: SentChatMessage, files: readonly GivenFile[]): SentChatMessage {
  return files.length > 0 ? { ...message, files } : message;
}

/** The text and the files of a message's content. */
async function readContent(
  content: Content,
  find: FindFile,
): Promise<{ readonly text: string; readonly files: readonly GivenFile[] }> {
  if (typeof content === "string") return { text: content, files: [] };
  let text = "";
  const files: GivenFile[] = [];
  for (const part of content) {
    const read = await readPart(part, find);
    if (typeof read === "string") text += read;
    else files.push(read);
  }
  return { text, files };
}

function readPart(part: Part, find: FindFile): string | GivenFile | Promise<GivenFile> {
  switch (part.type) {
    case "refusal":
      return part.refusal;
    case "image_url":
      return toGivenFile({ url: part.image_url.url });
    case "input_image":
      return part.file_id ? find(part.file_id) : toGivenFile({ url: part.image_url ?? undefined });
    case "input_audio": {
      const { data, format } = part.input_audio;
      const type = format === "wav" ? "audio/wav" : "audio/mpeg";
      return toGivenFile({ name: `audio.${format}`, type, data });
    }
    case "file":
      return fileOf(part.file, find);
    case "input_file":
      return fileOf(part, find);
    default:
      return part.text;
  }
}

function fileOf(
  { file_id, file_data, file_url, filename }: v.InferOutput<typeof FileSchema>,
  find: FindFile,
): GivenFile | Promise<GivenFile> {
  if (file_id) return find(file_id);
  return toGivenFile({
    name: filename ?? undefined,
    data: file_data ?? undefined,
    url: file_url ?? undefined,
  });
}

function roleOf(role: string): SentChatMessage["role"] {
  if (role === "developer") return "system";
  return role as SentChatMessage["role"];
}
