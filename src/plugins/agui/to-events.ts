import { setTimeout as after } from "node:timers/promises";
import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import { fileUrl } from "../../core/conversations/file-parts.ts";
import { toolCallOf } from "../../core/conversations/follow-turn.ts";
import { keepFirst, type ShownJob } from "../../core/http/first-response.ts";
import { isAsking, isBusy } from "../../core/http/settled.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import { type FileValue, filesIn } from "../../core/models/file.ts";
import type { Job, StoredJob } from "../../core/models/job.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import type { EmittedChunks } from "../../core/runs/emissions/emissions.ts";
import { type AskingCase, keyOf, openQuestions, textOf } from "../../core/runs/questions/open-questions.ts";
import { RunState } from "./run-state.ts";
import type { Sent } from "./sent.ts";
import { toToolCall } from "./to-tool-call.ts";

/** Milliseconds for which a run waits for further questions: those that were asked together are shown together. */
const TOGETHER = 100;

type Parts = Parameters<typeof keepFirst>[0];

interface Run {
  /** Id of the job. */
  readonly id: string;
  /** Number of the last entry of its log that earlier runs have shown. */
  readonly after: number;
  readonly threadId: string;
  readonly runId: string;
  /** Of the run among those of its job. */
  readonly key: string;
  /** What it has ended with before, if it is sent again. */
  readonly first: ShownJob | undefined;
  /** Of the URLs of files. */
  readonly base: string;
  readonly signal: AbortSignal;
}

/**
 * What happens to a job until it has ended or asks something, as the events of a run; one that is sent again ends where it
 * ended before.
 */
export async function* toEvents(parts: Parts, run: Run): AsyncGenerator<Sent, void> {
  const { jobs, feed } = parts;
  const { id, threadId, runId, first, base, signal } = run;
  const { after } = first ?? run;
  let until = after;
  const texts = new OpenTexts();
  const state = new RunState();
  yield { type: "RUN_STARTED", threadId, runId };
  for await (const { event, id: seq = until, data } of feed.watch(id, { after, signal })) {
    until = seq;
    if (event === "snapshot") {
      yield* state.update(first?.job ?? (data as Job));
    } else if (event === "chunk") {
      yield* texts.add(data as EmittedChunks);
    } else if (event === "call" || event === "attempt") {
      const entry = data as RunEntry;
      yield* texts.end(entry);
      if (entry.type === "call" && entry.call === "step" && entry.kind === "tool")
        yield* toToolCall(toolCallOf(entry));
    }
    if (first && until < first.until && event !== "end") continue;
    // Entries of before are shown first: the job may have been asked and answered since.
    if (!first && event !== "snapshot" && event !== "status" && event !== "end" && event !== "begun")
      continue;
    const job = first?.job ?? (await jobs.find(id));
    if (!job) {
      yield* texts.endAll();
      yield { type: "RUN_ERROR", message: "The job was removed" };
      return;
    }
    // A job that has ended has more in its log.
    if (!first && isTerminal(job.status) && event !== "end") continue;
    const shown = first ?? (await settle(parts, run, { job, after, until }));
    if (!shown) continue;
    yield* texts.endAll();
    yield* state.update(shown.job);
    if (isTerminal(shown.job.status))
      for (const file of filesIn(shown.job.result).values()) yield toFileEvent(base, id, file);
    yield toEnd(shown, { threadId, runId });
    return;
  }
}

/** The job as a run ends with it, which is stored; `undefined` while the run continues. */
async function settle(
  parts: Parts,
  { id, key, signal }: Run,
  { job, ...places }: { readonly job: StoredJob; readonly after: number; readonly until: number },
): Promise<ShownJob | undefined> {
  if (isTerminal(job.status)) return keepFirst(parts, { job, key }, places);
  if ((await openQuestions(parts.cases, job)).length === 0) return undefined;
  await after(TOGETHER, undefined, { signal }).catch(() => {});
  const later = await parts.jobs.find(id);
  if (!later || isTerminal(later.status) || !isAsking(later)) return undefined;
  const shown = await keepFirst(parts, { job: later, key }, places);
  // Somebody else has answered: the job continues.
  return isBusy(shown.job) ? undefined : shown;
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
