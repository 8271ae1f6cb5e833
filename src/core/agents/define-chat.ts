import * as v from "valibot";
import type { Duration } from "../base/duration.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import { type FileValue, FileValueSchema, isFileValue } from "../models/file.ts";
import { messageEvent } from "../models/message-event.ts";
import type { ParameterInput } from "../models/parameter.ts";
import { type AgentDefinition, defineAgent, type ParameterValues } from "./define-agent.ts";
import { file } from "./file.ts";
import type {
  CaseHandle,
  HandlerContext,
  JobHandle,
  JobStartContext,
  ParameterMap,
  StartableAgent,
} from "./run-context.ts";
import { AGENT_NAMES, AgentError } from "./validate-agent.ts";

/** One message of a thread. */
export const ChatMessageSchema = v.object({
  role: v.picklist(["system", "user", "assistant"]),
  content: v.string(),
  /** Files of the job, which `job.open` reads. */
  files: v.optional(v.array(FileValueSchema)),
});
export type ChatMessage = v.InferOutput<typeof ChatMessageSchema>;

/** A message before the first one; its files are those of the thread with these numbers. */
const HistorySchema = v.object({
  ...{ role: ChatMessageSchema.entries.role, content: ChatMessageSchema.entries.content },
  files: v.optional(v.array(v.pipe(v.number(), v.integer(), v.minValue(0)))),
});

const ChatFieldsSchema = v.object({
  message: v.optional(v.pipe(v.string(), v.description("The first message"))),
  files: v.optional(v.pipe(v.array(file()), v.description("Its files"))),
  history: v.optional(v.pipe(v.array(HistorySchema), v.description("Messages before it")), []),
  history_files: v.optional(
    v.pipe(v.array(file()), v.description("Files of those, which they name by numbers")),
  ),
  once: v.optional(v.pipe(v.boolean(), v.description("End after the first answer")), false),
});
/** Fields of a job that is a thread. */
export type ChatFields = v.InferInput<typeof ChatFieldsSchema>;
/** The same as they are stored. */
export type StoredChatFields = v.InferOutput<typeof ChatFieldsSchema>;

/** Argument of `reply`. */
export interface ReplyContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  /** The message to answer. */
  readonly message: string;
  /** The files of the message; read one with `job.open`. */
  readonly files: readonly FileValue[];
  /** The thread so far, this message last. Messages whose answers failed are without an answer. */
  readonly messages: readonly ChatMessage[];
  /** The case of this message and its answer: makes the steps and asks the questions. */
  readonly turn: CaseHandle;
  readonly job: JobHandle;
}

/** An agent that people chat with. */
export interface ChatDefinition<P extends readonly ParameterInput[]>
  extends Omit<AgentDefinition<never, never, never, P>, "methods" | "concurrency" | "rateLimit" | "chats"> {
  /** After how long without a message a thread is completed. @default "30d" */
  readonly idle?: Duration;
  /**
   * Answers a message with text, or with text and files that its steps have made. As the handler of a job does, it makes
   * steps: a model is called in one, which emits its tokens. If it throws, the turn has failed and the thread continues, unless `instructions` have `stop_on_error: true`.
   */
  reply(
    context: ReplyContext<ParameterValues<P>>,
  ): MaybePromise<string | { readonly text: string; readonly files: readonly FileValue[] }>;
}

/** What each turn is closed with. */
export interface TurnDelivery {
  readonly message: string;
  readonly answer: string;
  readonly files?: readonly FileValue[];
}

const LONGEST_NAME = 80;

const {
  methods: _methods,
  concurrency: _concurrency,
  rateLimit: _rate,
  chats: _chats,
  ...SHARED
} = AGENT_NAMES;
const CHAT_NAMES: NamesOf<ChatDefinition<readonly ParameterInput[]>> = { ...SHARED, idle: true, reply: true };

/**
 * Defines an agent whose jobs are threads of a chat: each message is a case, with the steps and questions of its answer.
 *
 * @example
 * const assistant = defineChat({
 *   name: "Assistant",
 *   version: "1.0.0",
 *   reply: ({ messages, turn }) => turn.step("model", ({ emit, signal }) => askModel(messages, { emit, signal })),
 * });
 */
export function defineChat<const P extends readonly ParameterInput[] = readonly []>(
  chat: ChatDefinition<P>,
): AgentDefinition & StartableAgent<ChatFields, TurnDelivery | undefined> {
  const unknown = unknownOption(chat, CHAT_NAMES);
  if (unknown !== undefined) throw new AgentError(String(chat.name), unknown);
  const { idle = "30d", reply, ...agent } = chat;
  const definition = defineAgent({
    ...(agent as Omit<AgentDefinition, "methods" | "concurrency" | "rateLimit">),
    // One failed answer does not end a thread, wherever that was started.
    instructions: { stop_on_error: false, ...agent.instructions },
    methods: {
      job_start: {
        fields: ChatFieldsSchema,
        run: (context) => runThread(context, { reply: reply as ChatDefinition<readonly []>["reply"], idle }),
      },
    },
  });
  return { ...definition, chats: true } as AgentDefinition &
    StartableAgent<ChatFields, TurnDelivery | undefined>;
}

async function runThread(
  { fields, job, ...context }: JobStartContext<StoredChatFields>,
  { reply, idle }: { reply: ChatDefinition<readonly []>["reply"]; idle: Duration },
): Promise<TurnDelivery | undefined> {
  const messages = historyOf(fields);
  let last: TurnDelivery | undefined;
  for (let n = 1; ; n++) {
    const isFirst = n === 1 && isFirstMessage(fields);
    const given = isFirst
      ? { content: fields.message ?? "", files: fields.files }
      : await nextMessage(job, idle);
    if (given === undefined) return last;
    const { content: message, files = [] } = given;
    messages.push(toMessage({ role: "user", content: message, files }));
    const turn = await job.openCase({ id: `turn-${n}`, name: nameOf(message) });
    try {
      const answer: unknown = await reply({
        ...(context as unknown as HandlerContext<never>),
        ...{ job, turn, message, files, messages: [...messages] },
      });
      const { text, files: made } = readAnswer(answer);
      last = { message, answer: text, ...(made.length > 0 && { files: made }) };
      messages.push(toMessage({ role: "assistant", content: text, files: made }));
    } catch (error) {
      if (error instanceof Error && ENDS.has(error.name)) throw error;
      await turn.fail(error instanceof Error ? error : String(error));
      if (fields.once) throw error;
      continue;
    }
    await turn.close({ ...last });
    if (fields.once) return last;
  }
}

/** Errors of a run that has ended, or must. */
const ENDS = new Set(["RunEndedError", "NondeterminismError"]);

type GivenMessage = Omit<ChatMessage, "files"> & { readonly files?: readonly FileValue[] | undefined };

/** The messages before the first one. */
export function historyOf({ history = [], history_files = [] }: Partial<StoredChatFields>): ChatMessage[] {
  return history.map(({ files, ...one }) =>
    toMessage({ ...one, files: files?.flatMap((at) => history_files[at] ?? []) }),
  );
}

/** Whether a thread starts with a message. */
export function isFirstMessage({ message, files = [] }: Partial<StoredChatFields>): boolean {
  return message !== undefined || files.length > 0;
}

/** A message without files has no such member, as those of earlier versions. */
export function toMessage({ files = [], ...message }: GivenMessage): ChatMessage {
  return files.length > 0 ? { ...message, files: [...files] } : message;
}

function readAnswer(answer: unknown): { readonly text: string; readonly files: FileValue[] } {
  if (typeof answer === "string") return { text: answer, files: [] };
  const { text, files } = (answer ?? {}) as { readonly text?: unknown; readonly files?: unknown };
  if (typeof text !== "string" || !Array.isArray(files))
    throw new TypeError(`reply must return text, or { text, files }, not ${typeof answer}`);
  if (!files.every(isFileValue))
    throw new TypeError("reply must return files that its steps have made, or those of the message");
  return { text, files };
}

async function nextMessage(job: JobHandle, idle: Duration): Promise<Message | undefined> {
  try {
    const { data } = await job.waitFor(messageEvent(job.id), { deadline: idle });
    return readMessage(data);
  } catch (error) {
    if (error instanceof Error && error.name === "EventTimeoutError") return undefined;
    throw error;
  }
}

interface Message {
  readonly content: string;
  readonly files?: FileValue[];
}

/** A message as its event has it. */
export function readMessage(data: unknown): Message {
  const { content, files } = data as { readonly content: unknown; readonly files?: unknown };
  const read = Array.isArray(files) ? files.filter(isFileValue) : [];
  return { content: String(content), ...(read.length > 0 && { files: read }) };
}

function nameOf(message: string): string {
  const line = message.trim().split("\n", 1)[0]!;
  return line.length <= LONGEST_NAME ? line || "Message" : `${line.slice(0, LONGEST_NAME - 1)}…`;
}
