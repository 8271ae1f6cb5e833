import * as v from "valibot";
import type { Caller } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { toGivenFile } from "../../conversations/file-parts.ts";
import { threadIdOf } from "../../conversations/thread-id.ts";
import type { SentChatMessage, SentTurn } from "../../conversations/thread-message.ts";
import type { Threads } from "../../conversations/threads.ts";
import { baseUrl } from "../base-url.ts";
import { sourceOf } from "../live-streams.ts";
import type { HttpEvent, RouteDefinition } from "../route.ts";
import { routesOf } from "../topic-routes.ts";
import type { MachineParts } from "./parts.ts";
import { type AnsweredPart, keyOfPart, toUiChunks, type UiTurn } from "./ui-chunks.ts";

const keyRoute = routesOf({
  ...{ auth: "key", tag: "Chat", needs: "start", narrows: true },
  query: v.looseObject({}),
});

/** The version of the stream, by which the AI SDK's clients know it. */
const STREAM_VERSION = "x-vercel-ai-ui-message-stream";

const PartSchema = v.looseObject({
  type: v.string(),
  text: v.optional(v.string()),
  mediaType: v.optional(v.string()),
  filename: v.optional(v.string()),
  url: v.optional(v.string()),
  upload: v.optional(v.pipe(v.string(), v.description("Of a file: the id of an upload, in place of url"))),
  state: v.optional(v.string()),
  toolCallId: v.optional(v.string()),
  output: v.optional(v.unknown()),
  providerExecuted: v.optional(v.boolean()),
  approval: v.optional(v.looseObject({ approved: v.optional(v.boolean()), reason: v.nullish(v.string()) })),
});
const MessageSchema = v.looseObject({
  id: v.optional(v.string()),
  role: v.picklist(["system", "user", "assistant"]),
  parts: v.array(PartSchema),
});
type Message = v.InferOutput<typeof MessageSchema>;

const RequestSchema = v.looseObject({
  id: v.pipe(v.string(), v.nonEmpty(), v.description("The client's id of the chat: the thread's")),
  messages: v.pipe(v.array(MessageSchema), v.minLength(1, "must have a message")),
  client: v.optional(
    v.pipe(
      v.string(),
      v.regex(/^[\w.-]{1,40}$/, "must be 1 to 40 letters, digits, '.', '_', '-'"),
      v.description("The kind of client: a text answers only a question that it was shown"),
    ),
    "ui",
  ),
});
type Request = v.InferOutput<typeof RequestSchema>;

/** Routes that the AI SDK's `useChat` speaks as it is, and `svc chat`. */
export function uiChatRoutes({ prefix, seen, streams, state }: MachineParts): RouteDefinition[] {
  const open = (
    threads: Threads,
    turn: UiTurn,
    { caller, event }: { readonly caller: Caller; readonly event: HttpEvent },
  ): Response => {
    const base = baseUrl(state, prefix, event);
    const response = streams.open(
      sourceOf(async function* (signal) {
        for await (const chunk of toUiChunks(threads, turn, { base, signal }))
          yield `data: ${JSON.stringify(chunk)}\n\n`;
        // Without it, the client knows that the stream was cut off.
        if (!signal.aborted) yield "data: [DONE]\n\n";
      }),
      { caller },
    );
    response.headers.set(STREAM_VERSION, "v1");
    return response;
  };
  return [
    keyRoute({
      method: "POST",
      path: `${prefix}/chat/{slug}`,
      summary: "Chat with an agent, for the AI SDK's useChat",
      description:
        "The UI message stream of the AI SDK, version 1. The chat is a thread: the last message continues it, or starts it, once by its id. Or the last message is the assistant's, with answers to its questions: approvals, and outputs of tools. A request that is sent again gets the first response. A client that disconnects stops nothing.",
      params: v.object({ slug: v.string() }),
      body: RequestSchema,
      responses: { 200: { description: "The chunks of a message", contentType: "text/event-stream" } },
      handler: async ({ params, body, event, caller }) => {
        const { threads } = seen(caller);
        const slug = threads.agent(params.slug);
        return open(threads, await take(threads, slug, body, caller), { caller, event });
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/chat/{slug}/{id}/stream`,
      summary: "Resume the stream of an answer, for the AI SDK's useChat",
      description: "The chunks of the message under way, from its beginning, as after the page was reloaded.",
      params: v.object({ slug: v.string(), id: v.string() }),
      responses: {
        200: { description: "The chunks of the message", contentType: "text/event-stream" },
        204: { description: "No message is under way" },
      },
      handler: async ({ params, event, caller }) => {
        const { threads } = seen(caller);
        const slug = threads.agent(params.slug);
        const id = threadIdOf(slug, params.id);
        const turn = (await threads.find(id))?.agent_name === slug ? await threads.current(id) : undefined;
        if (!turn) return new Response(null, { status: 204 });
        return open(threads, { turn, messageId: messageIdOf(turn), answers: [] }, { caller, event });
      },
    }),
  ];
}

async function take(
  threads: Threads,
  slug: string,
  { id: given, messages, client: via }: Request,
  by: Caller,
): Promise<UiTurn> {
  const id = threadIdOf(slug, given);
  const thread = await threads.find(id);
  if (thread && thread.agent_name !== slug)
    throw new ServiceError("invalid_transition", `Thread "${given}" is one of agent "${thread.agent_name}"`, {
      detail: "Use another id.",
    });
  const last = messages.at(-1)!;
  if (last.role !== "user") {
    const answers = last.role === "assistant" ? answersOf(last) : [];
    let turn: SentTurn | undefined;
    for (const answer of answers) turn = await threads.answer(id, { ...answer, by, via });
    if (turn) return { turn, messageId: last.id ?? messageIdOf(turn), answers };
    throw new ServiceError("invalid_request", "The last message must be one of the user, or have an answer", {
      detail: "Send a message, or answer the parts that ask with an approval or an output.",
    });
  }
  const { content, files } = readMessage(last);
  if (content === "" && files.length === 0)
    throw new ServiceError("invalid_request", "The last message has no text", {
      detail: "A message of the user has a part of the type text, or file.",
    });
  const history = thread ? [] : messages.slice(0, -1).flatMap(toMessage);
  const turn = await threads.send(slug, id, {
    ...{ content, files, history, by, via },
    ...(last.id && { key: last.id }),
  });
  return { turn, messageId: messageIdOf(turn, last.id), answers: [] };
}

/** The same each time the request comes, and another one for each request. */
function messageIdOf({ jobId, messageId, after, answered }: SentTurn, given?: string): string {
  return `${jobId}-${(answered && given) ?? messageId ?? after}`;
}

interface Answer extends AnsweredPart {
  readonly values?: unknown;
  readonly message?: string | undefined;
}

/** The answers in the last step of a message: those of the steps before have been sent. */
function answersOf({ parts }: Message): Answer[] {
  const step = parts.findLastIndex(({ type }) => type === "step-start");
  return parts
    .slice(step + 1)
    .flatMap(({ toolCallId = "", state, output, approval, providerExecuted }): Answer[] => {
      const key = providerExecuted ? undefined : keyOfPart(toolCallId);
      if (key === undefined) return [];
      const { approved, reason } = approval ?? {};
      if (approved !== undefined) return [{ key, toolCallId, approved, message: reason ?? undefined }];
      if (state === "output-error") return [{ key, toolCallId }];
      return state === "output-available" ? [{ key, toolCallId, values: output ?? {} }] : [];
    });
}

function toMessage(message: Message): SentChatMessage[] {
  const read = message.role === "user" ? readMessage(message) : { content: joined(message), files: [] };
  return read.content === "" && read.files.length === 0 ? [] : [{ role: message.role, ...read }];
}

/** The text and the files of a message of the user. */
function readMessage(message: Message) {
  const files = message.parts
    .filter(({ type }) => type === "file")
    .map(({ mediaType: type, filename: name, url, upload }) => toGivenFile({ name, type, url, upload }));
  return { content: joined(message), files };
}

function joined({ parts }: Message): string {
  return parts
    .filter(({ type }) => type === "text")
    .map(({ text }, at) => {
      if (text !== undefined) return text;
      throw new ServiceError("invalid_request", `The text of part ${at + 1} of a message is missing`, {
        detail: 'A part of the type "text" has a text.',
      });
    })
    .join("\n");
}
