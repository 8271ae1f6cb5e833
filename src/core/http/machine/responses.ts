import * as v from "valibot";
import type { ChatFields } from "../../agents/define-chat.ts";
import type { Caller } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { SentChatMessage, SentTurn } from "../../conversations/thread-message.ts";
import type { Threads } from "../../conversations/threads.ts";
import { EntityIdSchema } from "../../models/scalars.ts";
import { invalid } from "../check.ts";
import { readIdempotencyKey } from "../idempotency-key.ts";
import { sourceOf } from "../live-streams.ts";
import type { HttpEvent, RouteDefinition } from "../route.ts";
import { failure, senderOf } from "./openai-answer.ts";
import { NamedFiles } from "./openai-file-ids.ts";
import { OwnToolsSchema, splitLast, TextFormatSchema, toHistory } from "./openai-history.ts";
import { openAiRoute } from "./openai-route.ts";
import type { MachineParts } from "./parts.ts";
import { toResponseEvents } from "./response-events.ts";
import { nameOf, placeOf, type ResponsePlace, recordKey } from "./response-id.ts";
import { InputSchema, readInput } from "./response-input.ts";
import {
  type AboutResponse,
  ResponseSchema,
  TurnReader,
  type TurnState,
  toResponse,
} from "./response-object.ts";

/** What is not named is ignored: the API gains members all the time. */
const RequestSchema = v.looseObject({
  model: v.string(),
  input: InputSchema,
  instructions: v.nullish(v.string()),
  previous_response_id: v.nullish(v.string()),
  conversation: v.nullish(v.union([EntityIdSchema, v.looseObject({ id: EntityIdSchema })])),
  store: v.nullish(v.boolean(), true),
  stream: v.nullish(v.boolean(), false),
  background: v.nullish(v.boolean(), false),
  tools: OwnToolsSchema,
  text: v.nullish(v.looseObject({ format: TextFormatSchema })),
  prompt: v.nullish(v.never("is not supported: the agent has its own")),
});
type Request = v.InferOutput<typeof RequestSchema>;

const PathSchema = v.object({ id: v.string() });

/** Routes of OpenAI's responses. */
export function responseRoutes({ prefix, seen, streams, files, clock }: MachineParts): RouteDefinition[] {
  const path = `${prefix}/v1/responses`;
  const about = async (threads: Threads, { turn, place, isStored }: Sent): Promise<AboutResponse> => {
    const job = await threads.find(turn.jobId);
    if (!job) throw new ServiceError("not_found", "The response has been deleted");
    const at = turn.at === undefined ? clock().getTime() : Date.parse(turn.at);
    return {
      ...{ name: nameOf(place, isStored), jobId: job.id, model: job.agent_name, isStored },
      isAlone: (job.job_fields as ChatFields).once === true,
      created: Math.floor(at / 1000),
    };
  };
  const stream = (threads: Threads, sent: Sent, caller: Caller) =>
    streams.open(
      sourceOf(async function* (signal) {
        yield* toResponseEvents(await about(threads, sent), threads.follow(sent.turn, signal));
      }),
      { caller },
    );
  return [
    openAiRoute({
      method: "POST",
      path,
      needs: "start",
      summary: "Create a response of an agent",
      description:
        "As OpenAI's route of that name. `model` is the agent's slug. Without a conversation, the request is a job of its own that ends with its answer; `previous_response_id` gives it the messages before it. With `conversation`, an id of your choice, the last message continues that thread, or starts it. An open question of the agent is the text of the response, and the next message answers it. With `stream: true`, the response is a stream of events; with `background: true`, it is returned before it is complete. Parameters such as `temperature` are ignored.",
      body: RequestSchema,
      responses: {
        200: {
          description: "The response; with `stream: true`, a stream of its events",
          schema: ResponseSchema,
        },
      },
      handler: async ({ body, event, caller }) => {
        const { threads, jobs } = seen(caller);
        const named = new NamedFiles(files, jobs);
        const sent = await send(threads, body, { event, caller, named });
        if (body.stream) return stream(threads, sent, caller);
        const response = await about(threads, sent);
        if (body.background) return toResponse(response, await recorded(threads, sent.turn, response));
        const events = threads.follow(sent.turn, event.req.signal);
        const state = await new TurnReader(response).addAll(events);
        if (state.status === "completed") return toResponse(response, state);
        throw failure(state.error ?? "The service is closing");
      },
    }),
    openAiRoute({
      method: "GET",
      path: `${path}/{id}`,
      query: v.looseObject({
        stream: v.optional(v.picklist(["true", "false"]), "false"),
        starting_after: v.optional(v.never("is not supported: the stream starts with the first event")),
      }),
      needs: "view",
      summary: "Show a response",
      description:
        "While it is made, its `status` is `in_progress`. With `stream=true`, its events, from the first.",
      params: PathSchema,
      responses: { 200: { description: "The response", schema: ResponseSchema } },
      handler: async ({ params, query, caller }) => {
        const { threads } = seen(caller);
        const sent = await find(threads, params.id, caller);
        if (query.stream === "true") return stream(threads, sent, caller);
        const response = await about(threads, sent);
        return toResponse(response, await recorded(threads, sent.turn, response));
      },
    }),
    openAiRoute({
      method: "DELETE",
      path: `${path}/{id}`,
      needs: "operate",
      summary: "Delete a response",
      description:
        "Deletes its job, and with it the responses to answers that it has asked for. One that is being made is stopped first. A response of a conversation is part of that, and refused.",
      params: PathSchema,
      responses: {
        200: {
          description: "It is deleted",
          schema: v.object({ id: v.string(), object: v.literal("response"), deleted: v.literal(true) }),
        },
      },
      handler: async ({ params: { id }, caller }) => {
        const { threads, runner } = seen(caller);
        const sent = await find(threads, id, caller);
        const { jobId, isAlone } = await about(threads, sent);
        if (!isAlone) {
          throw new ServiceError(
            "invalid_transition",
            `Response "${id}" is part of the conversation "${jobId}"`,
            {
              detail: "Delete the job of that id: the whole conversation.",
            },
          );
        }
        await runner.remove(jobId, caller);
        return { id, object: "response", deleted: true };
      },
    }),
  ];
}

interface Sent {
  readonly turn: SentTurn;
  readonly place: ResponsePlace;
  readonly isStored: boolean;
}

async function send(
  threads: Threads,
  { model, input, instructions, ...body }: Request,
  {
    event,
    caller,
    named,
  }: { readonly event: HttpEvent; readonly caller: Caller; readonly named: NamedFiles },
): Promise<Sent> {
  const { previous_response_id: previous, store: isStored, background } = body;
  if (typeof previous === "string" && body.conversation)
    throw invalid("body", "previous_response_id and conversation exclude each other: send one of them");
  if (background && !isStored) throw invalid("body", "background needs store: the response is read later");
  const slug = threads.agent(model);
  const before =
    typeof previous === "string" ? await conversationOf(threads, previous, { caller, named }) : [];
  const items = await readInput(input, (id) => readItem(threads, id, { caller, named }));
  // Those that the conversation has are not repeated with each of its responses.
  const isNew = instructions && before.findLast(({ role }) => role === "system")?.content !== instructions;
  const { content, files, history } = splitLast([
    ...before,
    ...(isNew ? [{ role: "system" as const, content: instructions }] : []),
    ...(await toHistory(items, (id) => named.find(id))),
  ]);
  const given = readIdempotencyKey(event);
  const key = recordKey(given);
  const { conversation } = body;
  const id = typeof conversation === "string" ? conversation : conversation?.id;
  const turn = await threads.send(slug, id, {
    ...{ content, files, history, key, isKeyMade: given === undefined, filesOf: [...named.jobs] },
    ...senderOf(event, caller),
  });
  const isFirst = turn.messageId === undefined && turn.answered === undefined;
  return { turn, place: { jobId: turn.jobId, key: isFirst ? undefined : key }, isStored };
}

/** The response with this id, or the one whose message has it. */
async function find(threads: Threads, id: string, by: Caller): Promise<Sent> {
  const place = placeOf(id);
  const turn = place && (await threads.sent(place.jobId, place.key, { by, via: "openai" }));
  if (place && turn) return { turn, place, isStored: true };
  throw new ServiceError("not_found", `There is no response "${id}"`, {
    detail: "It may have been deleted, or not stored (store: false).",
  });
}

/** The conversation that a response ends. A message whose answer failed is without one. */
async function conversationOf(threads: Threads, id: string, who: Who): Promise<SentChatMessage[]> {
  const { jobId, caseId, status, text, files } = await finished(threads, id, who.caller);
  who.named.jobs.add(jobId);
  const messages = caseId === undefined ? [] : await threads.messagesUntil(jobId, caseId);
  return status === "failed" ? messages : [...messages, { role: "assistant", content: text, files }];
}

async function readItem(threads: Threads, id: string, who: Who) {
  const { jobId, text, files, status, error } = await finished(threads, id, who.caller);
  if (status === "failed")
    throw new ServiceError("invalid_request", `Item "${id}" has no text`, { detail: error ?? "It failed." });
  who.named.jobs.add(jobId);
  return { content: text, files };
}

/** Who asks, and the files that the request names. */
interface Who {
  readonly caller: Caller;
  readonly named: NamedFiles;
}

/** A response that another one follows. A question has its reference, by which an answer finds it. */
async function finished(threads: Threads, id: string, by: Caller): Promise<TurnState & { jobId: string }> {
  const { turn } = await find(threads, id, by);
  const state = await recorded(threads, turn, { isAlone: true });
  if (state.status !== "in_progress") return { ...state, jobId: turn.jobId };
  throw new ServiceError("invalid_transition", `Response "${id}" is not complete`, {
    detail: "Wait until it is.",
  });
}

function recorded(
  threads: Threads,
  turn: SentTurn,
  response: Pick<AboutResponse, "isAlone">,
): Promise<TurnState> {
  return new TurnReader(response).addAll(threads.recorded(turn));
}
