import type { SentTurn, ShownEvent, Threads } from "../../core/conversations/threads.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import { type Sent, toInterrupt, toState } from "./to-events.ts";

interface Parts {
  readonly threads: Threads;
  readonly jobs: Jobs;
}

/** A turn of a thread as the events of a run, which ends with its answer, its questions, or its failure. */
export async function* toChatEvents(
  parts: Parts,
  turn: SentTurn,
  {
    threadId,
    runId,
    signal,
  }: { readonly threadId: string; readonly runId: string; readonly signal: AbortSignal },
): AsyncGenerator<Sent, void> {
  const { jobId } = turn;
  const message = new OpenMessage(`${jobId}-${turn.messageId ?? turn.after}`);
  const state = async (): Promise<Sent[]> => {
    const job = await parts.jobs.find(jobId);
    return job ? [{ type: "STATE_SNAPSHOT", snapshot: toState(job) }] : [];
  };
  yield { type: "RUN_STARTED", threadId, runId };
  yield* await state();
  for await (const event of parts.threads.follow(turn, signal)) {
    if (event.type === "opened" || event.type === "attempt" || event.type === "answered") continue;
    if (event.type === "text" || event.type === "notice") {
      yield* message.add(event.text);
      continue;
    }
    yield* message.end();
    if (event.type === "tool") {
      yield* toToolCall(event.tool);
      continue;
    }
    yield* await state();
    const ids = { threadId, runId };
    if (event.type === "failed") yield { type: "RUN_ERROR", message: event.message, code: "failed" };
    else if (event.type === "answer")
      yield { type: "RUN_FINISHED", ...ids, result: event.answer, outcome: { type: "success" } };
    else {
      const interrupts = (await parts.threads.questions(jobId, event)).map(toInterrupt);
      yield { type: "RUN_FINISHED", ...ids, outcome: { type: "interrupt", interrupts } };
    }
    return;
  }
}

/** The text messages of a turn: one, or another after each call of a tool. */
class OpenMessage {
  readonly #id: string;
  #count = 0;
  #open: string | undefined;

  constructor(id: string) {
    this.#id = id;
  }

  *add(delta: string): Generator<Sent> {
    if (this.#open === undefined) {
      this.#open = `${this.#id}-${++this.#count}`;
      yield { type: "TEXT_MESSAGE_START", messageId: this.#open, role: "assistant" };
    }
    yield { type: "TEXT_MESSAGE_CONTENT", messageId: this.#open, delta };
  }

  *end(): Generator<Sent> {
    if (this.#open !== undefined) yield { type: "TEXT_MESSAGE_END", messageId: this.#open };
    this.#open = undefined;
  }
}

function* toToolCall({
  id: toolCallId,
  name,
  input,
  result,
  error,
}: Extract<ShownEvent, { type: "tool" }>["tool"]): Generator<Sent> {
  yield { type: "TOOL_CALL_START", toolCallId, toolCallName: name };
  yield { type: "TOOL_CALL_ARGS", toolCallId, delta: JSON.stringify(input) };
  yield { type: "TOOL_CALL_END", toolCallId };
  const content = error ?? (typeof result === "string" ? result : JSON.stringify(result));
  yield { type: "TOOL_CALL_RESULT", messageId: `${toolCallId}-result`, toolCallId, content };
}
