import type { Caller } from "../../../core/audit/caller.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import type { CaseNodeUpdate } from "../../../core/models/case-node-update.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { isIn } from "../../../core/models/job-state.ts";
import { agreement, type Question } from "../../../core/models/question.ts";
import { isOpenTo } from "../../../core/runs/questions/assert-assigned.ts";
import type { FilePreview } from "../files/file-views.ts";
import { encodingOf, type FormState, renderFields } from "../forms/fields.ts";
import { offeredTo } from "../viewer.ts";
import { readAnswer, renderAnswer } from "../views/conversation.ts";
import { toLabel } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { duePiece, leftPiece, pathTo, timePiece } from "../views/pieces.ts";

export interface AskContext {
  /** Who reads it: what that may not do is not offered. */
  readonly caller: Caller;
  readonly now: Date;
  /** The job that asks. */
  readonly job: StoredJob | undefined;
  /** The typed values and their problems, after a refused answer. */
  readonly form?: Omit<FormState, "id">;
  readonly problem?: string;
  /** Updates of its case, which may help to decide. */
  readonly evidence?: readonly CaseNodeUpdate[];
  /** Files that it is about. */
  readonly files?: readonly FilePreview[];
  /** Shown instead of the form, once the question is settled. */
  readonly done?: string;
}

/** A question with its form. */
export function toAskView(item: StoredCase, context: AskContext) {
  const { now, job, form, problem, done, evidence = [], files = [], caller } = context;
  const may = offeredTo(caller);
  const { question } = item;
  const domId = toDomId(item.id);
  return {
    caseId: item.id,
    domId,
    mayAnswer: may.answer && isOpenTo(caller, item),
    mayAssign: may.operate,
    caseName: item.name,
    caseHref: pathTo("cases", item.id),
    agent: job?.agent_name ?? "",
    isHeld: isHeld(job),
    jobHref: pathTo("jobs", item.job_id),
    question: question?.question ?? item.name,
    questionId: question?.id ?? "",
    note: question?.note ?? "",
    asked: timePiece(question?.asked_at ?? item.updated_at, now).toString(),
    due: duePiece(question?.deadline, now).toString(),
    action: pathTo("cases", item.id, "answer"),
    fields: renderFields(question?.fields ?? [], { id: `ask-${domId}`, ...form }).toString(),
    timeoutNote: question ? timeoutNote(question, now).toString() : "",
    next: "",
    nextLabel: "",
    people: question ? peopleView(item.id, question, now) : undefined,
    alike: false,
    alikeHref: pathTo("cases", item.id, "alike"),
    encoding: encodingOf(question?.fields ?? []),
    files,
    evidence: evidence.toReversed().flatMap((update) => toEvidence(update)),
    problem: problem ?? "",
    done: done ?? "",
    /** Whether nothing is left to read or to decide after the answer. */
    isSettled: false,
    /** Whether another question is beside it. */
    isInList: false,
  };
}

/** Whether an answer waits, too, until somebody decides about the job. */
export function isHeld(job: StoredJob | undefined): boolean {
  return job !== undefined && isIn(job, "held");
}

/** What concerns the question itself. */
const NO_EVIDENCE = ["supervaizer_form", "reminder", "escalation", "assigned", "agree"];

/** Who is to answer, who has answered so far, and when others are notified. */
function peopleView(caseId: string, question: Question, now: Date) {
  const { approvers, approvals = [], escalate, escalated_at, remind_at, reminded_at } = question;
  const lines = [
    ...(approvers
      ? [
          approvals.length === 0
            ? html`${approvers} people must give the same answer.`
            : html`${agreement(question)}. A different answer takes its place.`,
        ]
      : []),
    ...(approvals.some(({ proven }) => proven === undefined)
      ? [html`Nobody vouches for who answered: one person could be several.`]
      : []),
    ...(remind_at && !reminded_at
      ? [html`A reminder ${isPast(remind_at, now) ? "was due" : "is sent"} ${timePiece(remind_at, now)}.`]
      : []),
    ...(reminded_at ? [html`A reminder was sent ${timePiece(reminded_at, now)}.`] : []),
    ...(escalate && !escalated_at
      ? [
          html`It ${isPast(escalate.at, now) ? "was to be" : "is"} assigned to <bdi>${escalate.to}</bdi> ${timePiece(escalate.at, now)}.`,
        ]
      : []),
    ...(escalated_at ? [html`It was passed on ${timePiece(escalated_at, now)}.`] : []),
  ];
  return {
    assigned: question.assigned_to ?? "",
    assignAction: pathTo("cases", caseId, "assign"),
    lines: lines.map(String),
    approvals: approvals.map(({ by, answer, message, at }) => ({
      by,
      answer: valuesInWords(answer),
      message: message ?? "",
      at: timePiece(at, now).toString(),
    })),
  };
}

const isPast = (time: string, now: Date) => Date.parse(time) <= now.getTime();

/** Whether an update has what a step of the case found. */
export function isEvidence(update: CaseNodeUpdate): update is CaseNodeUpdate & { payload: object } {
  const { payload } = update;
  if (payload === null || NO_EVIDENCE.some((name) => name in payload)) return false;
  return !("result" in payload && payload.result === null);
}

/** What a step of the case found; the question itself is no evidence. */
function toEvidence(update: CaseNodeUpdate) {
  if (!isEvidence(update)) return [];
  const { name, payload, error } = update;
  const answer = "usage" in payload ? readAnswer(payload) : undefined;
  const body = answer ? renderAnswer(answer).toString() : renderJson(payload);
  return [{ name: name ?? "Update", body, error: error ?? "" }];
}

/** What happens without an answer, and when. */
export function timeoutNote(question: Question, now: Date): Html {
  const left = leftPiece(question.deadline, now);
  if (!left) return html`It waits without a deadline.`;
  return html`If nobody answers ${left}, ${withoutAnswer(question)}.`;
}

function withoutAnswer(question: Question): string {
  if (question.on_timeout === "fail") return "the case fails";
  if (question.on_timeout === "cancel") return "the case is cancelled";
  const values = valuesInWords(question.default ?? {});
  return `the default is used${values === "" ? "" : `: ${values}`}`;
}

function valuesInWords(values: Readonly<Record<string, unknown>>): string {
  return Object.entries(values)
    .map(([name, value]) => `${toLabel(name)}: ${inWords(value)}`)
    .join(", ");
}

function inWords(value: unknown): string {
  if (value === null) return "–";
  if (typeof value === "boolean") return value ? "Yes" : "No";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** An id as part of selectors: ids may contain dots. */
export function toDomId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, (character) => `x${character.charCodeAt(0)}x`);
}
