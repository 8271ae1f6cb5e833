import { ServiceError } from "../base/errors.ts";
import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate, CaseNodeUpdateInput } from "../models/case-node-update.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import { isIn } from "../models/job-state.ts";
import { type LifecycleEvent, nextStatus } from "../models/lifecycle.ts";
import { CASE_OVERRIDES } from "../models/overrides.ts";
import type { Question } from "../models/question.ts";
import { StoreMissingError } from "../store/store.ts";
import { laterOf } from "../store/timestamp.ts";
import { removeCase, splitHistory } from "./case-history.ts";
import { caseNotFound } from "./cases.ts";
import { changeJob, due } from "./change-job.ts";
import { type Ending, pathTo } from "./ending.ts";
import type { Unit } from "./ledger.ts";

function keepsQuestion(item: StoredCase, status: EntityStatus): boolean {
  return CASE_OVERRIDES[item.status][status] === "keeps its question";
}

/** An operator's override inside a unit: any status from any status, see `CASE_OVERRIDES`. */
export async function overrideCase(
  unit: Unit,
  id: string,
  status: EntityStatus,
  by: string,
): Promise<StoredCase> {
  const before = await unit.tx.get("Case", id);
  const item = await changeCase(
    unit,
    id,
    (current) => ({
      ...current,
      status,
      question: keepsQuestion(current, status) ? current.question : null,
      finished_at: isTerminal(status) ? (current.finished_at ?? laterOf(unit.now, current.updated_at)) : null,
    }),
    { by },
  );
  await unit.record(item.job_id, {
    type: "mark",
    mark: "note",
    case_id: id,
    message: `status set to ${status}`,
    by,
  });
  if (!item.question) await dropQuestion(unit, before);
  return item;
}

/** Removes a case inside a unit and takes it out of its job; resolves with the case as it was. */
export async function removeCaseOfJob(unit: Unit, id: string, by?: string): Promise<StoredCase> {
  const item = await unit.tx.get("Case", id);
  if (!item) throw caseNotFound(id);
  await removeCase(unit, item, by);
  if (await unit.tx.get("Job", item.job_id)) {
    await dropQuestion(unit, item);
    await changeJob(unit, item.job_id, null, (job) => ({ ...job, case_count: job.case_count - 1 }));
  }
  return item;
}

/** Adds an update to a case inside a unit, together with other changes of it. */
export async function updateCase(
  unit: Unit,
  id: string,
  input: CaseNodeUpdateInput,
  change: (item: StoredCase) => StoredCase = (item) => item,
): Promise<{ item: StoredCase; update: CaseNodeUpdate }> {
  const { warning: _warning, ...fields } = input;
  let update: CaseNodeUpdate | undefined;
  const item = await changeCase(
    unit,
    id,
    (current) => {
      if (isTerminal(current.status)) throw hasEnded(current);
      update = {
        cost: null,
        name: null,
        payload: null,
        is_final: false,
        error: null,
        ...fields,
        index: current.update_count + 1,
        created_at: laterOf(unit.now, current.updated_at),
      };
      const next = change(current);
      return {
        ...next,
        update_count: current.update_count + 1,
        last_error: update.error ?? next.last_error,
        total_cost: next.total_cost + (update.cost ?? 0),
      };
    },
    { update: () => update },
  );
  return { item, update: update as CaseNodeUpdate };
}

/** Opens a question inside a unit: case and job are awaiting. One that is open and no longer asked is replaced. */
export async function askCase(
  unit: Unit,
  id: string,
  question: Question,
  totalCost?: number,
): Promise<StoredCase> {
  const isReplaced = Boolean((await unit.tx.get("Case", id))?.question);
  const { item } = await updateCase(unit, id, asUpdate(question), (current) => ({
    ...current,
    status: "awaiting",
    question,
  }));
  await changeJob(unit, item.job_id, "ask", (job) => ({
    ...job,
    open_questions: job.open_questions + (isReplaced ? 0 : 1),
    total_cost: totalCost ?? job.total_cost,
    status: job.status === "in_progress" ? "awaiting" : job.status,
  }));
  return item;
}

/** Changes the text of an open question inside a unit, unless somebody has answered it. */
export async function rewordCase(unit: Unit, id: string, question: Question): Promise<void> {
  const current = await unit.tx.get("Case", id);
  if (current?.question?.id !== question.id) return;
  await updateCase(unit, id, asUpdate(question), (item) => ({ ...item, question }));
}

function asUpdate(question: Question): CaseNodeUpdateInput {
  const supervaizer_form = { question: question.question, answer: { fields: question.fields } };
  return { name: question.question, payload: { supervaizer_form, question } };
}

/** Accepts an answer inside a unit; the job stays `awaiting` while another of its questions is open. */
export async function answerCase(
  unit: Unit,
  id: string,
  answer: { answer: Record<string, unknown>; message?: string | null; by?: string },
): Promise<StoredCase> {
  const asked = await unit.tx.get("Case", id);
  if (!asked) throw caseNotFound(id);
  const { question } = asked;
  if (asked.status !== "awaiting" || !question) {
    throw new ServiceError(
      "invalid_transition",
      `Case "${id}" is not awaiting an answer: it is ${asked.status}`,
      {
        detail: `The current status is "${asked.status}". The first answer to a question wins.`,
      },
    );
  }
  const { item } = await updateCase(
    unit,
    id,
    { name: "answer", payload: { answer: answer.answer, message: answer.message ?? null } },
    (current) => ({ ...current, status: followCase(current, "input_received"), question: null }),
  );
  await unit.record(item.job_id, { type: "answer", case_id: id, question_id: question.id, ...answer });
  await dropQuestion(unit, asked);
  return item;
}

/** The question of a case, if any, is no longer open: without open questions, the job continues. */
async function dropQuestion(unit: Unit, before: StoredCase | undefined): Promise<void> {
  if (!before?.question) return;
  const job = await unit.tx.get("Job", before.job_id);
  // None is open once the job was asked to end.
  if (!job || job.open_questions === 0) return;
  const open_questions = job.open_questions - 1;
  // One that is held keeps its status until it is released.
  const goesOn = open_questions === 0 && isIn(job, "waiting", "suspended");
  await changeJob(unit, job.id, "ask", (current) => ({
    ...due(current, unit.now),
    open_questions,
    status: goesOn ? "in_progress" : current.status,
  }));
}

export interface CaseEnd {
  readonly to: Ending;
  readonly delivery?: Record<string, unknown> | null;
  readonly error?: string | null;
  readonly name?: string;
  readonly cost?: number | null;
  readonly by?: string;
}

/** Ends a case inside a unit, along the edges that lead there; an open question is dropped. */
export async function endCase(unit: Unit, id: string, end: CaseEnd): Promise<StoredCase> {
  const before = await unit.tx.get("Case", id);
  const { item } = await updateCase(
    unit,
    id,
    {
      name: end.name ?? (end.error ? "error" : "close"),
      cost: end.cost ?? null,
      payload: end.delivery ?? null,
      is_final: true,
      error: end.error ?? null,
    },
    (current) => {
      let next = current;
      for (const event of pathTo(end.to, current.status)) next = { ...next, status: followCase(next, event) };
      return {
        ...next,
        question: null,
        final_delivery: end.delivery ?? next.final_delivery,
        finished_at: laterOf(unit.now, current.updated_at),
      };
    },
  );
  await dropQuestion(unit, before);
  return item;
}

/** Ends those of the given cases that exist and have not ended, with their job. */
export async function endCases(unit: Unit, ids: Iterable<string>, end: CaseEnd): Promise<void> {
  for (const id of ids) {
    const item = await unit.tx.get("Case", id);
    if (item && !isTerminal(item.status)) await endCase(unit, id, end);
  }
}

/** Reopens a case that ended with its job, so that the job can continue it. */
export async function reopenCase(unit: Unit, id: string, by?: string): Promise<void> {
  const item = await unit.tx.get("Case", id);
  if (!item || !isTerminal(item.status)) return;
  await changeCase(
    unit,
    id,
    (current) => ({ ...current, status: "in_progress", question: null, finished_at: null }),
    { by },
  );
}

/** Replaces a case inside a unit: calls participants, notifies observers. */
async function changeCase(
  unit: Unit,
  id: string,
  change: (item: StoredCase) => StoredCase,
  told: { by?: string; update?: () => CaseNodeUpdate | undefined } = {},
): Promise<StoredCase> {
  let before: ReturnType<typeof splitHistory> | undefined;
  const next = (current: StoredCase): StoredCase => {
    before = splitHistory(current);
    return { ...change(before.item), updated_at: laterOf(unit.now, current.updated_at) };
  };
  const item = await unit.tx.change("Case", id, next).catch((error: unknown) => {
    throw error instanceof StoreMissingError ? caseNotFound(id) : error;
  });
  const { item: previous, history = [] } = before!;
  const update = told.update?.();
  for (const one of update ? [...history, update] : history) await unit.tx.append("CaseUpdate", id, one);
  await unit.emit({ kind: "case:changed", case: item, previous, update, by: told.by });
  return item;
}

function hasEnded(item: StoredCase): ServiceError {
  return new ServiceError(
    "invalid_transition",
    `Case "${item.id}" is ${item.status} and no longer accepts updates`,
    {
      detail: `The current status is "${item.status}".`,
    },
  );
}

function followCase(item: StoredCase, event: LifecycleEvent): EntityStatus {
  const next = nextStatus(item.status, event);
  if (next) return next;
  throw new ServiceError(
    "invalid_transition",
    `Case "${item.id}" is ${item.status}: event "${event}" does not apply`,
    {
      detail: `The current status is "${item.status}".`,
    },
  );
}
