import type { StoredCase } from "../../../core/models/case.ts";
import type { CaseNodeUpdate } from "../../../core/models/case-node-update.ts";
import type { Question } from "../../../core/models/question.ts";
import { type FormState, renderFields } from "../forms/fields.ts";
import { readAnswer, renderMessage } from "../views/conversation.ts";
import { toLabel } from "../views/format.ts";
import { type Html, html } from "../views/html.ts";
import { renderJson } from "../views/json-tree.ts";
import { duePiece, leftPiece, pathTo, timePiece } from "../views/pieces.ts";

export interface AskContext {
  readonly now: Date;
  readonly agent: string;
  /** The typed values and their problems, after a refused answer. */
  readonly form?: Omit<FormState, "id">;
  readonly problem?: string;
  /** Updates of its case, which may help to decide. */
  readonly evidence?: readonly CaseNodeUpdate[];
  /** Shown instead of the form, once the question is settled. */
  readonly done?: string;
}

/** A question with its form. */
export function toAskView(item: StoredCase, { now, agent, form, problem, done, evidence = [] }: AskContext) {
  const { question } = item;
  const domId = toDomId(item.id);
  return {
    caseId: item.id,
    domId,
    caseName: item.name,
    caseHref: pathTo("cases", item.id),
    agent,
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
    alike: false,
    alikeHref: pathTo("cases", item.id, "alike"),
    evidence: evidence.toReversed().flatMap((update) => toEvidence(update)),
    problem: problem ?? "",
    done: done ?? "",
  };
}

/** What a step of the case found; the question itself is no evidence. */
function toEvidence({ name, payload, error }: CaseNodeUpdate) {
  if (!payload || "supervaizer_form" in payload) return [];
  const answer = "usage" in payload ? readAnswer(payload) : undefined;
  const body = answer ? renderMessage(answer).toString() : renderJson(payload);
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
  const values = Object.entries(question.default ?? {}).map(
    ([name, value]) => `${toLabel(name)}: ${inWords(value)}`,
  );
  return `the default is used${values.length > 0 ? `: ${values.join(", ")}` : ""}`;
}

function inWords(value: unknown): string {
  if (typeof value === "boolean") return value ? "Yes" : "No";
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** An id as part of selectors: ids may contain dots. */
export function toDomId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, (character) => `x${character.charCodeAt(0)}x`);
}
