import * as v from "valibot";
import type { TurnUsage } from "../../conversations/follow-turn.ts";
import type { SentTurn, ShownEvent } from "../../conversations/thread-message.ts";
import type { Threads } from "../../conversations/threads.ts";
import { EntityIdSchema } from "../../models/scalars.ts";
import { invalid } from "../check.ts";
import { readIdempotencyKey } from "../idempotency-key.ts";
import type { StreamSource } from "../live-streams.ts";
import { OPENAI_ERRORS } from "../openai-errors.ts";
import type { HttpEvent, RouteDefinition } from "../route.ts";
import { describeShown, failure, senderOf } from "./openai-answer.ts";
import { idOfJobFile, NamedFiles } from "./openai-file-ids.ts";
import {
  ContentSchema,
  type HistoryItem,
  OwnToolsSchema,
  splitLast,
  TextFormatSchema,
  toHistory,
} from "./openai-history.ts";
import { openAiRoute } from "./openai-route.ts";
import type { MachineParts } from "./parts.ts";

/** Their clients send more than an agent can use, and the API gains members all the time: what is not named is ignored. */
const CallSchema = v.looseObject({
  id: v.string(),
  function: v.optional(v.looseObject({ name: v.string(), arguments: v.string() })),
  custom: v.optional(v.looseObject({ name: v.string(), input: v.string() })),
});
const MessageSchema = v.variant("role", [
  v.looseObject({ role: v.picklist(["system", "developer", "user"]), content: ContentSchema }),
  v.looseObject({
    role: v.literal("assistant"),
    content: v.nullish(ContentSchema),
    refusal: v.nullish(v.string()),
    tool_calls: v.nullish(v.array(CallSchema)),
  }),
  v.looseObject({ role: v.literal("tool"), tool_call_id: v.string(), content: ContentSchema }),
]);
const RequestSchema = v.looseObject({
  model: v.string(),
  messages: v.pipe(v.array(MessageSchema), v.minLength(1, "must have a message")),
  stream: v.nullish(v.boolean(), false),
  stream_options: v.nullish(v.looseObject({ include_usage: v.nullish(v.boolean(), false) })),
  n: v.nullish(v.literal(1, "must be 1")),
  tools: OwnToolsSchema,
  functions: OwnToolsSchema,
  response_format: TextFormatSchema,
  metadata: v.nullish(v.looseObject({ thread_id: v.optional(EntityIdSchema) })),
});
type Request = v.InferOutput<typeof RequestSchema>;

/** A file of an answer; the id is one for `/v1/files/{id}/content`. */
const AnswerFileSchema = v.object({
  ...{ id: v.string(), filename: v.string(), mime_type: v.string(), bytes: v.number() },
});

const CompletionSchema = v.object({
  id: v.string(),
  object: v.literal("chat.completion"),
  created: v.number(),
  model: v.string(),
  thread_id: v.string(),
  choices: v.array(
    v.object({
      index: v.number(),
      message: v.object({
        ...{ role: v.literal("assistant"), content: v.string(), refusal: v.null() },
        files: v.optional(v.array(AnswerFileSchema)),
      }),
      logprobs: v.null(),
      finish_reason: v.literal("stop"),
    }),
  ),
  usage: v.optional(
    v.object({ prompt_tokens: v.number(), completion_tokens: v.number(), total_tokens: v.number() }),
  ),
});

const ModelSchema = v.object({
  id: v.string(),
  object: v.literal("model"),
  created: v.number(),
  owned_by: v.string(),
});

/** Routes by which chat clients for OpenAI talk to agents. */
export function completionRoutes(parts: MachineParts): RouteDefinition[] {
  const { prefix, seen, streams, state } = parts;
  const modelOf = (id: string) => ({
    id,
    object: "model" as const,
    created: Math.floor(state.startedAt.getTime() / 1000),
    owned_by: "agent-control-service",
  });
  return [
    openAiRoute({
      method: "GET",
      path: `${prefix}/v1/models`,
      needs: "start",
      summary: "List the agents that people can chat with",
      description: "In the form of OpenAI: each chat agent is a model, whose id is its slug.",
      responses: {
        200: {
          description: "The agents, as models",
          schema: v.object({ object: v.literal("list"), data: v.array(ModelSchema) }),
        },
      },
      handler: ({ caller }) => ({ object: "list", data: seen(caller).threads.agents().map(modelOf) }),
    }),
    openAiRoute({
      method: "GET",
      path: `${prefix}/v1/models/{id}`,
      needs: "start",
      summary: "Show an agent that people can chat with",
      description: "In the form of OpenAI: the id of the model is the agent's slug.",
      params: v.object({ id: v.string() }),
      responses: { 200: { description: "The agent, as a model", schema: ModelSchema } },
      handler: ({ params, caller }) => modelOf(seen(caller).threads.agent(params.id)),
    }),
    openAiRoute({
      method: "POST",
      path: `${prefix}/v1/chat/completions`,
      needs: "start",
      summary: "Chat with an agent",
      description:
        "As OpenAI's route of that name. `model` is the agent's slug. Without a thread, the request is a job of its own that ends with its answer, and `messages` is the whole conversation. With `metadata.thread_id`, an id of your choice, the last message continues that thread, or starts it; the thread keeps the conversation. An open question of the agent is the content of the response, and the next message of the thread answers it. Messages may have images, audio and files, in base64 or by the id of `POST /v1/files`; `files` of the response's message are those of the answer. With `stream: true`, the response is a stream of chunks. Parameters such as `temperature` are ignored.",
      body: RequestSchema,
      responses: {
        200: {
          description: "The answer; with `stream: true`, a stream of `chat.completion.chunk`",
          schema: CompletionSchema,
        },
      },
      handler: async ({ body, event, caller }) => {
        const { threads, jobs } = seen(caller);
        const named = new NamedFiles(parts.files, jobs);
        const turn = await send(threads, body, { event, caller, named });
        const at = turn.at === undefined ? parts.clock().getTime() : Date.parse(turn.at);
        const isAlone = body.metadata?.thread_id === undefined;
        const about = { threads, model: body.model, turn, isAlone, created: Math.floor(at / 1000) };
        if (body.stream) {
          const withUsage = body.stream_options?.include_usage ?? false;
          return streams.open(toStream(about, withUsage), { caller });
        }
        return complete(about, event.req.signal);
      },
    }),
  ];
}

type Caller = Parameters<RouteDefinition["handler"]>[0]["caller"];

interface About {
  readonly threads: Threads;
  readonly model: string;
  readonly turn: SentTurn;
  readonly created: number;
  /** Whether the client has no thread: it finds the question of an answer by its reference. */
  readonly isAlone: boolean;
}

async function send(
  threads: Threads,
  { model, messages, metadata }: Request,
  {
    event,
    caller,
    named,
  }: { readonly event: HttpEvent; readonly caller: Caller; readonly named: NamedFiles },
): Promise<SentTurn> {
  const { content, files, history } = splitLast(
    await toHistory(messages.flatMap(toItems), (id) => named.find(id)),
  );
  const key = readIdempotencyKey(event);
  return threads.send(threads.agent(model), metadata?.thread_id, {
    ...{ content, files, history, key, filesOf: [...named.jobs] },
    ...senderOf(event, caller),
  });
}

function toItems(message: Request["messages"][number]): HistoryItem[] {
  if (message.role === "tool") return [{ type: "output", id: message.tool_call_id, output: message.content }];
  if (message.role !== "assistant") return [{ type: "message", ...message }];
  const { role, content, refusal, tool_calls } = message;
  const calls = (tool_calls ?? []).map(({ id, function: called, custom }) => {
    const name = called?.name ?? custom?.name ?? "a tool";
    return { type: "call" as const, id, name, input: called?.arguments ?? custom?.input ?? "" };
  });
  const said = content ?? refusal;
  if (calls.length === 0 && typeof said !== "string" && !said)
    throw invalid("body", "content of a message of the assistant is missing");
  return [...(said ? [{ type: "message" as const, role, content: said }] : []), ...calls];
}

async function complete(about: About, signal: AbortSignal): Promise<unknown> {
  let notice = "";
  for await (const event of about.threads.follow(about.turn, signal)) {
    if (event.type === "failed") throw failure(event.message);
    if (event.type === "notice") notice += event.text;
    if (event.type !== "answer" && event.type !== "question") continue;
    const content = notice + (event.type === "answer" ? event.answer : describeShown(event, about.isAlone));
    return {
      ...head(about, "chat.completion"),
      choices: [
        {
          index: 0,
          message: { role: "assistant", content, refusal: null, ...filesOf(about, event) },
          logprobs: null,
          finish_reason: "stop",
        },
      ],
      ...(event.type === "answer" && { usage: toUsage(event.usage) }),
    };
  }
  throw failure("The service is closing");
}

/** What their chunks have no place for. */
const HIDDEN: ReadonlySet<ShownEvent["type"]> = new Set(["opened", "tool", "attempt", "answered"]);

function toStream(about: About, withUsage: boolean): StreamSource {
  let events: AsyncGenerator<ShownEvent, void> | undefined;
  let isOver = false;
  const line = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
  const chunk = (delta: Record<string, unknown>, reason: "stop" | null = null) =>
    line({
      ...head(about, "chat.completion.chunk"),
      choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
      ...(withUsage && { usage: null }),
    });
  let sent = false;
  return async (signal) => {
    if (isOver) return undefined;
    if (!events) {
      events = about.threads.follow(about.turn, signal);
      return chunk({ role: "assistant", content: "" });
    }
    let { value: event } = await events.next();
    while (event && HIDDEN.has(event.type)) ({ value: event } = await events.next());
    if (!event) return undefined;
    if (event.type === "text" || event.type === "notice") {
      sent = true;
      return chunk({ content: event.text });
    }
    isOver = true;
    if (event.type === "failed") return line(OPENAI_ERRORS.toBody(failure(event.message)));
    const question =
      event.type === "question"
        ? chunk({ content: `${sent ? "\n\n" : ""}${describeShown(event, about.isAlone)}` })
        : "";
    const files = filesOf(about, event);
    const attached = "files" in files ? chunk(files) : "";
    const used = event.type === "answer" ? toUsage(event.usage) : undefined;
    const usage = withUsage
      ? line({ ...head(about, "chat.completion.chunk"), choices: [], usage: used ?? null })
      : "";
    return `${question}${attached}${chunk({}, "stop")}${usage}data: [DONE]\n\n`;
  };
}

/** What their API has no place for: who knows it gets the files of an answer. */
function filesOf({ turn }: About, event: ShownEvent) {
  if (event.type !== "answer" || event.files.length === 0) return {};
  return {
    files: event.files.map(({ name: filename, type: mime_type, size: bytes, sha256 }) => ({
      ...{ id: idOfJobFile(turn.jobId, sha256), filename, mime_type, bytes },
    })),
  };
}

/** The id of an answer is the same whole and streamed, and when its request is sent again. */
function head({ model, turn, created }: About, object: string) {
  const { jobId, messageId, after } = turn;
  return { id: `chatcmpl-${jobId}-${messageId ?? after}`, object, created, model, thread_id: jobId };
}

function toUsage({ input, output }: TurnUsage) {
  return { prompt_tokens: input, completion_tokens: output, total_tokens: input + output };
}
