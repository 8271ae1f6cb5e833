import type { FieldsInput } from "../../agents/fields-input.ts";
import type { AskOptions } from "../../agents/run-context.ts";
import { toMilliseconds } from "../../base/duration.ts";
import type { Question } from "../../models/question.ts";

/** Who is to answer a question, and when they are reminded. */
type People = Pick<AskOptions<FieldsInput>, "question" | "assignTo" | "remind" | "escalate" | "approvers">;

const MOST_APPROVERS = 10;
const LONGEST_NAME = 60;

/** Throws where an option of a question about people is not valid. */
export function checkPeople({ question, assignTo, remind, escalate, approvers }: People): void {
  if (remind !== undefined) toMilliseconds(remind);
  if (escalate !== undefined) toMilliseconds(escalate.after);
  for (const name of [assignTo, escalate && String(escalate.to)])
    if (name !== undefined && (typeof name !== "string" || name.trim() === "" || name.length > LONGEST_NAME))
      throw new TypeError(
        `"${question}" is assigned to "${String(name)}": use a name of 1 to ${LONGEST_NAME} characters`,
      );
  if (approvers === undefined) return;
  if (!Number.isInteger(approvers) || approvers < 1 || approvers > MOST_APPROVERS)
    throw new TypeError(
      `"${question}" needs ${String(approvers)} approvers: use a whole number from 1 to ${MOST_APPROVERS}`,
    );
}

/** The same as a question has it. */
export function toPeople(
  { assignTo, remind, escalate, approvers = 1 }: People,
  askedAt: string,
): Partial<Question> {
  const after = (duration: NonNullable<People["remind"]>) =>
    new Date(Date.parse(askedAt) + toMilliseconds(duration)).toISOString();
  return {
    ...(assignTo !== undefined && { assigned_to: assignTo }),
    ...(remind !== undefined && { remind_at: after(remind) }),
    ...(escalate && { escalate: { at: after(escalate.after), to: escalate.to } }),
    ...(approvers > 1 && { approvers }),
  };
}

/**
 * What people have done with an open question stays when its text or form changes: to whom it is assigned, and what was
 * sent. Answers stay only where they are to the same question with the same form.
 */
export function peopleOf(
  known: Question,
  next: Question,
  redact: (text: string) => string,
): Partial<Question> {
  const { assigned_to, reminded_at, escalated_at, approvals } = known;
  const text = ({ question, fields }: Question) => redact(JSON.stringify([question, fields]));
  const isKept = approvals && next.approvers !== undefined && text(known) === text(next);
  return {
    ...(assigned_to !== undefined && { assigned_to }),
    ...(reminded_at !== undefined && { reminded_at }),
    ...(escalated_at !== undefined && { escalated_at }),
    ...(isKept && { approvals }),
  };
}
