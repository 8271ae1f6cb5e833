import { formToJsonSchema } from "../../agents/to-json-schema.ts";
import { approvalField } from "../../conversations/approval-field.ts";
import { fileUrl } from "../../conversations/file-parts.ts";
import type { SentTurn, ShownEvent } from "../../conversations/thread-message.ts";
import type { Threads } from "../../conversations/threads.ts";
import type { Question } from "../../models/question.ts";
import { keyOf } from "../../models/question-key.ts";
import type { AskingCase } from "../../runs/questions/open-questions.ts";

/** A chunk of the AI SDK's UI message stream. */
export type UiChunk = { readonly type: string } & Readonly<Record<string, unknown>>;

/** An answer that a client has given to a part of its last message. */
export interface AnsweredPart {
  /** Key of the question. */
  readonly key: string;
  readonly toolCallId: string;
  /** Where the part was one of yes or no. */
  readonly approved?: boolean | undefined;
}

/** A turn for a client of the AI SDK. */
export interface UiTurn {
  readonly turn: SentTurn;
  /** The message that the chunks make, or add to. */
  readonly messageId: string;
  /** What the client has answered in that message. */
  readonly answers: readonly AnsweredPart[];
}

/** Separates the key of a question, which has none, from the message that shows it: clients find a part by its id alone. */
const SHOWN = "~";

/** The key of the question that a part with this id asks; `undefined` for the call of a tool. */
export function keyOfPart(toolCallId: string): string | undefined {
  const at = toolCallId.indexOf(SHOWN);
  return at === -1 ? undefined : toolCallId.slice(0, at);
}

/**
 * A turn as the chunks of a message: texts, files, calls of tools, and questions. A question of yes or no is the approval of a
 * tool; any other one a tool that the client has to call: its input has the form, its output is the answer.
 */
export async function* toUiChunks(
  threads: Threads,
  { turn, messageId, answers }: UiTurn,
  { base, signal }: { readonly base: string; readonly signal: AbortSignal },
): AsyncGenerator<UiChunk, void> {
  const parts = new MessageParts(messageId);
  const isAskedAgain = turn.answered?.again !== undefined || turn.answered?.agreed !== undefined;
  yield { type: "start", messageId, messageMetadata: { thread_id: turn.jobId } };
  // They belong to the step that has asked. Where the same is asked again, that step remains open.
  if (!isAskedAgain) yield* answers.flatMap(toOutcome);
  if (!isAskedAgain || answers.length === 0) yield { type: "start-step" };
  for await (const event of threads.follow(turn, signal)) {
    if (event.type === "text" || event.type === "notice") {
      yield* parts.addText(event.text);
      continue;
    }
    if (event.type === "opened") continue;
    if (event.type === "attempt") {
      const { name, attempt, error } = event;
      yield { type: "data-attempt", transient: true, data: { name, attempt, error } };
      continue;
    }
    yield* parts.endText();
    if (event.type === "tool") {
      yield* toToolCall(event.tool);
      continue;
    }
    if (event.type === "answered") {
      yield* parts.toAnswered(event);
      continue;
    }
    yield* await end(event);
    return;
  }

  async function end(
    event: Extract<ShownEvent, { type: "question" | "answer" | "failed" }>,
  ): Promise<UiChunk[]> {
    if (event.type === "failed") return [{ type: "error", errorText: event.message }];
    if (event.type === "answer") {
      const { caseId: case_id, usage, files } = event;
      const parts = files.map((file) => ({
        ...{ type: "file", mediaType: file.type, url: fileUrl(base, turn.jobId, file) },
      }));
      return [...parts, ...finish("stop", { case_id, usage })];
    }
    const asking = await threads.questions(turn.jobId, event);
    const asked = asking.flatMap((item) => {
      const known = answers.find(({ key }) => key === keyOf(item));
      return toAsked(item, known?.toolCallId ?? parts.idOf(item));
    });
    return [...asked, ...finish("tool-calls", { case_id: event.caseId })];
  }
}

function finish(finishReason: string, messageMetadata: object): UiChunk[] {
  return [{ type: "finish-step" }, { type: "finish", finishReason, messageMetadata }];
}

/** What came of an approval; the output of another question is in its part. */
function toOutcome({ toolCallId, approved }: AnsweredPart): UiChunk[] {
  if (approved === undefined) return [];
  if (!approved) return [{ type: "tool-output-denied", toolCallId }];
  return [{ type: "tool-output-available", toolCallId, output: { approved } }];
}

function toAsked(item: AskingCase, toolCallId: string): UiChunk[] {
  const { question } = item;
  const { question: text, note, deadline, fields } = question;
  const input = {
    ...{ question: text, note, case: item.name },
    ...(deadline !== null && { deadline }),
    schema: formToJsonSchema(fields),
  };
  const asked = {
    type: "tool-input-available",
    toolCallId,
    toolName: nameOf(question),
    dynamic: true,
    input,
  };
  if (!approvalField(fields)) return [asked];
  return [asked, { type: "tool-approval-request", approvalId: toolCallId, toolCallId }];
}

function nameOf({ name }: Question): string {
  return name ?? "question";
}

/** A call of a tool of the agent: nothing for the client to do. */
function* toToolCall({
  id: toolCallId,
  name: toolName,
  input,
  result: output,
  error: errorText,
}: Extract<ShownEvent, { type: "tool" }>["tool"]): Generator<UiChunk> {
  const call = { toolCallId, dynamic: true, providerExecuted: true };
  yield { type: "tool-input-available", ...call, toolName, input };
  if (errorText === undefined) yield { type: "tool-output-available", ...call, output };
  else yield { type: "tool-output-error", ...call, errorText };
}

class MessageParts {
  readonly #messageId: string;
  #texts = 0;
  #isOpen = false;

  constructor(messageId: string) {
    this.#messageId = messageId;
  }

  *addText(delta: string): Generator<UiChunk> {
    if (!this.#isOpen) yield { type: "text-start", id: String(++this.#texts) };
    this.#isOpen = true;
    yield { type: "text-delta", id: String(this.#texts), delta };
  }

  *endText(): Generator<UiChunk> {
    if (this.#isOpen) yield { type: "text-end", id: String(this.#texts) };
    this.#isOpen = false;
  }

  idOf(item: AskingCase): string {
    return `${keyOf(item)}${SHOWN}${this.#messageId}`;
  }

  *toAnswered({
    caseId: id,
    question,
    answer,
  }: Extract<ShownEvent, { type: "answered" }>): Generator<UiChunk> {
    const item = { id, name: question.question, question } as AskingCase;
    const toolCallId = this.idOf(item);
    const field = approvalField(question.fields);
    yield* toAsked(item, toolCallId);
    if (field) yield* toOutcome({ key: "", toolCallId, approved: answer[field.name] === true });
    else yield { type: "tool-output-available", toolCallId, output: answer };
    yield { type: "finish-step" };
    yield { type: "start-step" };
  }
}
