import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import { fileUrl } from "../../core/conversations/file-parts.ts";
import type { StoredCase } from "../../core/models/case.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import { type FileValue, filesIn } from "../../core/models/file.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { keyOf } from "../../core/models/question-key.ts";
import { type AskingCase, textOf } from "../../core/runs/questions/open-questions.ts";
import { contextOf, stateOf } from "./states.ts";

/** A message of the protocol. */
export type Json = Readonly<Record<string, unknown>>;

/** What a job does, with its open questions, or why it failed, as a message. */
export function toStatus(job: StoredJob, asking: readonly AskingCase[]): Json {
  const message = (messageId: string, parts: readonly Json[]) => ({
    message: { messageId, role: "ROLE_AGENT", taskId: job.id, contextId: contextOf(job), parts },
  });
  const status = { state: stateOf(job, asking.length), timestamp: job.updated_at };
  if (asking.length > 0) {
    const id = `${job.id}/${asking.map(keyOf).join("/")}`;
    return { ...status, ...message(id, asking.flatMap(toParts)) };
  }
  if (job.status !== "failed" || job.error === null) return status;
  return { ...status, ...message(`${job.id}/error`, [{ text: job.error }]) };
}

/** A change of a task's state, as streams and push notifications have it. */
export function toStatusUpdate(job: StoredJob, asking: readonly AskingCase[]): Json {
  return { statusUpdate: { taskId: job.id, contextId: contextOf(job), status: toStatus(job, asking) } };
}

/** An artifact of a task, whole or the next part of one, as streams and push notifications have it. */
export function toArtifactUpdate(
  job: StoredJob,
  artifact: Json,
  { append = false, lastChunk = true }: { readonly append?: boolean; readonly lastChunk?: boolean } = {},
): Json {
  return { artifactUpdate: { taskId: job.id, contextId: contextOf(job), artifact, append, lastChunk } };
}

/** A question as its text, and what a program needs for the answer. */
function toParts(item: AskingCase): Json[] {
  const { question } = item;
  const data = {
    question: keyOf(item),
    case: item.name,
    schema: formToJsonSchema(question.fields),
    deadline: question.deadline,
  };
  return [{ text: textOf(question) }, { data }];
}

/** What a case delivered, as an artifact; none before it has. `base` is that of the URLs of files. */
export function deliveryOf(
  {
    id,
    job_id,
    name,
    description,
    final_delivery,
  }: Pick<StoredCase, "id" | "job_id" | "name" | "description" | "final_delivery">,
  base: string,
): Json[] {
  if (final_delivery === null) return [];
  const files = toFileParts(base, job_id, filesIn(final_delivery).values());
  return [{ artifactId: `case-${id}`, name, description, parts: [{ data: final_delivery }, ...files] }];
}

/** The result of a job, or the answer of a turn, as an artifact; none before it has ended with one. */
export function resultOf({ id, status, result, turn }: TaskJob, base: string): Json[] {
  if (!isTerminal(status) || result === null || result === undefined) return [];
  const files = turn
    ? toFileParts(base, turn.jobId, turn.files)
    : toFileParts(base, id, filesIn(result).values());
  return [{ artifactId: "result", name: "Result", parts: [toPart(result), ...files] }];
}

/** A job as a task shows it; a turn of a thread is one, too, and its files are those of its thread. */
export type TaskJob = StoredJob & {
  readonly turn?: { readonly jobId: string; readonly files: readonly FileValue[] };
};

function toFileParts(base: string, jobId: string, files: Iterable<FileValue>): Json[] {
  return [...files].map((file) => ({
    ...{ url: fileUrl(base, jobId, file), mediaType: file.type, filename: file.name },
  }));
}

function toPart(value: unknown): Json {
  return typeof value === "string" ? { text: value } : { data: value };
}
