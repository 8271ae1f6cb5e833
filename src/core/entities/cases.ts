import { createHash } from "node:crypto";
import { ServiceError } from "../errors.ts";
import type { AccountRef } from "../models/account.ts";
import type { Case } from "../models/case.ts";
import type { CaseNodeUpdate, CaseNodeUpdateInput } from "../models/case-node-update.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import { type LifecycleEvent, nextStatus } from "../models/lifecycle.ts";
import type { Question } from "../models/question.ts";
import type { ListQuery, Page, Store } from "../store/store.ts";
import { StoreMissingError } from "../store/store.ts";
import { type Ending, pathTo } from "./ending.ts";
import { changeJob, jobNotFound } from "./jobs.ts";
import { laterOf } from "./later-of.ts";
import type { Ledger, Unit } from "./ledger.ts";

export interface NewCase {
  /** Unique in the job. */
  readonly ref: string;
  readonly name: string;
  readonly description: string;
}

/** The only writer of cases. The functions below it do the same inside a unit. */
export class Cases {
  readonly #store: Store;
  readonly #ledger: Ledger;

  constructor(store: Store, ledger: Ledger) {
    this.#store = store;
    this.#ledger = ledger;
  }

  find(id: string): Promise<Case | undefined> {
    return this.#store.table("Case").get(id);
  }

  /** The case, or `case_not_found`. */
  async get(id: string): Promise<Case> {
    const item = await this.find(id);
    if (!item) throw caseNotFound(id);
    return item;
  }

  /** A job's case by its id or by the id that the agent gave it. */
  async ofJob(jobId: string, idOrRef: string): Promise<Case> {
    const direct = await this.find(idOrRef);
    if (direct?.job_id === jobId) return direct;
    const { items } = await this.list({ where: { job_id: jobId, ref: idOrRef }, limit: 1 });
    if (!items[0]) throw caseNotFound(idOrRef);
    return items[0];
  }

  list(query?: ListQuery): Promise<Page<Case>> {
    return this.#store.table("Case").list(query);
  }

  countBy(field: string, query?: Pick<ListQuery, "where" | "search">): Promise<Record<string, number>> {
    return this.#store.table("Case").countBy(field, query);
  }

  /** An operator's override: any status from any status. */
  override(id: string, status: EntityStatus, by: string): Promise<Case> {
    return this.#ledger.write(async (unit) => {
      const before = await unit.tx.get("Case", id);
      const item = await changeCase(
        unit,
        id,
        (current) => ({
          ...current,
          status,
          question: status === "awaiting" ? current.question : null,
          finished_at: isTerminal(status)
            ? (current.finished_at ?? laterOf(unit.now, current.updated_at))
            : null,
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
      if (status !== "awaiting") await dropQuestion(unit, before);
      return item;
    });
  }

  /** Removes a case and takes its id out of its job. */
  remove(id: string, by?: string): Promise<void> {
    return this.#ledger.write(async (unit) => {
      const item = await unit.tx.get("Case", id);
      if (!item) throw caseNotFound(id);
      await unit.tx.remove("Case", id);
      await unit.tell({ kind: "case:deleted", case: item, by });
      if (!(await unit.tx.get("Job", item.job_id))) return;
      await dropQuestion(unit, item);
      await changeJob(unit, item.job_id, (job) => ({
        ...job,
        case_count: job.case_count - 1,
      }));
    });
  }
}

/** Opens a case inside a unit and adds it to its job. */
export async function openCase(
  unit: Unit,
  jobId: string,
  input: NewCase,
  account: AccountRef,
  totalCost?: number,
): Promise<Case> {
  const job = await unit.tx.get("Job", jobId);
  if (!job) throw jobNotFound(jobId);
  const id = await freeCaseId(unit, jobId, input.ref);
  const item: Case = {
    id,
    job_id: jobId,
    ref: input.ref,
    name: input.name,
    account,
    description: input.description,
    status: "in_progress",
    updates: [],
    total_cost: 0,
    final_delivery: null,
    finished_at: null,
    created_at: unit.now,
    updated_at: unit.now,
    question: null,
  };
  await unit.tx.insert("Case", item);
  await changeJob(unit, jobId, (current) => ({
    ...current,
    case_count: current.case_count + 1,
    total_cost: totalCost ?? current.total_cost,
  }));
  await unit.tell({ kind: "case:opened", case: item });
  return item;
}

/** Two jobs over the same input name their cases alike: the later one's carry the job's id in front. */
async function freeCaseId(unit: Unit, jobId: string, ref: string): Promise<string> {
  if (!(await unit.tx.get("Case", ref))) return ref;
  const qualified = `${jobId}-${ref}`;
  if (qualified.length <= 200 && !(await unit.tx.get("Case", qualified))) return qualified;
  return createHash("sha256").update(`${jobId}\n${ref}`).digest("base64url");
}

/** Adds an update to a case inside a unit, together with other changes of it. */
export async function updateCase(
  unit: Unit,
  id: string,
  input: CaseNodeUpdateInput,
  change: (item: Case) => Case = (item) => item,
): Promise<{ item: Case; update: CaseNodeUpdate }> {
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
        index: current.updates.length + 1,
        created_at: laterOf(unit.now, current.updated_at),
      };
      const next = change(current);
      return {
        ...next,
        updates: [...next.updates, update],
        total_cost: next.total_cost + (update.cost ?? 0),
      };
    },
    { update: () => update },
  );
  return { item, update: update as CaseNodeUpdate };
}

/** Puts a question inside a unit: case and job await. */
export async function askCase(unit: Unit, id: string, question: Question, totalCost?: number): Promise<Case> {
  const { item } = await updateCase(
    unit,
    id,
    {
      name: question.question,
      payload: {
        supervaizer_form: { question: question.question, answer: { fields: question.fields } },
        question,
      },
    },
    (current) => ({ ...current, status: followCase(current, "awaiting_on_input"), question }),
  );
  await changeJob(unit, item.job_id, (job) => ({
    ...job,
    open_questions: job.open_questions + 1,
    total_cost: totalCost ?? job.total_cost,
    status: job.status === "in_progress" ? "awaiting" : job.status,
  }));
  return item;
}

/** Takes an answer inside a unit; the job goes on being `awaiting` while another of its questions is open. */
export async function answerCase(
  unit: Unit,
  id: string,
  answer: { answer: Record<string, unknown>; message?: string | null; by?: string },
): Promise<Case> {
  const asked = await unit.tx.get("Case", id);
  if (!asked) throw caseNotFound(id);
  const { question } = asked;
  if (asked.status !== "awaiting" || !question) {
    throw new ServiceError(
      "invalid_transition",
      `Case "${id}" does not await an answer: it is ${asked.status}`,
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

/** What a case asked, if it did, awaits no answer any more: without any question that does, the job goes on. */
async function dropQuestion(unit: Unit, before: Case | undefined): Promise<void> {
  if (!before?.question) return;
  const job = await unit.tx.get("Job", before.job_id);
  // None is open any more once the job is told to end.
  if (!job || job.open_questions === 0) return;
  const open_questions = job.open_questions - 1;
  const goesOn = open_questions === 0 && job.status === "awaiting";
  await changeJob(unit, job.id, (current) => ({
    ...current,
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
export async function endCase(unit: Unit, id: string, end: CaseEnd): Promise<Case> {
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

/** Ends those of some cases that are there and have not ended, with their job. */
export async function endCases(unit: Unit, ids: Iterable<string>, end: CaseEnd): Promise<void> {
  for (const id of ids) {
    const item = await unit.tx.get("Case", id);
    if (item && !isTerminal(item.status)) await endCase(unit, id, end);
  }
}

/** Takes up a case that ended with its job, so that the job can go on with it. */
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

/** Replaces a case inside a unit: lets participants in, tells observers. */
export async function changeCase(
  unit: Unit,
  id: string,
  change: (item: Case) => Case,
  told: { by?: string; update?: () => CaseNodeUpdate | undefined } = {},
): Promise<Case> {
  let previous: Case | undefined;
  const next = (current: Case): Case => {
    previous = current;
    return { ...change(current), updated_at: laterOf(unit.now, current.updated_at) };
  };
  const item = await unit.tx.change("Case", id, next).catch((error: unknown) => {
    throw error instanceof StoreMissingError ? caseNotFound(id) : error;
  });
  await unit.tell({
    kind: "case:changed",
    case: item,
    previous: previous!,
    update: told.update?.(),
    by: told.by,
  });
  return item;
}

function hasEnded(item: Case): ServiceError {
  return new ServiceError(
    "invalid_transition",
    `Case "${item.id}" is ${item.status}: it takes no more updates`,
    {
      detail: `The current status is "${item.status}".`,
    },
  );
}

function followCase(item: Case, event: LifecycleEvent): EntityStatus {
  const next = nextStatus(item.status, event);
  if (next) return next;
  throw new ServiceError(
    "invalid_transition",
    `Case "${item.id}" is ${item.status}: ${event} does not apply`,
    {
      detail: `The current status is "${item.status}".`,
    },
  );
}

/** The error for an id that no case has. */
export function caseNotFound(id: string): ServiceError {
  return new ServiceError("case_not_found", `There is no case "${id}"`, {
    detail: "Look at the job's case_ids to see which exist.",
  });
}
