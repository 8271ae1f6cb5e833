import { setTimeout as after } from "node:timers/promises";
import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import { fileUrl } from "../../core/conversations/file-parts.ts";
import { toolCallOf } from "../../core/conversations/follow-turn.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import type { JobFeed } from "../../core/http/job-feed.ts";
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

interface Parts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly feed: JobFeed;
}

interface Run {
  /** Id of the job. */
  readonly id: string;
  /** Number of the last entry of its log that earlier runs have shown. */
  readonly after: number;
  readonly threadId: string;
  readonly runId: string;
  /** Of the URLs of files. */
  readonly base: string;
  readonly signal: AbortSignal;
}

/** What happens to a job until it has ended or asks something, as the events of a run. */
export async function* toEvents(parts: Parts, run: Run): AsyncGenerator<Sent, void> {
  const { jobs, cases, feed } = parts;
  const { id, threadId, runId, base, signal } = run;
  const texts = new OpenTexts();
  const state = new RunState();
  yield { type: "RUN_STARTED", threadId, runId };
  const finished = async (job: StoredJob): Promise<Sent | undefined> => {
    if (isTerminal(job.status)) return toEnd(job, { threadId, runId });
    if ((await openQuestions(cases, job)).length === 0) return undefined;
    await after(TOGETHER, undefined, { signal }).catch(() => {});
    const later = await jobs.find(id);
    const interrupts = later ? (await openQuestions(cases, later)).map(toInterrupt) : [];
    // Somebody else has answered: the job continues.
    if (interrupts.length === 0) return undefined;
    return { type: "RUN_FINISHED", threadId, runId, outcome: { type: "interrupt", interrupts } };
  };

  for await (const { event, data } of feed.watch(id, { after: run.after, signal })) {
    if (event === "snapshot") {
      yield* state.update(data as Job);
    } else if (event === "chunk") {
      yield* texts.add(data as EmittedChunks);
    } else if (event === "call" || event === "attempt") {
      const entry = data as RunEntry;
      yield* texts.end(entry);
      if (entry.type === "call" && entry.call === "step" && entry.kind === "tool")
        yield* toToolCall(toolCallOf(entry));
    }
    // Entries of before are shown first: the job may have been asked and answered since.
    if (event !== "snapshot" && event !== "status" && event !== "end" && event !== "begun") continue;
    const job = await jobs.find(id);
    const end = job ? await finished(job) : { type: "RUN_ERROR" as const, message: "The job was removed" };
    // A job that has ended has more in its log.
    if (!end || (job && isTerminal(job.status) && event !== "end")) continue;
    yield* texts.endAll();
    if (job) yield* state.update(job);
    if (job && isTerminal(job.status))
      for (const file of filesIn(job.result).values()) yield toFileEvent(base, id, file);
    yield end;
    return;
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

function toEnd({ status, error, result }: StoredJob, ids: { threadId: string; runId: string }): Sent {
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
