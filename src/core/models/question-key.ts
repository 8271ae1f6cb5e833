import type { Question } from "./question.ts";

/**
 * Names a question among all that a job ever asks: one that starts over asks with the same ids, at another time, and an
 * answer to what it asked before is not for it.
 */
export function keyOf({
  id,
  question,
}: {
  readonly id: string;
  readonly question: Pick<Question, "id" | "asked_at">;
}): string {
  return `${id}.${question.id}.${Date.parse(question.asked_at).toString(36)}`;
}

/** What a key of `keyOf` consists of. */
export function partsOfKey(key: string): { readonly caseId: string; readonly questionId: string } {
  const [, caseId = "", questionId = ""] = /^(.+)\.([^.]*)\.[^.]*$/.exec(key) ?? [];
  return { caseId, questionId };
}
