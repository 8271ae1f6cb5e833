import { ServiceError } from "../base/errors.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import type { Held, StoredJob } from "../models/job.ts";
import { dropStale, type HoldReason, type JobMove, leadsTo, may, stateOf } from "../models/job-state.ts";
import { type LifecycleEvent, nextStatus } from "../models/lifecycle.ts";
import type { MarkEntry } from "../models/run-entry.ts";
import { withTags } from "../models/tags.ts";
import { StoreMissingError } from "../store/store.ts";
import { laterOf } from "../store/timestamp.ts";
import { type Ending, pathTo } from "./ending.ts";
import { jobNotFound } from "./jobs.ts";
import type { Unit } from "./ledger.ts";
import { removeWaits } from "./received-events.ts";

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

export function moved(
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

export async function noteChange(
  unit: Unit,
  previous: StoredJob,
  job: StoredJob,
  by?: string,
): Promise<void> {
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
