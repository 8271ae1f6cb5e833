import { formToJsonSchema } from "../../core/agents/to-json-schema.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { type AskingCase, keyOf, openQuestions, textOf } from "../../core/runs/questions/open-questions.ts";
import type { A2aParts } from "./parts.ts";
import { contextOf, stateOf } from "./states.ts";

/** Cases of a job whose deliveries are artifacts. */
const MOST_CASES = 100;

type Json = Readonly<Record<string, unknown>>;

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
  const deliveries = items
    .filter(({ final_delivery }) => final_delivery !== null)
    .map(({ id, name, description, final_delivery }) => ({
      ...{ artifactId: `case-${id}`, name, description },
      parts: [{ data: final_delivery }],
    }));
  const isThere = isTerminal(job.status) && job.result !== null && job.result !== undefined;
  return isThere
    ? [...deliveries, { artifactId: "result", name: "Result", parts: [toPart(job.result)] }]
    : deliveries;
}

function toPart(value: unknown): Json {
  return typeof value === "string" ? { text: value } : { data: value };
}
