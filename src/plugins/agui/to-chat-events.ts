import type { SentTurn } from "../../core/conversations/thread-message.ts";
import type { Threads } from "../../core/conversations/threads.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import { RunState } from "./run-state.ts";
import type { Sent } from "./sent.ts";
import { toFileEvent, toInterrupt } from "./to-events.ts";
import { toToolCall } from "./to-tool-call.ts";

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
    base,
    signal,
  }: {
    readonly threadId: string;
    readonly runId: string;
    /** Of the URLs of files. */
    readonly base: string;
    readonly signal: AbortSignal;
  },
): AsyncGenerator<Sent, void> {
  const { jobId } = turn;
  const message = new OpenMessage(`${jobId}-${turn.messageId ?? turn.after}`);
  const known = new RunState();
  const state = async (): Promise<Sent[]> => {
    const job = await parts.jobs.find(jobId);
    return job ? [...known.update(job)] : [];
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
    else if (event.type === "answer") {
      for (const file of event.files) yield toFileEvent(base, jobId, file);
      yield { type: "RUN_FINISHED", ...ids, result: event.answer, outcome: { type: "success" } };
    } else {
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
