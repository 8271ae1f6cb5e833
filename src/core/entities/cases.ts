import { createHash } from "node:crypto";
import { ServiceError } from "../base/errors.ts";
import type { Sight } from "../models/access.ts";
import type { AccountRef } from "../models/account.ts";
import type { Case, StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate, CaseNodeUpdateInput } from "../models/case-node-update.ts";
import type { DeletedCase } from "../models/deleted-job.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import { isIn } from "../models/job-state.ts";
import { type LifecycleEvent, nextStatus } from "../models/lifecycle.ts";
import { CASE_OVERRIDES } from "../models/overrides.ts";
import type { Question } from "../models/question.ts";
import { type ListQuery, type Page, type Store, StoreMissingError } from "../store/store.ts";
import { laterOf } from "../store/timestamp.ts";
import { removeCase, splitHistory } from "./case-history.ts";
import { type Ending, pathTo } from "./ending.ts";
import { both, isAsked } from "./in-sight.ts";
import { changeJob, due, type Jobs, jobNotFound } from "./jobs.ts";
import type { Unit } from "./ledger.ts";
import { withLive } from "./live-values.ts";

/** Default number of updates of each case in lists. */
export const LISTED_UPDATES = 100;

export interface NewCase {
  /** Unique in the job. */
  readonly ref: string;
  readonly name: string;
  readonly description: string;
}

/** Reads cases. Only the functions below write them, inside a unit. */
export class Cases {
  readonly #store: Store;
  readonly #clock: () => Date;
  readonly #seen: { readonly sight: Sight; readonly jobs: Jobs } | undefined;

  /** `seen` is what a caller may see, with the jobs that it sees. */
  constructor(
    store: Store,
    clock: () => Date = () => new Date(),
    seen: { readonly sight: Sight; readonly jobs: Jobs } | undefined = undefined,
  ) {
    this.#seen = seen;
    this.#store = store;
    this.#clock = clock;
  }

  /** The same for a caller who sees a part, such as these jobs: other cases do not exist. */
  seenBy(sight: Sight, jobs: Jobs): Cases {
    return new Cases(this.#store, this.#clock, {
      sight,
      jobs: sight.askedOf ? jobs.seenBy(ofJobs(sight)) : jobs,
    });
  }

  /** The case with all its updates. */
  async find(id: string): Promise<Case | undefined> {
    const found = await this.#row(id);
    return found && this.#withUpdates(found);
  }

  /** The case without its updates, or `case_not_found`. */
  async summary(id: string): Promise<StoredCase> {
    const item = await this.#row(id);
    if (!item) throw caseNotFound(id);
    return splitHistory(item).item;
  }

  /** The case with all its updates, or `case_not_found`. */
  async get(id: string): Promise<Case> {
    const item = await this.find(id);
    if (!item) throw caseNotFound(id);
    return item;
  }

  /** The newest updates of a case, oldest first. */
  async updates(id: string, newest?: number): Promise<CaseNodeUpdate[]> {
    const found = await this.#row(id);
    return found ? (await this.#withUpdates(found, newest)).updates : [];
  }

  /** A job's case by its id or by the id that the agent gave it. */
  async ofJob(jobId: string, idOrRef: string): Promise<StoredCase> {
    const direct = await this.#row(idOrRef);
    if (direct?.job_id === jobId) return splitHistory(direct).item;
    const { items } = await this.list({ where: { job_id: jobId, ref: idOrRef }, limit: 1 });
    if (!items[0]) throw caseNotFound(idOrRef);
    return items[0];
  }

  /** Cases without their updates. */
  async list(query?: ListQuery): Promise<Page<StoredCase>> {
    const { items, ...page } = await this.#store
      .table("Case")
      .list(this.#withLive(await this.#inSight(query)));
    return { items: items.map((item) => splitHistory(item).item), ...page };
  }

  /** Cases with the newest updates of each. */
  async listWithUpdates(query: ListQuery, newest: number): Promise<Page<Case>> {
    const { items, ...page } = await this.#store
      .table("Case")
      .list(this.#withLive(await this.#inSight(query)));
    const whole: Case[] = [];
    // One after another: a page of cases must not use the whole disk bandwidth.
    for (const item of items) whole.push(await this.#withUpdates(item, newest));
    return { items: whole, ...page };
  }

  /** Cases that were deleted alone and can be restored. */
  async deleted(query: ListQuery = {}): Promise<Page<DeletedCase>> {
    if (this.#seen) return { items: [], total: 0 };
    const where = { ...query.where, deleted_at: { gte: 0 } };
    return this.#store.table("DeletedCase").list({ ...query, where });
  }

  /** The ids of what `list` would return, all by default: read from the index alone. */
  async ids(query?: ListQuery): Promise<string[]> {
    return this.#store.table("Case").ids(this.#withLive(await this.#inSight(query)));
  }

  async countBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "joins">,
  ): Promise<Record<string, number>> {
    return this.#store.table("Case").countBy(field, this.#withLive(await this.#inSight(query)));
  }

  async #row(id: string): Promise<StoredCase | undefined> {
    const found = await this.#store.table("Case").get(id);
    if (!this.#seen || !found) return found;
    const { sight, jobs } = this.#seen;
    return isAsked(sight, found) && (await jobs.find(found.job_id)) ? found : undefined;
  }

  /** A query with the condition of the sight: cases of jobs that are seen, and questions that are asked of somebody. */
  async #inSight<Q extends ListQuery>(query: Q | undefined): Promise<Q | undefined> {
    if (!this.#seen) return query;
    const { sight, jobs } = this.#seen;
    const where = { ...query?.where };
    if (sight.askedOf) {
      where.assigned_to = both(where.assigned_to, sight.askedOf);
      where.status = both(where.status, ["awaiting"]);
    }
    if (!sight.askedOf || sight.agents || sight.workspace !== undefined) {
      const { job_id } = where;
      // Of one job, as most lists are, without reading the others.
      const ids = typeof job_id === "string" ? ((await jobs.find(job_id)) ? [job_id] : []) : await jobs.ids();
      where.job_id = both(job_id, ids);
    }
    return { ...query, where } as Q;
  }

  /** The query about how long cases have taken so far, as that is what is shown of them. */
  #withLive<Q extends ListQuery>(query: Q | undefined): Q | undefined {
    return withLive(query, { now: () => this.#clock() });
  }

  async #withUpdates(found: StoredCase, newest?: number): Promise<Case> {
    const { item, history } = splitHistory(found);
    const { last_error: _, ...shown } = item;
    const after = Math.max(0, item.update_count - (newest ?? item.update_count));
    if (history) return { ...shown, updates: history.slice(after) };
    // An update may have been added since the case was read.
    const range = { after, limit: item.update_count - after };
    const entries = await this.#store.log("CaseUpdate").read(item.id, range);
    return { ...shown, updates: entries.map(({ entry }) => entry) };
  }
}

/** What a sight of questions says of their jobs. */
function ofJobs({ askedOf: _, ...sight }: Sight): Sight {
  return sight;
}

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

/** Opens a case inside a unit and adds it to its job. */
export async function openCase(
  unit: Unit,
  jobId: string,
  input: NewCase,
  account: AccountRef,
  totalCost?: number,
): Promise<StoredCase> {
  const job = await unit.tx.get("Job", jobId);
  if (!job) throw jobNotFound(jobId);
  const id = await freeCaseId(unit, jobId, input.ref);
  const item: StoredCase = {
    id,
    job_id: jobId,
    ref: input.ref,
    name: input.name,
    account,
    description: input.description,
    status: "in_progress",
    update_count: 0,
    last_error: null,
    total_cost: 0,
    final_delivery: null,
    finished_at: null,
    created_at: unit.now,
    updated_at: unit.now,
    question: null,
  };
  await unit.tx.insert("Case", item);
  await changeJob(unit, jobId, null, (current) => ({
    ...current,
    case_count: current.case_count + 1,
    total_cost: totalCost ?? current.total_cost,
  }));
  await unit.emit({ kind: "case:opened", case: item });
  return item;
}

/**
 * Stores a copy of another job's case inside a unit, with an id of its own. Participants and observers are notified
 * of it when its job begins; the caller counts it.
 */
export async function insertCopy(
  unit: Unit,
  jobId: string,
  { item, updates }: { readonly item: StoredCase; readonly updates: readonly CaseNodeUpdate[] },
): Promise<string> {
  const id = await freeCaseId(unit, jobId, item.ref);
  await unit.tx.insert("Case", { ...item, id, job_id: jobId, updated_at: unit.now });
  for (const update of updates) await unit.tx.append("CaseUpdate", id, update);
  return id;
}

/** Notifies inside a unit of the cases that a job was created with. */
export async function notifyOfCopies(unit: Unit, jobId: string): Promise<void> {
  for (const id of await unit.tx.ids("Case", "job_id", jobId)) {
    const item = await unit.tx.get("Case", id);
    if (item) await unit.emit({ kind: "case:opened", case: item });
  }
}

/**
 * Two jobs with the same input use the same case ids: the later job's cases are prefixed with the job's id.
 */
async function freeCaseId(unit: Unit, jobId: string, ref: string): Promise<string> {
  if (await isFree(unit, ref)) return ref;
  const qualified = `${jobId}-${ref}`;
  if (qualified.length <= 200 && (await isFree(unit, qualified))) return qualified;
  return createHash("sha256").update(`${jobId}\n${ref}`).digest("base64url");
}

/** Whether no case has an id, not even a deleted one. */
async function isFree({ tx }: Unit, id: string): Promise<boolean> {
  const found = await Promise.all([tx.get("Case", id), tx.get("DeletedCase", id)]);
  return found.every((item) => item === undefined);
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

/** The error for an unknown case id. */
export function caseNotFound(id: string): ServiceError {
  return new ServiceError("case_not_found", `Case "${id}" does not exist`, {
    detail: "The job's case_ids list the existing ones.",
  });
}
