import type { Cases } from "../entities/cases.ts";
import type { StoredCase } from "../models/case.ts";
import type { Question } from "../models/question.ts";

/** The case of a turn as it was when it asked: what a message got then, whatever came of the question since. */
export async function caseWhenAsked(cases: Cases, item: StoredCase, question: Question): Promise<StoredCase> {
  if (item.status === "awaiting" && item.question?.id === question.id) return item;
  const total_cost = await costUntilAsked(cases, item.id, question.id);
  return { ...item, status: "awaiting", ...OPEN, question, total_cost, updated_at: question.asked_at };
}

/** The case of a turn as it was when its message came, or the answer to a question of it. */
export async function caseWhenBegun(
  cases: Cases,
  item: StoredCase,
  answered?: { readonly question_id: string },
): Promise<StoredCase> {
  const total_cost = answered ? await costUntilAsked(cases, item.id, answered.question_id) : 0;
  const { created_at: updated_at } = item;
  return { ...item, status: "in_progress", ...OPEN, question: null, total_cost, updated_at };
}

const OPEN = { final_delivery: null, last_error: null, finished_at: null } as const;

/** What the steps of a case had cost when it asked a question: those in its history before that. */
async function costUntilAsked(cases: Cases, caseId: string, questionId: string): Promise<number> {
  let total = 0;
  for (const { cost, payload } of await cases.updates(caseId)) {
    if ((payload?.question as Question | undefined)?.id === questionId) break;
    total += cost ?? 0;
  }
  return total;
}
