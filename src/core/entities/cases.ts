import { createHash } from "node:crypto";
import { ServiceError } from "../errors.ts";
import type { AccountRef } from "../models/account.ts";
import type { Case } from "../models/case.ts";
import type { CaseNodeUpdate, CaseNodeUpdateInput } from "../models/case-node-update.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import { type LifecycleEvent, nextStatus } from "../models/lifecycle.ts";
import type { Question } from "../models/question.ts";
import type { ListQuery, Page, Store } from "../store/store.ts";
import { changeJob, jobNotFound } from "./jobs.ts";
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

  countBy(field: string): Promise<Record<string, number>> {
    return this.#store.table("Case").countBy(field);
  }

  /** An operator's override: any status from any status. */
  override(id: string, status: EntityStatus, by: string): Promise<Case> {
    return this.#ledger.write(async (unit) => {
      const item = await changeCase(
        unit,
        id,
        (current) => ({
          ...current,
          status,
          question: status === "awaiting" ? current.question : null,
          finished_at: isTerminal(status) ? (current.finished_at ?? unit.now) : null,
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
      await changeJob(unit, item.job_id, (job) => ({
        ...job,
        case_ids: job.case_ids.filter((one) => one !== id),
        awaiting_cases: job.awaiting_cases.filter((one) => one !== id),
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
  await changeJob(unit, jobId, (current) => ({ ...current, case_ids: [...current.case_ids, id] }));
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
      update = {
        cost: null,
        name: null,
        payload: null,
        is_final: false,
        error: null,
        ...fields,
        index: current.updates.length + 1,
        created_at: unit.now,
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
export async function askCase(unit: Unit, id: string, question: Question): Promise<Case> {
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
    awaiting_cases: [...job.awaiting_cases, id],
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
  await changeJob(unit, item.job_id, (job) => {
    const awaiting = job.awaiting_cases.filter((one) => one !== id);
    const goesOn = awaiting.length === 0 && job.status === "awaiting";
    return { ...job, awaiting_cases: awaiting, status: goesOn ? "in_progress" : job.status };
  });
  return item;
}

/** Ends a case inside a unit. */
export async function closeCase(
  unit: Unit,
  id: string,
  end: { delivery?: Record<string, unknown> | null; events: readonly LifecycleEvent[]; error?: string },
): Promise<Case> {
  const { item } = await updateCase(
    unit,
    id,
    {
      name: end.error === undefined ? "close" : "error",
      payload: end.delivery ?? null,
      is_final: true,
      error: end.error ?? null,
    },
    (current) => {
      let next = current;
      for (const event of end.events) next = { ...next, status: followCase(next, event) };
      return {
        ...next,
        question: null,
        final_delivery: end.delivery ?? next.final_delivery,
        finished_at: isTerminal(next.status) ? unit.now : next.finished_at,
      };
    },
  );
  return item;
}

/** Replaces a case inside a unit: lets participants in, tells observers. */
export async function changeCase(
  unit: Unit,
  id: string,
  change: (item: Case) => Case,
  told: { by?: string; update?: () => CaseNodeUpdate | undefined } = {},
): Promise<Case> {
  const previous = await unit.tx.get("Case", id);
  if (!previous) throw caseNotFound(id);
  const item = { ...change(previous), updated_at: unit.now };
  await unit.tx.change("Case", id, () => item);
  await unit.tell({ kind: "case:changed", case: item, previous, update: told.update?.(), by: told.by });
  return item;
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
