import * as v from "valibot";
import { AgentMethodFieldSchema } from "./agent-method-field.ts";
import { FileValueSchema } from "./file.ts";
import { JsonMapSchema, optional, TimestampSchema } from "./scalars.ts";

/** What happens when nobody answers before the deadline. */
export const OnTimeoutSchema = v.picklist(["fail", "default", "cancel"]);
export type OnTimeout = v.InferOutput<typeof OnTimeoutSchema>;

/** The answer of one person to a question that several must answer alike. */
export const ApprovalSchema = v.object({
  /** Tells people apart: the id of one whom an identity provider vouches for, else a name in lower case. */
  person: v.string(),
  /** The issuer that vouches for the person. */
  proven: v.optional(v.string()),
  /** Who made the link with which the person answered: the two count once. */
  vouched_by: v.optional(v.string()),
  /** Who answered, as a history names them. */
  by: v.string(),
  answer: JsonMapSchema,
  message: v.nullable(v.string()),
  at: TimestampSchema,
});
export type Approval = v.InferOutput<typeof ApprovalSchema>;

/** The open question of a case. */
export const QuestionSchema = v.object({
  /** Unique in the case. */
  id: v.string(),
  /** The agent's name for it, independent of its text. */
  name: v.optional(v.string()),
  question: v.string(),
  /** For the person who answers: why the question is asked again. */
  note: v.optional(v.string()),
  fields: v.array(AgentMethodFieldSchema),
  /** Files of the job that are shown beside it, and the page of each. */
  files: v.optional(v.array(v.object({ ...FileValueSchema.entries, page: v.optional(v.number()) }))),
  asked_at: TimestampSchema,
  deadline: optional(TimestampSchema),
  on_timeout: v.optional(OnTimeoutSchema, "fail"),
  default: optional(JsonMapSchema),
  /** Name of the person or role that is to answer; anyone may. */
  assigned_to: v.optional(v.string()),
  remind_at: v.optional(TimestampSchema),
  reminded_at: v.optional(TimestampSchema),
  /** When it is passed on, and to whom. */
  escalate: v.optional(v.object({ at: TimestampSchema, to: v.string() })),
  escalated_at: v.optional(TimestampSchema),
  /** How many people must give the same answer. @default 1 */
  approvers: v.optional(v.number()),
  /** The same answer, by those who have given it so far. */
  approvals: v.optional(v.array(ApprovalSchema)),
});
export type Question = v.InferOutput<typeof QuestionSchema>;

type Notices = Pick<Question, "remind_at" | "reminded_at" | "escalate" | "escalated_at">;

/** When an open question is next reminded of or passed on, milliseconds since the epoch; `null` if it is not. */
export function nextNotice({ remind_at, reminded_at, escalate, escalated_at }: Notices): number | null {
  const times = [
    ...(remind_at !== undefined && reminded_at === undefined ? [Date.parse(remind_at)] : []),
    ...(escalate && escalated_at === undefined ? [Date.parse(escalate.at)] : []),
  ];
  return times.length === 0 ? null : Math.min(...times);
}

/** What is to be sent at a time, milliseconds since the epoch. */
export function noticesDue(question: Notices, now: number): { isReminder: boolean; isEscalation: boolean } {
  const { remind_at, reminded_at, escalate, escalated_at } = question;
  const isDue = (at: string | undefined) => at !== undefined && Date.parse(at) <= now;
  return {
    isReminder: reminded_at === undefined && isDue(remind_at),
    isEscalation: escalated_at === undefined && isDue(escalate?.at),
  };
}

/** Answer to a question raised by a case. */
export const CaseUpdateRequestSchema = v.object({
  answer: JsonMapSchema,
  message: optional(v.string()),
});
export type CaseUpdateRequest = v.InferOutput<typeof CaseUpdateRequestSchema>;

/** What is said to the one who has answered. */
export function acceptedText({
  id,
  question,
}: {
  readonly id: string;
  readonly question?: Question | null;
}): string {
  if (!question?.approvals) return `The answer to case "${id}" was accepted`;
  return `The answer to case "${id}" was recorded: ${agreement(question)}`;
}

/** `1 of 2 people agree: another person must give the same answer`. */
export function agreement({
  approvals = [],
  approvers = 1,
}: Pick<Question, "approvals" | "approvers">): string {
  return `${approvals.length} of ${approvers} people agree: another person must give the same answer`;
}
