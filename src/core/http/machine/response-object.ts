import * as v from "valibot";
import type { ToolCall, TurnUsage } from "../../conversations/follow-turn.ts";
import type { ShownEvent } from "../../conversations/thread-message.ts";
import type { FileValue } from "../../models/file.ts";
import { describeShown } from "./openai-answer.ts";
import { idOfJobFile } from "./openai-file-ids.ts";

/** What a response is about. */
export interface AboutResponse {
  /** What its ids end with. */
  readonly name: string;
  readonly jobId: string;
  readonly model: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** Whether its job is only for it: a question has a reference then. */
  readonly isAlone: boolean;
  readonly isStored: boolean;
}

/** How far a turn has come. */
export interface TurnState {
  readonly status: "in_progress" | "completed" | "failed";
  /** Its case, once that is known. */
  readonly caseId?: string;
  readonly text: string;
  /** Files of the job that belong to the text. */
  readonly files: readonly FileValue[];
  readonly tools: readonly ToolCall[];
  readonly usage?: TurnUsage;
  readonly error?: string;
}

const MessageSchema = v.object({
  id: v.string(),
  type: v.literal("message"),
  role: v.literal("assistant"),
  status: v.picklist(["in_progress", "completed"]),
  content: v.array(
    v.object({
      type: v.literal("output_text"),
      text: v.string(),
      annotations: v.array(
        v.pipe(
          v.object({
            type: v.literal("file_path"),
            ...{ file_id: v.string(), filename: v.string(), index: v.number() },
          }),
          v.description("A file of the answer: `GET /v1/files/{file_id}/content` gives it"),
        ),
      ),
      logprobs: v.array(v.unknown()),
    }),
  ),
});
const ToolSchema = v.object({
  id: v.string(),
  type: v.literal("mcp_call"),
  server_label: v.string(),
  name: v.string(),
  arguments: v.string(),
  output: v.nullable(v.string()),
  error: v.nullable(v.string()),
  status: v.picklist(["completed", "failed"]),
  approval_request_id: v.null(),
});
/** A response as OpenAI's clients read it. */
export const ResponseSchema = v.object({
  id: v.string(),
  object: v.literal("response"),
  created_at: v.number(),
  status: v.picklist(["in_progress", "completed", "failed"]),
  error: v.nullable(v.object({ code: v.string(), type: v.string(), message: v.string() })),
  incomplete_details: v.null(),
  instructions: v.null(),
  metadata: v.object({}),
  model: v.string(),
  output: v.array(v.union([MessageSchema, ToolSchema])),
  parallel_tool_calls: v.boolean(),
  temperature: v.null(),
  tool_choice: v.literal("auto"),
  tools: v.array(v.unknown()),
  top_p: v.null(),
  text: v.object({ format: v.object({ type: v.literal("text") }) }),
  truncation: v.literal("disabled"),
  store: v.boolean(),
  conversation: v.nullable(v.object({ id: v.string() })),
  usage: v.optional(
    v.object({
      input_tokens: v.number(),
      input_tokens_details: v.object({ cached_tokens: v.number() }),
      output_tokens: v.number(),
      output_tokens_details: v.object({ reasoning_tokens: v.number() }),
      total_tokens: v.number(),
    }),
  ),
  thread_id: v.pipe(v.string(), v.description("Id of the job")),
});
export type ResponseObject = v.InferOutput<typeof ResponseSchema>;
export type MessageItem = v.InferOutput<typeof MessageSchema>;

export const STARTED: TurnState = { status: "in_progress", text: "", files: [], tools: [] };

/** What a turn has come to with an event. The text of an answer is the one that is recorded, not what led to it. */
export class TurnReader {
  readonly #isAlone: boolean;
  #notice = "";
  state: TurnState = STARTED;

  constructor({ isAlone }: Pick<AboutResponse, "isAlone">) {
    this.#isAlone = isAlone;
  }

  add(event: ShownEvent): TurnState {
    this.state = { ...this.state, ...this.#changeOf(event) };
    return this.state;
  }

  /** Reads all of a turn, or what there is of it. */
  async addAll(events: AsyncIterable<ShownEvent>): Promise<TurnState> {
    for await (const event of events) this.add(event);
    return this.state;
  }

  #changeOf(event: ShownEvent): Partial<TurnState> {
    switch (event.type) {
      case "opened":
        return { caseId: event.caseId };
      case "notice":
        this.#notice += event.text;
        return {};
      case "tool":
        return { tools: [...this.state.tools, event.tool] };
      case "question": {
        const text = this.#notice + describeShown(event, this.#isAlone);
        return { status: "completed", caseId: event.caseId, text };
      }
      case "answer":
        return {
          ...{ status: "completed", text: this.#notice + event.answer },
          ...{ files: event.files, usage: event.usage },
        };
      case "failed":
        return { status: "failed", error: event.message };
      default:
        return {};
    }
  }
}

/** A response, with the message before the calls of tools: its place is known when its first word comes. */
export function toResponse(about: AboutResponse, state: TurnState): ResponseObject {
  const { name, jobId, model, created, isAlone, isStored } = about;
  const { status, tools, usage, error } = state;
  return {
    id: `resp_${name}`,
    object: "response",
    created_at: created,
    status,
    error: error === undefined ? null : { code: "server_error", type: "server_error", message: error },
    incomplete_details: null,
    instructions: null,
    metadata: {},
    model,
    output: [
      ...(status === "completed" ? [toMessage(about, state)] : []),
      ...tools.map((tool) => toToolItem(about, tool)),
    ],
    parallel_tool_calls: true,
    temperature: null,
    tool_choice: "auto",
    tools: [],
    top_p: null,
    text: { format: { type: "text" } },
    truncation: "disabled",
    store: isStored,
    conversation: isAlone ? null : { id: jobId },
    ...(usage && { usage: toUsage(usage) }),
    thread_id: jobId,
  };
}

/** The message of a response; without what it says, it has just started. */
export function toMessage(about: Pick<AboutResponse, "name" | "jobId">, said?: Said): MessageItem {
  return {
    id: `msg_${about.name}`,
    type: "message",
    role: "assistant",
    status: said ? "completed" : "in_progress",
    content: said ? [toPart(about, said)] : [],
  };
}

type Said = Pick<TurnState, "text" | "files">;

/** A text, with its files at its end. */
export function toPart(
  { jobId }: Pick<AboutResponse, "jobId">,
  { text, files }: Said,
): MessageItem["content"][number] {
  const annotations = files.map(({ sha256, name: filename }) => ({
    ...{ type: "file_path" as const, file_id: idOfJobFile(jobId, sha256), filename, index: text.length },
  }));
  return { type: "output_text", text, annotations, logprobs: [] };
}

/** A call of the agent's own tool: one that the client need not make. */
export function toToolItem(
  { model }: Pick<AboutResponse, "model">,
  { id, name, input, result, error }: ToolCall,
): v.InferOutput<typeof ToolSchema> {
  return {
    id: `mcp_${id}`,
    type: "mcp_call",
    server_label: model,
    name,
    arguments: JSON.stringify(input),
    output: error === undefined ? textOfResult(result) : null,
    error: error ?? null,
    status: error === undefined ? "completed" : "failed",
    approval_request_id: null,
  };
}

function textOfResult(result: unknown): string {
  return typeof result === "string" ? result : JSON.stringify(result);
}

function toUsage({ input, output }: TurnUsage): NonNullable<ResponseObject["usage"]> {
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: output,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input + output,
  };
}
