import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import type { StoredCase } from "../../core/models/case.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { type AskingCase, keyOf, openQuestions, textOf } from "../../core/runs/questions/open-questions.ts";
import type { A2aParts } from "./parts.ts";
import { contextOf, stateOf } from "./states.ts";

/** Cases of a job whose deliveries are artifacts. */
const MOST_CASES = 100;

export type Json = Readonly<Record<string, unknown>>;

/** A job as a task, in the protocol's JSON. */
export async function toTask(parts: A2aParts, job: StoredJob): Promise<Json> {
  return {
    id: job.id,
    contextId: contextOf(job),
    status: toStatus(job, await openQuestions(parts.cases, job)),
    artifacts: await toArtifacts(parts, job),
    history: [],
    metadata: { agent: job.agent_name, cost: job.total_cost },
  };
}

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

/** What the cases delivered, and the result. */
async function toArtifacts(parts: A2aParts, job: StoredJob): Promise<Json[]> {
  const where = { job_id: job.id };
  const { items } =
    job.case_count === 0
      ? { items: [] }
      : await parts.cases.list({ where, sort: "created_at", limit: MOST_CASES });
  return [...items.flatMap(deliveryOf), ...resultOf(job)];
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
