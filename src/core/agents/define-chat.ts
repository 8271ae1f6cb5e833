import * as v from "valibot";
import type { Duration } from "../base/duration.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import type { ParameterInput } from "../models/parameter.ts";
import { type AgentDefinition, defineAgent, type ParameterValues } from "./define-agent.ts";
import { messageEvent } from "./message-event.ts";
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
});
export type ChatMessage = v.InferOutput<typeof ChatMessageSchema>;

const ChatFieldsSchema = v.object({
  message: v.optional(v.pipe(v.string(), v.description("The first message"))),
  history: v.optional(v.pipe(v.array(ChatMessageSchema), v.description("Messages before it")), []),
  once: v.optional(v.pipe(v.boolean(), v.description("End after the first answer")), false),
});
/** Fields of a job that is a thread. */
export type ChatFields = v.InferInput<typeof ChatFieldsSchema>;

/** Argument of `reply`. */
export interface ReplyContext<Parameters = ParameterMap> extends HandlerContext<Parameters> {
  /** The message to answer. */
  readonly message: string;
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
   * Answers a message with text. As the handler of a job does, it makes steps: a model is called in one, which emits its
   * tokens. If it throws, the turn has failed and the thread continues, unless `instructions` have `stop_on_error: true`.
   */
  reply(context: ReplyContext<ParameterValues<P>>): MaybePromise<string>;
}

/** What each turn is closed with. */
export interface TurnDelivery {
  readonly message: string;
  readonly answer: string;
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
  { fields, job, ...context }: JobStartContext<v.InferOutput<typeof ChatFieldsSchema>>,
  { reply, idle }: { reply: ChatDefinition<readonly []>["reply"]; idle: Duration },
): Promise<TurnDelivery | undefined> {
  const messages: ChatMessage[] = [...fields.history];
  let last: TurnDelivery | undefined;
  for (let n = 1; ; n++) {
    const message = n === 1 && fields.message !== undefined ? fields.message : await nextMessage(job, idle);
    if (message === undefined) return last;
    messages.push({ role: "user", content: message });
    const turn = await job.openCase({ id: `turn-${n}`, name: nameOf(message) });
    try {
      const answer: unknown = await reply({
        ...(context as unknown as HandlerContext<never>),
        ...{ job, turn, message, messages: [...messages] },
      });
      if (typeof answer !== "string") throw new TypeError(`reply must return text, not ${typeof answer}`);
      last = { message, answer };
      messages.push({ role: "assistant", content: answer });
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

async function nextMessage(job: JobHandle, idle: Duration): Promise<string | undefined> {
  try {
    const { data } = await job.waitFor<{ content: string }>(messageEvent(job.id), { deadline: idle });
    return String(data.content);
  } catch (error) {
    if (error instanceof Error && error.name === "EventTimeoutError") return undefined;
    throw error;
  }
}

function nameOf(message: string): string {
  const line = message.trim().split("\n", 1)[0]!;
  return line.length <= LONGEST_NAME ? line || "Message" : `${line.slice(0, LONGEST_NAME - 1)}…`;
}
