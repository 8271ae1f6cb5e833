import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import { fileUrl } from "../../core/conversations/file-parts.ts";
import { toolCallOf } from "../../core/conversations/follow-turn.ts";
import type { ShownJob } from "../../core/http/first-response.ts";
import type { StoryEvent } from "../../core/http/job-story.ts";
import type { EmittedChunks } from "../../core/models/emitted-chunks.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import { type FileValue, filesIn } from "../../core/models/file.ts";
import { keyOf } from "../../core/models/question-key.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { type AskingCase, textOf } from "../../core/runs/questions/open-questions.ts";
import { RunState } from "./run-state.ts";
import type { Sent } from "./sent.ts";
import { toToolCall } from "./to-tool-call.ts";

interface Run {
  readonly threadId: string;
  readonly runId: string;
  /** Of the URLs of files. */
  readonly base: string;
}

/** What happens to a job until it has ended or asks something, as the events of a run. */
export async function* toEvents(
  story: AsyncIterable<StoryEvent>,
  { threadId, runId, base }: Run,
): AsyncGenerator<Sent, void> {
  const texts = new OpenTexts();
  const state = new RunState();
  for await (const event of story) {
    if (event.type === "began") {
      yield { type: "RUN_STARTED", threadId, runId };
      yield* state.update(event.shown.job);
    } else if (event.type === "chunk") {
      yield* texts.add(event.chunks);
    } else if (event.type === "moved") {
      yield* state.update(event.job);
    } else if (event.type === "entry") {
      const { entry } = event;
      yield* texts.end(entry);
      if (entry.type === "call" && entry.call === "step" && entry.kind === "tool")
        yield* toToolCall(toolCallOf(entry));
    } else {
      yield* texts.endAll();
      if (event.type === "removed") return yield { type: "RUN_ERROR", message: "The job was removed" };
      const { job } = event.shown;
      yield* state.update(job);
      if (isTerminal(job.status))
        for (const file of filesIn(job.result).values()) yield toFileEvent(base, job.id, file);
      yield toEnd(event.shown, { threadId, runId });
    }
  }
}

/** The steps that have emitted something, and the text messages that they write. */
class OpenTexts {
  readonly #open = new Map<string, { readonly messageId: string; readonly stepName: string }>();

  *add({ case_id, position, name, run, attempt, chunks }: EmittedChunks): Generator<Sent> {
    const place = placeOf({ case_id, position });
    const messageId = `${place}/${run}/${attempt}`;
    const before = this.#open.get(place);
    // Another attempt writes another message.
    if (before && before.messageId !== messageId)
      yield { type: "TEXT_MESSAGE_END", messageId: before.messageId };
    if (!before) yield { type: "STEP_STARTED", stepName: name };
    if (before?.messageId !== messageId) yield { type: "TEXT_MESSAGE_START", messageId, role: "assistant" };
    this.#open.set(place, { messageId, stepName: name });
    const text = chunks.filter((chunk) => typeof chunk === "string").join("");
    if (text !== "") yield { type: "TEXT_MESSAGE_CONTENT", messageId, delta: text };
    for (const value of chunks)
      if (typeof value !== "string") yield { type: "CUSTOM", name: "chunk", value: { messageId, value } };
  }

  /** A step is over, or an attempt of it. */
  *end(entry: RunEntry): Generator<Sent> {
    if (entry.type === "attempt" || entry.type !== "call" || entry.call !== "step") return;
    const place = placeOf(entry);
    const open = this.#open.get(place);
    if (!open) yield { type: "STEP_STARTED", stepName: entry.name };
    else yield* this.#close(place, open);
    if (!open) yield { type: "STEP_FINISHED", stepName: entry.name };
  }

  *endAll(): Generator<Sent> {
    for (const [place, open] of [...this.#open]) yield* this.#close(place, open);
  }

  *#close(place: string, { messageId, stepName }: { messageId: string; stepName: string }): Generator<Sent> {
    this.#open.delete(place);
    yield { type: "TEXT_MESSAGE_END", messageId };
    yield { type: "STEP_FINISHED", stepName };
  }
}

function placeOf({
  case_id,
  position,
}: {
  readonly case_id?: string | undefined;
  readonly position: number;
}): string {
  return `${case_id ?? "job"}/${position}`;
}

function toEnd({ job, asking }: ShownJob, ids: { threadId: string; runId: string }): Sent {
  const { status, error, result } = job;
  if (asking.length > 0) {
    const interrupts = asking.map(toInterrupt);
    return { type: "RUN_FINISHED", ...ids, outcome: { type: "interrupt", interrupts } };
  }
  if (status === "failed") return { type: "RUN_ERROR", message: error ?? "The job has failed", code: status };
  if (status === "cancelled") return { type: "RUN_FINISHED", ...ids, outcome: { type: "cancelled" } };
  return { type: "RUN_FINISHED", ...ids, result, outcome: { type: "success" } };
}

/** A file of a result or an answer, for which the protocol has no event of its own. */
export function toFileEvent(base: string, jobId: string, file: FileValue): Sent {
  return { type: "CUSTOM", name: "file", value: { ...file, url: fileUrl(base, jobId, file) } };
}

/** A question as a user interface asks it. */
export function toInterrupt(item: AskingCase) {
  const { question } = item;
  return {
    id: keyOf(item),
    reason: "question",
    message: textOf(question),
    responseSchema: formToJsonSchema(question.fields),
    ...(question.deadline !== null && { expiresAt: question.deadline }),
    metadata: { case: item.name },
  };
}
