import { readFlat } from "../../agents/to-json-schema.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Cases } from "../../entities/cases.ts";
import type { GivenKey } from "../../entities/keyed-requests.ts";
import type { StoredCase } from "../../models/case.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Question } from "../../models/question.ts";
import { keyOf } from "../../models/question-key.ts";
import type { Runner } from "../runner.ts";

/** A case whose question is open. */
export type AskingCase = StoredCase & { readonly question: Question };

/** The open questions of a job, oldest first. */
export async function openQuestions(cases: Cases, job: StoredJob): Promise<AskingCase[]> {
  if (job.open_questions === 0) return [];
  const where = { job_id: job.id, status: "awaiting" };
  const { items } = await cases.list({ where, sort: "created_at", limit: Number.POSITIVE_INFINITY });
  return items.filter((item): item is AskingCase => item.question !== null);
}

/** What a person reads: the question, and why it is asked again. */
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
    readonly once?: GivenKey;
  },
  by: Parameters<Runner["answer"]>[3],
): Promise<StoredCase | undefined> {
  const asking = (await openQuestions(cases, job)).find((item) => keyOf(item) === given.key);
  if (!asking) return undefined;
  const answer = readFlat(asking.question.fields, given.values);
  try {
    const { id: question_id, asked_at } = asking.question;
    const { message = null, once } = given;
    const request = { answer, message, question_id, asked_at, ...(once && { once }) };
    return await runner.answer(job.id, asking.id, request, by);
  } catch (error) {
    // Somebody else was faster, or its time is over.
    if (error instanceof ServiceError && error.type === "invalid_transition") return undefined;
    throw error;
  }
}
