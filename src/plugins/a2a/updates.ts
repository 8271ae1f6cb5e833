import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import type { StoredCase } from "../../core/models/case.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { type AskingCase, keyOf, textOf } from "../../core/runs/questions/open-questions.ts";
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

/** What a case delivered, as an artifact; none before it has. */
export function deliveryOf({
  id,
  name,
  description,
  final_delivery,
}: Pick<StoredCase, "id" | "name" | "description" | "final_delivery">): Json[] {
  if (final_delivery === null) return [];
  return [{ artifactId: `case-${id}`, name, description, parts: [{ data: final_delivery }] }];
}

/** The result of a job, as an artifact; none before it has ended with one. */
export function resultOf({ status, result }: StoredJob): Json[] {
  if (!isTerminal(status) || result === null || result === undefined) return [];
  return [{ artifactId: "result", name: "Result", parts: [toPart(result)] }];
}

function toPart(value: unknown): Json {
  return typeof value === "string" ? { text: value } : { data: value };
}
