import { hash } from "node:crypto";
import type { Question } from "../models/question.ts";
import type { ShownQuestion } from "../models/shown-question.ts";
import type { Store } from "../store/store.ts";

/** Who reads what a turn says. */
export interface Reader {
  /** The caller and its kind of client: other clients of the same caller have not seen what it has. */
  readonly sender: string;
  /** What it has said. */
  readonly said: string;
}

/** A question of a case. */
export interface Asked {
  readonly jobId: string;
  readonly caseId: string;
  readonly question: Pick<Question, "id" | "asked_at">;
}

const REFERENCE = /#([0-9a-f]{16})\)/g;

/** Names a question that a reader was shown. */
export function referenceOf({ jobId, caseId, question }: Asked, sender: string): string {
  const of = [jobId, caseId, question.id, question.asked_at, sender].join("\n");
  return hash("sha256", of, "hex").slice(0, 16);
}

/** The reference of the question that a text ends with, as a client has it in its history. */
export function readReference(text: string): string | undefined {
  return [...text.matchAll(REFERENCE)].at(-1)?.[1];
}

/** Stores that a reader is shown a question, before it is; gives its reference. */
export async function showQuestion(
  store: Store,
  asked: Asked,
  { sender, said }: Reader,
  after: number,
): Promise<string> {
  const id = referenceOf(asked, sender);
  if (await store.table("ShownQuestion").peek(id)) return id;
  await store.transaction(async (tx) => {
    if (await tx.get("ShownQuestion", id)) return;
    const { jobId: job_id, caseId: case_id, question } = asked;
    await tx.insert("ShownQuestion", {
      ...{ id, job_id, case_id, question_id: question.id, asked_at: question.asked_at },
      ...{ said: hashOf(said), after },
    });
  });
  return id;
}

/** The question that was shown with this reference. */
export async function findShown(store: Store, id: string): Promise<ShownQuestion | undefined> {
  return store.table("ShownQuestion").peek(id);
}

/** Whether a text is what its sender had said before it was shown the question. */
export function isSaidAgain({ said }: ShownQuestion, text: string): boolean {
  return said === hashOf(text);
}

function hashOf(text: string): string {
  return hash("sha256", text.trim(), "base64url");
}
