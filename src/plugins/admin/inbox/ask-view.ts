import type { StoredCase } from "../../../core/models/case.ts";
import { type FormState, renderFields } from "../forms/fields.ts";
import { duePiece, pathTo, timePiece } from "../views/pieces.ts";

export interface AskContext {
  readonly now: Date;
  readonly agent: string;
  /** The typed values and their problems, after a refused answer. */
  readonly form?: Omit<FormState, "id">;
  readonly problem?: string;
  /** Shown instead of the form, once the question is settled. */
  readonly done?: string;
}

/** A question with its form. */
export function toAskView(item: StoredCase, { now, agent, form, problem, done }: AskContext) {
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
    timeoutNote: question?.deadline ? TIMEOUT_NOTES[question.on_timeout] : "",
    problem: problem ?? "",
    done: done ?? "",
  };
}

const TIMEOUT_NOTES = {
  fail: "Without an answer the case fails.",
  cancel: "Without an answer the case is cancelled.",
  default: "Without an answer the default is used.",
} as const;

/** An id as part of selectors: ids may contain dots. */
function toDomId(id: string): string {
  return id.replace(/[^A-Za-z0-9_-]/g, (character) => `x${character.charCodeAt(0)}x`);
}
