import type { TurnDelivery } from "../agents/define-chat.ts";
import { isServiceError } from "../base/errors.ts";
import type { Cases } from "../entities/cases.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { StoredCase } from "../models/case.ts";
import type { EmittedChunks } from "../models/emitted-chunks.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { FileValue } from "../models/file.ts";
import type { AnsweredQuestion } from "../models/keyed-request.ts";
import type { ModelFacts } from "../models/model-use.ts";
import type { Question } from "../models/question.ts";
import type { CallEntry, RunEntry } from "../models/run-entry.ts";
import { TurnText } from "./turn-text.ts";

/** What happens in a turn of a chat, in order. The last one is a question, the answer, or a failure. */
export type TurnEvent =
  /** Its case is known. */
  | { readonly type: "opened"; readonly caseId: string }
  /** What the reader must know first, such as that somebody else has answered. It is not part of the answer. */
  | { readonly type: "notice"; readonly text: string }
  /** Text that follows what came before. */
  | { readonly type: "text"; readonly text: string }
  /** A tool was called. */
  | { readonly type: "tool"; readonly tool: ToolCall }
  /** An attempt of a step has failed; another one follows. */
  | { readonly type: "attempt"; readonly name: string; readonly attempt: number; readonly error: string }
  /** A question of the turn that has been answered; only where the whole turn is followed. */
  | {
      readonly type: "answered";
      readonly caseId: string;
      readonly question: Question;
      readonly answer: Readonly<Record<string, unknown>>;
    }
  /** The agent asks a person: the turn continues once that is answered. */
  | {
      readonly type: "question";
      readonly caseId: string;
      readonly question: Question;
      /** Number of an entry of the log before its answer. */
      readonly after: number;
    }
  | {
      readonly type: "answer";
      readonly caseId: string;
      readonly answer: string;
      /** Files of the job that belong to it. */
      readonly files: readonly FileValue[];
      readonly usage: TurnUsage;
    }
  | { readonly type: "failed"; readonly message: string };

/** Tokens that the models of a turn used, as far as steps have reported them. */
export interface TurnUsage {
  readonly input: number;
  readonly output: number;
}

/** A call of a tool, as a step has recorded it. */
export interface ToolCall {
  /** Unique in its thread. */
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
  readonly result: unknown;
  readonly error?: string;
}

/** Where to read what happens to a thread. */
export interface ThreadFeed {
  /** Number of the last entry of its log. */
  last(jobId: string): Promise<number>;
  watch(
    jobId: string,
    options: { readonly after?: number; readonly signal?: AbortSignal },
  ): AsyncGenerator<{ readonly event: string; readonly id?: number; readonly data: unknown }, void>;
}

export interface TurnParts {
  readonly feed: ThreadFeed;
  readonly jobs: Jobs;
  readonly cases: Cases;
}

const MOST_EARLY = 100;

/** Which turn of a thread: the one of a message, the one whose question was answered, or the first. */
export interface TurnOf {
  readonly jobId: string;
  /** Number of an entry of the log before it. */
  readonly after: number;
  /** Id of the message. */
  readonly messageId?: string;
  readonly answered?: AnsweredQuestion;
  /** Its case, where that is known. */
  readonly caseId?: string;
  /** Whether it continues behind questions that have been answered. @default false: the first one ends it */
  readonly isWhole?: boolean;
  readonly signal: AbortSignal;
}

/**
 * Follows a turn until it has an answer, a question or a failure. Where that is recorded, it is the same whenever the turn
 * is followed: a question also where it has been answered since.
 */
export async function* followTurn(
  { feed, jobs, cases }: TurnParts,
  { jobId, after, messageId, answered, caseId, isWhole = false, signal }: TurnOf,
): AsyncGenerator<TurnEvent, void> {
  const again = answered?.agreed ?? answered?.again;
  if (answered && again !== undefined) {
    const question = await findQuestion(cases, answered.case_id, answered.question_id);
    if (!question) throw new Error(`Question "${answered.question_id}" of thread "${jobId}" is not recorded`);
    const noted = again === "" ? question : { ...question, note: again };
    yield { type: "question", caseId: answered.case_id, question: noted, after };
    return;
  }
  let turn = answered?.case_id ?? caseId;
  if (turn !== undefined) yield { type: "opened", caseId: turn };
  if (answered?.before !== undefined) yield { type: "notice", text: `${answered.before}\n\n` };
  const text = new TurnText();
  let isNext = messageId === undefined;
  /** Whether the answer to the question is behind. */
  let isAnswered = answered === undefined || answered.before !== undefined;
  /** The question that is not shown again. */
  let past = answered?.question_id;
  const usage = { input: 0, output: 0 };
  /** Chunks that come before the entry that says which turn it is, as they may from another instance. */
  const early: EmittedChunks[] = [];
  for await (const { event, id: seq, data } of feed.watch(jobId, { after, signal })) {
    if (event === "chunk") {
      const emitted = data as EmittedChunks;
      if (turn === undefined && early.length < MOST_EARLY) early.push(emitted);
      const added = emitted.case_id !== undefined && emitted.case_id === turn ? text.add(emitted) : "";
      if (added !== "") yield { type: "text", text: added };
      continue;
    }
    if (event === "end") {
      const job = await jobs.find(jobId);
      yield {
        type: "failed",
        message: job?.error ?? `The thread has ended: it is ${job?.status ?? "deleted"}`,
      };
      return;
    }
    if (event === "snapshot" || event === "chunks") continue;
    const entry = data as RunEntry;
    // What a thread asked before it was started over, it asks again.
    if (entry.type === "mark" && entry.mark === "restarted") {
      isAnswered = true;
      past = undefined;
    }
    if (turn === undefined) {
      if (entry.type !== "call") continue;
      if (entry.call === "event") isNext ||= (entry.result as { id?: unknown } | null)?.id === messageId;
      else if (entry.call === "open_case" && isNext) turn = String(entry.result);
      if (turn === undefined) continue;
      yield { type: "opened", caseId: turn };
      const added = early.filter(({ case_id }) => case_id === turn).map((emitted) => text.add(emitted));
      if (added.length > 0) yield { type: "text", text: added.join("") };
      continue;
    }
    if (entry.case_id !== turn) continue;
    if (!isAnswered) {
      isAnswered = entry.type === "answer" ? entry.question_id === past : isEndOf(entry, past);
      if (entry.type !== "call" || entry.call !== "close") continue;
    }
    count(usage, entry);
    if (entry.type === "attempt") {
      yield { type: "attempt", name: entry.name, attempt: entry.attempt, error: entry.error };
      continue;
    }
    if (isWhole && entry.type === "answer") {
      const question = await findQuestion(cases, turn, entry.question_id);
      if (question) yield { type: "answered", caseId: turn, question, answer: entry.answer };
      continue;
    }
    if (entry.type === "begun" && entry.call === "ask") {
      const id = String(entry.position);
      if (isWhole && (await summaryOf(cases, turn))?.question?.id !== id) continue;
      const question = id === past ? undefined : await findQuestion(cases, turn, id);
      if (!question) continue;
      yield { type: "question", caseId: turn, question, after: seq ?? after };
      return;
    }
    if (entry.type !== "call") continue;
    if (entry.call === "step" && entry.kind === "tool") yield { type: "tool", tool: toolCallOf(entry) };
    if (entry.call !== "close") continue;
    const item = await summaryOf(cases, turn);
    // It runs again: its thread was retried, or started over.
    if (!item || !isTerminal(item.status)) continue;
    if (item.status !== "completed") {
      yield { type: "failed", message: item.last_error ?? "The answer failed" };
      return;
    }
    const { answer, files = [] } = item.final_delivery as unknown as TurnDelivery;
    const rest = text.finish(answer);
    if (rest !== "") yield { type: "text", text: rest };
    yield { type: "answer", caseId: turn, answer, files, usage };
    return;
  }
}

/** A question of a case, also one that has been answered: the history of the case has it. */
export async function findQuestion(cases: Cases, caseId: string, id: string): Promise<Question | undefined> {
  const question = (await summaryOf(cases, caseId))?.question;
  if (question?.id === id) return question;
  const asked = (await cases.updates(caseId)).map(({ payload }) => payload?.question as Question | undefined);
  return asked.findLast((one) => one?.id === id);
}

/** A case; `undefined` where its thread was started over, and has not opened it again. */
async function summaryOf(cases: Cases, id: string): Promise<StoredCase | undefined> {
  try {
    return await cases.summary(id);
  } catch (error) {
    if (isServiceError(error) && error.type === "case_not_found") return undefined;
    throw error;
  }
}

/** Whether a question is over with an entry: it may also end without an answer, at its deadline. */
function isEndOf(entry: RunEntry, questionId: string | undefined): boolean {
  if (entry.type !== "call") return false;
  return entry.call === "close" || (entry.call === "ask" && String(entry.position) === questionId);
}

/** The call of a tool that a step has recorded. */
export function toolCallOf({ case_id, position, name, input, result, error }: CallEntry): ToolCall {
  const id = `call-${case_id ?? "job"}-${position}`;
  return { id, name, input: input ?? null, result: result ?? null, ...(error && { error: error.message }) };
}

/** Attempts that failed used tokens, too. */
function count(usage: { input: number; output: number }, entry: RunEntry): void {
  const { model } = entry as { model?: ModelFacts };
  usage.input += model?.input_tokens ?? 0;
  usage.output += model?.output_tokens ?? 0;
}
