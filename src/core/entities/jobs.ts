import { ServiceError } from "../base/errors.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { Sight } from "../models/access.ts";
import type { DeletedJob } from "../models/deleted-job.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import { type Held, type Job, type StoredJob, toJob } from "../models/job.ts";
import { dropStale, type HoldReason, type JobMove, leadsTo, may, stateOf } from "../models/job-state.ts";
import { type LifecycleEvent, nextStatus } from "../models/lifecycle.ts";
import type { DamagedJob } from "../models/own-rows.ts";
import type { MarkEntry, RunEntry } from "../models/run-entry.ts";
import { withTags } from "../models/tags.ts";
import {
  type Condition,
  type ListQuery,
  type LogEntry,
  type Page,
  type Store,
  StoreConflictError,
  StoreMissingError,
  type Transaction,
} from "../store/store.ts";
import { laterOf } from "../store/timestamp.ts";
import { eraseCasesOf, removeCase } from "./case-history.ts";
import { type Ending, pathTo } from "./ending.ts";
import {
  asked,
  entryWithoutHidden,
  namesOthers,
  type OtherJobs,
  textWithoutHidden,
  withoutHidden,
} from "./hidden-jobs.ts";
import { freeKey, takeKey } from "./idempotency-keys.ts";
import { jobsInSight, NOTHING, seesJob } from "./in-sight.ts";
import { unlinkFiles } from "./job-files.ts";
import { forgetRequests } from "./keyed-requests.ts";
import type { Unit } from "./ledger.ts";
import { withLive } from "./live-values.ts";
import { removeWaits } from "./received-events.ts";
import { refuseDeleted } from "./refuse-deleted.ts";

/** What a job is created from; the rest is filled in. */
export type NewJob = Pick<
  StoredJob,
  "id" | "name" | "agent_name" | "job_context" | "job_fields" | "fingerprint" | "encrypted_agent_parameters"
> &
  Partial<
    Pick<
      StoredJob,
      | "agent_parameters"
      | "access"
      | "idempotency_key"
      | "agent_version"
      | "code_fingerprint"
      | "parent"
      | "schedule"
      | "forked_from"
      | "concurrency_key"
      | "rate_key"
      | "tags"
    >
  >;

/** Fields that may change together with a status. */
export type JobPatch = Partial<
  Pick<
    StoredJob,
    | "payload"
    | "result"
    | "error"
    | "responses"
    | "stop_reason"
    | "total_cost"
    | "open_questions"
    | "run_count"
    | "job_context"
    | "finished_at"
    | "case_count"
    | "parked"
    | "agent_version"
    | "code_fingerprint"
    | "held"
    | "suspended"
    | "owner"
  >
>;

/** Knows what a job that runs has cost: it is stored with each step, but with the job only now and then. */
export interface LiveCosts {
  of?: (jobId: string) => number | undefined;
  /** Of all jobs that run here and have cost something, by id. */
  all?: () => ReadonlyMap<string, number>;
}

/** Reads jobs. Only the functions below write them, inside a unit. */
export class Jobs {
  readonly #store: Store;
  readonly #liveCosts: LiveCosts;
  readonly #clock: () => Date;
  readonly #sight: Sight | undefined;
  readonly #others: OtherJobs = {
    sees: async (id) => {
      const job = await this.#store.table("Job").peek(id);
      return job !== undefined && seesJob(this.#sight, job);
    },
    hides: async (id) => {
      const job = await this.#store.table("Job").peek(id);
      if (job) return !seesJob(this.#sight, job);
      return (await this.#store.table("DeletedJob").get(id)) !== undefined;
    },
  };

  constructor(
    store: Store,
    liveCosts: LiveCosts = {},
    clock: () => Date = () => new Date(),
    sight: Sight | undefined = undefined,
  ) {
    this.#sight = sight;
    this.#store = store;
    this.#liveCosts = liveCosts;
    this.#clock = clock;
  }

  /** The same for a caller who sees a part: other jobs do not exist. */
  seenBy(sight: Sight): Jobs {
    return new Jobs(this.#store, this.#liveCosts, this.#clock, sight);
  }

  /** Jobs that lost data in a store repair, and that must not resume by themselves. */
  async damaged(): Promise<DamagedJob[]> {
    if (this.#sight) return [];
    return (await this.#store.table("DamagedJob").list({ limit: Number.POSITIVE_INFINITY })).items;
  }

  async find(id: string): Promise<StoredJob | undefined> {
    const job = await this.#store.table("Job").get(id);
    return job && seesJob(this.#sight, job) ? this.asSeen(this.#withCost(job)) : undefined;
  }

  /** A job that the caller sees, without the ids of others. */
  asSeen(job: StoredJob, others = this.#others): MaybePromise<StoredJob> {
    return this.#sight === undefined || !namesOthers(job) ? job : withoutHidden(job, others);
  }

  /** Texts about jobs, such as lines that one has logged, without the ids of those that the caller does not see. */
  async textsAsSeen(texts: readonly string[]): Promise<string[]> {
    if (this.#sight === undefined) return [...texts];
    const others = asked(this.#others);
    return Promise.all(texts.map((text) => textWithoutHidden(text, others)));
  }

  /** The job, or `job_not_found`; with `agentName`, another agent's job is not found either. */
  async get(id: string, agentName?: string): Promise<StoredJob> {
    return found(await this.find(id), id, agentName);
  }

  /** The result of `get` for read-only use: frozen, and synchronous if it is in memory. */
  peek(id: string, agentName?: string): MaybePromise<Readonly<StoredJob>> {
    return andThen(this.#store.table("Job").peek(id), (job) => {
      const shown = found(job && seesJob(this.#sight, job) ? job : undefined, id, agentName);
      // The most frequent read.
      return this.#sight === undefined ? shown : this.asSeen(shown);
    });
  }

  /** The job as the API returns it, with the ids of its cases, oldest first. */
  async show(given: StoredJob): Promise<Job> {
    const job = this.#sight === undefined ? given : await this.asSeen(given);
    if (job.case_count === 0) return toJob(job, []);
    const query = { where: { job_id: job.id }, sort: "created_at" };
    return toJob(job, await this.#store.table("Case").ids(query));
  }

  /** Jobs that were deleted and can be restored. */
  async deleted(query?: ListQuery): Promise<Page<DeletedJob>> {
    // Their rows no longer say whose they were.
    if (this.#sight) return { items: [], total: 0 };
    return this.#store.table("DeletedJob").list(query);
  }

  async list(query?: ListQuery): Promise<Page<StoredJob>> {
    const live = this.#withLive(this.#sight === undefined ? query : await this.#aboutSeen(query));
    const { items: found, ...page } = await this.#store.table("Job").list(live);
    // What is shown is what was searched: a job that runs may cost more by now.
    const costs = live?.live?.values?.total_cost;
    const items = found.map((job) => this.#withCost(job, costs?.get(job.id)));
    if (this.#sight === undefined) return { items, ...page };
    const others = asked(this.#others);
    return { items: await Promise.all(items.map((job) => this.asSeen(job, others))), ...page };
  }

  countBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "joins">,
  ): Promise<Record<string, number>> {
    if (this.#sight === undefined) return this.#store.table("Job").countBy(field, this.#withLive(query));
    return this.#aboutSeen(query).then((seen) =>
      this.#store.table("Job").countBy(field, this.#withLive(seen)),
    );
  }

  /** What jobs have cost together, per value of a facet, for those that cost something: read from the index alone. */
  async costBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "joins">,
  ): Promise<Record<string, number>> {
    const seen = this.#withLive(this.#sight === undefined ? query : await this.#aboutSeen(query));
    const live = {
      ...(seen as ListQuery | undefined)?.live,
      values: { total_cost: this.#liveCosts.all?.() ?? new Map() },
    };
    const sums = await this.#store.table("Job").sumBy(field, "total_cost", { ...seen, live });
    // Without the noise of adding decimal fractions.
    return Object.fromEntries(
      Object.entries(sums).map(([value, sum]) => [value, Number(sum.toPrecision(14))]),
    );
  }

  /** The ids of what `list` would return, all by default: read from the index alone. */
  ids(query?: ListQuery): Promise<string[]> {
    if (this.#sight === undefined) return this.#store.table("Job").ids(this.#withLive(query));
    return this.#aboutSeen(query).then((seen) => this.#store.table("Job").ids(this.#withLive(seen)));
  }

  /** The children of a job that have not ended and end with it. */
  async openChildren(id: string): Promise<StoredJob[]> {
    const where = { parent_id: id, status: ["stopped", "in_progress", "awaiting", "cancelling"] };
    const { items } = await this.list({ where, sort: "created_at", limit: Number.POSITIVE_INFINITY });
    return items.filter(({ parent }) => parent && !parent.detached);
  }

  /** What jobs that run here have cost so far, by id. */
  costsNow(): ReadonlyMap<string, number> {
    return (this.#sight ? undefined : this.#liveCosts.all?.()) ?? new Map();
  }

  /** Lines of a job's run log after number `after`. */
  async log(id: string, range?: { after?: number; limit?: number }): Promise<LogEntry<RunEntry>[]> {
    if (this.#sight && !(await this.#others.sees(id))) return [];
    const lines = this.#store.log("Run").read(id, range);
    return this.#sight ? this.#shown(await lines) : lines;
  }

  /** The beginning and the end of a long log; all of it if it has at most `first + last` entries. */
  async logEnds(id: string, { first, last }: { first: number; last: number }): Promise<LogEntry<RunEntry>[]> {
    if (this.#sight && !(await this.#others.sees(id))) return [];
    const log = this.#store.log("Run");
    const after = (await log.last(id)) - last;
    if (after <= first) return this.#shown(await log.read(id));
    const [beginning, end] = await Promise.all([log.read(id, { limit: first }), log.read(id, { after })]);
    return this.#shown([...beginning, ...end]);
  }

  /** Lines of a log as the caller may read them. */
  async #shown(lines: LogEntry<RunEntry>[]): Promise<LogEntry<RunEntry>[]> {
    if (this.#sight === undefined) return lines;
    const others = asked(this.#others);
    return Promise.all(
      lines.map(async (line) => ({ ...line, entry: await entryWithoutHidden(line.entry, others) })),
    );
  }

  /** The query, or one that finds nothing where it asks for relatives of a job that the caller does not see. */
  async #aboutSeen<Q extends ListQuery>(query: Q | undefined): Promise<Q | undefined> {
    const { parent_id, forked_from, mission_id } = query?.where ?? {};
    const isAbout = async (id: Condition | undefined, hidden: (id: string) => Promise<boolean>) =>
      typeof id === "string" && (await hidden(id));
    const isHidden = async (id: string) => !(await this.#others.sees(id));
    const isOther =
      (await isAbout(parent_id, isHidden)) ||
      (await isAbout(forked_from, isHidden)) ||
      (await isAbout(mission_id, this.#others.hides));
    if (!isOther || query === undefined) return query;
    return { ...query, where: { ...query.where, id: NOTHING } };
  }

  #withCost(job: StoredJob, searched?: number): StoredJob {
    const total_cost = isTerminal(job.status) ? undefined : (searched ?? this.#liveCosts.of?.(job.id));
    return total_cost === undefined ? job : { ...job, total_cost };
  }

  /** The query about what jobs cost now, and how long they have taken so far, as that is what is shown of them. */
  #withLive<Q extends ListQuery>(query: Q | undefined): Q | undefined {
    const seen = jobsInSight(this.#sight, query);
    return withLive(seen, { now: () => this.#clock(), costs: this.#liveCosts.all });
  }
}

/**
 * Stores a new job inside a unit, with `begin` together with the beginning of its first run; a repeated
 * request returns the job that it created at first. The caller stores its first `cases`.
 */
export async function createJob(
  unit: Unit,
  input: NewJob,
  { begin = false, cases = 0, owner = null as string | null } = {},
): Promise<{ job: StoredJob; created: boolean }> {
  // What changes comes first: a store that has room for the next version beside this one logs the rest once.
  const job: StoredJob = {
    status: "stopped",
    run_count: 0,
    owner: null,
    stop_reason: null,
    finished_at: null,
    updated_at: unit.now,
    suspended: null,
    held: null,
    agent_version: null,
    code_fingerprint: null,
    case_count: cases,
    open_questions: 0,
    total_cost: 0,
    payload: null,
    result: null,
    error: null,
    responses: [],
    created_at: unit.now,
    agent_parameters: null,
    idempotency_key: null,
    schedule: null,
    concurrency_key: null,
    parent: null,
    forked_from: null,
    pulled_from: null,
    ...input,
  };
  const begun = begin ? moved(unit, job, ["start_work"], { run_count: 1, ...(owner && { owner }) }) : job;
  try {
    // Not asked for before: most are new, and a store across a network finds out when it inserts them.
    await unit.tx.insert("Job", begun);
  } catch (error) {
    const existing = error instanceof StoreConflictError && (await unit.tx.get("Job", input.id));
    if (!existing) throw error;
    return { job: sameRequest(existing, input), created: false };
  }
  if (job.idempotency_key !== null) await takeKey(unit.tx, job.idempotency_key, job.id);
  const line = await unit.record(job.id, { at: unit.now, type: "status", from: null, to: job.status });
  // Only a deleted job has left lines.
  if (line > 1) await refuseDeleted(unit.tx, job.id);
  const told = unit.emit({ kind: "job:created", job });
  if (told) await told;
  if (begin) await noteChange(unit, job, begun);
  return { job: begun, created: true };
}

/** The existing job, if it was created by the same request. */
export function sameRequest(
  existing: StoredJob,
  request: Pick<NewJob, "id" | "agent_name" | "fingerprint">,
): StoredJob {
  if (existing.fingerprint === request.fingerprint && existing.agent_name === request.agent_name)
    return existing;
  throw new ServiceError("job_already_exists", `Job "${existing.id}" already exists with different content`, {
    detail: "Use a new job_id, or repeat the original request unchanged.",
  });
}

/** Sets a status inside a unit, whatever it was. */
export function overrideJob(
  unit: Unit,
  id: string,
  status: EntityStatus,
  by: string,
  patch: JobPatch = {},
): Promise<StoredJob> {
  return changeJob(
    unit,
    id,
    isTerminal(status) ? "end" : "set",
    (job) => ({
      ...job,
      status,
      open_questions: isTerminal(status) ? 0 : job.open_questions,
      finished_at: isTerminal(status) ? (job.finished_at ?? laterOf(unit.now, job.updated_at)) : null,
      stop_reason: isTerminal(status) && !isTerminal(job.status) ? "overridden" : job.stop_reason,
      ...patch,
    }),
    by,
  );
}

/** Removes a job with its cases permanently inside a unit; resolves with the number of cases. */
export async function removeJob(unit: Unit, id: string, by?: string): Promise<number> {
  const job = await unit.tx.get("Job", id);
  if (!job) throw jobNotFound(id);
  const removed = await removeCasesOf(unit, id, by);
  await eraseCasesOf(unit, id);
  if (!isTerminal(job.status)) await removeWaits(unit, id);
  await unit.tx.remove("Job", id);
  await freeKey(unit.tx, job);
  await forgetRequests(unit, id);
  await unlinkFiles(unit, id);
  await unit.tx.clear("Run", id);
  await unit.emit({ kind: "job:deleted", job, by });
  await unit.emit({ kind: "job:erased", job, by });
  await leaveRelatives(unit, job);
  return removed;
}

/** Does inside the unit that takes a job out of the table what its children and its parent need then. */
export async function leaveRelatives(unit: Unit, { id, status, parent }: StoredJob): Promise<void> {
  if (status === "completed") await detachChildren(unit, id);
  if (parent) await wakeParents(unit, parent.job_id);
}

/** Open children of a completed job continue; once it is gone, nothing else tells that it was completed. */
async function detachChildren(unit: Unit, id: string): Promise<void> {
  for (const childId of await unit.tx.ids("Job", "parent_id", id)) {
    const child = await unit.tx.get("Job", childId);
    if (!child?.parent || child.parent.detached || isTerminal(child.status)) continue;
    await changeJob(unit, childId, null, (job) => ({ ...job, parent: { ...job.parent!, detached: true } }));
  }
}

/** The ids of a job's cases inside a unit, oldest first. */
export function caseIdsOf(tx: Transaction, jobId: string): Promise<string[]> {
  return tx.ids("Case", "job_id", jobId);
}

/** Removes the cases of a job inside a unit; the caller must update the job's count. */
export async function removeCasesOf(unit: Unit, jobId: string, by?: string): Promise<number> {
  const ids = await caseIdsOf(unit.tx, jobId);
  for (const caseId of ids) {
    const item = await unit.tx.get("Case", caseId);
    if (!item) continue;
    await removeCase(unit, item, by);
  }
  return ids.length;
}

/** What the last event of a path does. */
const MOVES: Readonly<Record<LifecycleEvent, JobMove>> = {
  start_work: "run",
  awaiting_on_input: "ask",
  input_received: "ask",
  cancel_requested: "stop",
  cancel_while_waiting: "stop",
  successfully_done: "end",
  error_encountered: "end",
  timeout_or_error: "end",
  cancel_confirmed: "end",
};

/** Moves a job inside a unit, along these edges. */
export function moveJob(
  unit: Unit,
  id: string,
  events: LifecycleEvent | readonly LifecycleEvent[],
  patch: JobPatch = {},
  by?: string,
): Promise<StoredJob> {
  const path = [events].flat() as LifecycleEvent[];
  return changeJob(unit, id, MOVES[path.at(-1)!], (job) => moved(unit, job, path, patch), by);
}

function moved(
  unit: Unit,
  job: StoredJob,
  events: readonly LifecycleEvent[],
  patch: JobPatch = {},
): StoredJob {
  let { status } = job;
  for (const event of events) status = follow(job, status, event);
  return {
    ...job,
    finished_at: isTerminal(status) ? laterOf(unit.now, job.updated_at) : job.finished_at,
    ...patch,
    status,
  };
}

/** Ends a job inside a unit, along the edges that lead there. */
export function endJob(
  unit: Unit,
  id: string,
  decide: (job: StoredJob) => { readonly to: Ending; readonly patch: JobPatch },
  by?: string,
): Promise<StoredJob> {
  const end = (job: StoredJob) => {
    const { to, patch } = decide(job);
    return moved(unit, job, pathTo(to, job.status), { open_questions: 0, ...patch });
  };
  return changeJob(unit, id, "end", end, by);
}

/** Why a job is held. */
export interface Hold {
  readonly reason: HoldReason;
  /** For people. */
  readonly error: string;
  /** The recorded call that the code does not make, if that is the reason. */
  readonly held?: Omit<Held, "at" | "message">;
  readonly total_cost?: number;
}

/**
 * Holds a job inside a unit: it is `awaiting` with a reason, its cases and questions stay as they are, and nothing runs
 * until it is released.
 */
export async function holdJob(
  unit: Unit,
  id: string,
  { reason, error, held, ...cost }: Hold,
): Promise<StoredJob> {
  await unit.record(id, { type: "mark", mark: "held", message: error });
  return changeJob(unit, id, "hold", (job) => ({
    ...job,
    ...{ ...cost, status: "awaiting", stop_reason: reason, error },
    held: held ? { at: unit.now, message: error, ...held } : null,
    // It belongs to the code that it fits.
    agent_version: held?.recorded.version ?? job.agent_version,
    code_fingerprint: held?.recorded.fingerprint ?? job.code_fingerprint,
  }));
}

/** Resumes a held job inside a unit, without the recorded calls of the lines in `cut`: the caller queues it. */
export async function releaseJob(
  unit: Unit,
  id: string,
  { by, cut }: Pick<MarkEntry, "cut"> & { readonly by: string },
): Promise<StoredJob> {
  await unit.record(id, { type: "mark", mark: "continued", ...(cut && { cut }), by });
  return changeJob(unit, id, "release", released, by);
}

/** A job as it is when it is no longer held. */
export function released(job: StoredJob): StoredJob {
  if (!may(job, "release")) return job;
  const status = job.open_questions > 0 ? "awaiting" : "in_progress";
  return { ...job, status, held: null, stop_reason: null, error: null };
}

/** Adds tags to a job inside a unit. */
export function tagJob(unit: Unit, id: string, tags: readonly string[]): Promise<StoredJob> {
  return changeJob(unit, id, null, (job) => ({ ...job, tags: withTags(job.tags, tags) }));
}

/** Stores inside a unit that a job leaves memory until `wake_at`, or until something that it waits for is stored. */
export function suspendJob(
  unit: Unit,
  id: string,
  suspended: Omit<NonNullable<StoredJob["suspended"]>, "at">,
  total_cost: number,
): Promise<StoredJob> {
  return changeJob(unit, id, "suspend", (job) => ({
    ...job,
    suspended: { at: unit.now, ...suspended },
    total_cost,
  }));
}

/**
 * Makes a suspended job due inside the unit that stores what it waits for: it is resumed once that is stored, also
 * where the process ends right after it. Does nothing to a job that is in memory.
 */
export async function wakeJob(unit: Unit, id: string): Promise<void> {
  if ((await unit.tx.get("Job", id))?.suspended) await changeJob(unit, id, null, (job) => due(job, unit.now));
}

/** The jobs that may wait for a child: its parent, and those whose copied beginning has started it. */
async function wakeParents(unit: Unit, parentId: string): Promise<void> {
  const ids = new Set([parentId]);
  for (const id of ids) {
    await wakeJob(unit, id);
    for (const fork of await unit.tx.ids("Job", "forked_from", id)) ids.add(fork);
  }
}

/** A job as it is once something that it waits for has come: where it is suspended, it is to be resumed now. */
export function due(job: StoredJob, now: string): StoredJob {
  if (!job.suspended) return job;
  const { reached: _, ...suspended } = job.suspended;
  return { ...job, suspended: { ...suspended, wake_at: now } };
}

/**
 * Takes a job away from its run inside a unit, wherever that is, and gives it to an instance: nothing that the run still
 * does is stored. Nobody is notified, as nothing changes that others see of the job; `total_cost` is what they see now.
 */
export async function takeJob(
  unit: Unit,
  id: string,
  { owner = null, total_cost }: { readonly owner?: string | null; readonly total_cost?: number } = {},
): Promise<void> {
  if (!(await unit.tx.get("Job", id))) return;
  await unit.tx.change("Job", id, (job) => ({
    ...job,
    run_count: job.run_count + 1,
    owner,
    total_cost: total_cost ?? job.total_cost,
  }));
}

/**
 * Replaces the envelope of the parameters of a job, which may be deleted, unless another one is there by now. They stay the
 * same: nobody is notified.
 */
export async function renewParameters(
  { tx }: Pick<Unit, "tx">,
  { table, id }: { readonly table: "Job" | "DeletedJob"; readonly id: string },
  { before, after }: { readonly before: string; readonly after: string },
): Promise<boolean> {
  const job = await tx.get(table, id);
  if (job?.encrypted_agent_parameters !== before) return false;
  await tx.change(table, id, (current) => ({ ...current, encrypted_agent_parameters: after }));
  return true;
}

/** Stores inside a unit what a run does next. Nobody is notified. */
export async function noteDoing(
  unit: Unit,
  id: string,
  doing: NonNullable<StoredJob["doing"]>,
): Promise<void> {
  await unit.tx.change("Job", id, (job) => ({ ...job, doing }));
}

/**
 * Replaces a job inside a unit by the new one that `change` makes: records a change of status in the run log,
 * calls participants, notifies observers. Where the job's state changes, `move` must lead there; `null` keeps it.
 */
export async function changeJob(
  unit: Unit,
  id: string,
  move: JobMove | null,
  change: (job: StoredJob) => StoredJob,
  by?: string,
): Promise<StoredJob> {
  let previous: StoredJob | undefined;
  const next = (current: StoredJob): StoredJob => {
    previous = current;
    const changed = change(current);
    changed.updated_at = laterOf(unit.now, current.updated_at);
    const from = stateOf(current);
    const to = stateOf(changed);
    if (!leadsTo(from, move, to))
      throw new Error(`Job "${id}" is ${from}: ${move ? `"${move}"` : "this change"} does not make it ${to}`);
    dropStale(changed, to);
    return changed;
  };
  const job = await unit.tx.change("Job", id, next).catch((error: unknown) => {
    throw error instanceof StoreMissingError ? jobNotFound(id) : error;
  });
  await noteChange(unit, previous!, job, by);
  return job;
}

async function noteChange(unit: Unit, previous: StoredJob, job: StoredJob, by?: string): Promise<void> {
  const { id } = job;
  if (job.status !== previous.status) {
    const reason = job.stop_reason ?? undefined;
    const begins = previous.status === "stopped" && job.status === "in_progress";
    const entry = {
      at: unit.now,
      type: "status",
      from: previous.status,
      to: job.status,
      by,
      reason,
      ...(begins && {
        version: job.agent_version ?? undefined,
        code: job.code_fingerprint ?? undefined,
        reads: true as const,
      }),
    } as const;
    await unit.record(id, entry);
  }
  const told = unit.emit({ kind: "job:changed", job, previous, by });
  if (told) await told;
  if (isTerminal(job.status) && !isTerminal(previous.status)) {
    await removeWaits(unit, id);
    const finished = unit.emit({ kind: "job:finished", job, previous, by });
    if (finished) await finished;
    // Its parent may wait for that.
    if (job.parent) await wakeParents(unit, job.parent.job_id);
  }
}

function follow(job: StoredJob, status: EntityStatus, event: LifecycleEvent): EntityStatus {
  const next = nextStatus(status, event);
  if (next) return next;
  throw new ServiceError(
    "invalid_transition",
    `Job "${job.id}" is ${status}: event "${event}" does not apply`,
    {
      detail: `The current status is "${status}".`,
    },
  );
}

function found<J extends Readonly<StoredJob>>(job: J | undefined, id: string, agentName?: string): J {
  if (!job || (agentName !== undefined && job.agent_name !== agentName)) throw jobNotFound(id);
  return job;
}

/** The error for an unknown job id. */
export function jobNotFound(id: string): ServiceError {
  return new ServiceError("job_not_found", `Job "${id}" does not exist`, {
    detail: "List the jobs to see which exist.",
  });
}
