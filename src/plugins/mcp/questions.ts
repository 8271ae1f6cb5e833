import { formToJsonSchema, readFlat } from "../../core/agents/to-json-schema.ts";
import { ServiceError } from "../../core/base/errors.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { StoredCase } from "../../core/models/case.ts";
import type { StoredJob } from "../../core/models/job.ts";
import type { Question } from "../../core/models/question.ts";
import type { Runner } from "../../core/runs/runner.ts";

/** A case whose question is open. */
export type AskingCase = StoredCase & { readonly question: Question };

/** The open questions of a job, oldest first. */
export async function openQuestions(cases: Cases, job: StoredJob): Promise<AskingCase[]> {
  if (job.open_questions === 0) return [];
  const where = { job_id: job.id, status: "awaiting" };
  const { items } = await cases.list({ where, sort: "created_at", limit: Number.POSITIVE_INFINITY });
  return items.filter((item): item is AskingCase => item.question !== null);
}

/** Names a question among all that a job ever asks. */
export function keyOf({ id, question }: AskingCase): string {
  return `${id}.${question.id}`;
}

/** A question as a form that a client shows to its user. */
export function toElicitation({ question }: AskingCase): Record<string, unknown> {
  return {
    method: "elicitation/create",
    params: {
      mode: "form",
      message: textOf(question),
      requestedSchema: formToJsonSchema(question.fields, { flat: true }),
    },
  };
}

export function textOf({ question, note }: Question): string {
  return note === undefined ? question : `${question}\n\n${note}`;
}

/** An answer to the question that a key names; `undefined` if it is not open. */
export async function answerByKey(
  { cases, runner }: { readonly cases: Cases; readonly runner: Runner },
  job: StoredJob,
  given: {
    readonly key: string;
    readonly values: Readonly<Record<string, unknown>>;
    readonly message?: string | undefined;
  },
  by: Parameters<Runner["answer"]>[3],
): Promise<StoredCase | undefined> {
  const asking = (await openQuestions(cases, job)).find((item) => keyOf(item) === given.key);
  if (!asking) return undefined;
  const answer = readFlat(asking.question.fields, given.values);
  try {
    const request = { answer, message: given.message ?? null, question_id: asking.question.id };
    return await runner.answer(job.id, asking.id, request, by);
  } catch (error) {
    // Somebody else was faster, or its time is over.
    if (error instanceof ServiceError && error.type === "invalid_transition") return undefined;
    throw error;
  }
}
