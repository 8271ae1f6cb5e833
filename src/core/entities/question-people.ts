import type { StoredCase } from "../models/case.ts";
import { noticesDue, type Question } from "../models/question.ts";
import { updateCase } from "./change-case.ts";
import type { Unit } from "./ledger.ts";

/** Gives the open question of a case to a person or role inside a unit; `null` to nobody. */
export async function assignCase(
  unit: Unit,
  id: string,
  to: string | null,
  by?: string,
): Promise<StoredCase> {
  const { item } = await updateCase(
    unit,
    id,
    { name: "assigned", payload: { assigned: { to, ...(by !== undefined && { by }) } } },
    (current) => withQuestion(current, { assigned_to: to ?? undefined }),
  );
  return item;
}

/** Records inside a unit that a person has answered a question that needs several: it stays open. */
export async function approveCase(
  unit: Unit,
  id: string,
  {
    approvals,
    payload,
  }: { readonly approvals: Question["approvals"]; readonly payload: Record<string, unknown> },
): Promise<StoredCase> {
  const { item } = await updateCase(unit, id, { name: "answer", payload }, (current) =>
    withQuestion(current, { approvals }),
  );
  return item;
}

/** Reminds of an open question inside a unit, and passes it on, where it is time for that: each once. */
export async function sendNotices(unit: Unit, id: string, time: number): Promise<void> {
  const item = await unit.tx.get("Case", id);
  if (!item?.question || item.status !== "awaiting") return;
  const { isReminder, isEscalation } = noticesDue(item.question, time);
  const { id: question_id, question, asked_at, deadline, assigned_to = null, escalate } = item.question;
  const about = { question_id, question, asked_at, deadline };
  if (isReminder)
    await updateCase(
      unit,
      id,
      { name: "reminder", payload: { reminder: { ...about, assigned_to } } },
      (current) => withQuestion(current, { reminded_at: unit.now }),
    );
  if (isEscalation) {
    const escalation = { ...about, from: assigned_to, to: escalate!.to };
    await updateCase(unit, id, { name: "escalation", payload: { escalation } }, (current) =>
      withQuestion(current, { escalated_at: unit.now, assigned_to: escalate!.to }),
    );
  }
}

function withQuestion(item: StoredCase, change: Partial<Question>): StoredCase {
  return item.question ? { ...item, question: { ...item.question, ...change } } : item;
}
