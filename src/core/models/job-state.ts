import * as v from "valibot";
import { type EntityStatus, isTerminal } from "./entity-status.ts";
import type { StopReason, StoredJob } from "./job.ts";
import type { WaitsFor } from "./suspended.ts";

/**
 * What a job does, derived from what is stored of it. A job is always in one of these states:
 *
 * - `queued`: it waits for a slot to start in, or to start again after a retry.
 * - `parked`: an operator has set it to `stopped`. It leaves the queue until its status is set again.
 * - `running`: its handler works, or only waits in memory for something that is not a question. After a crash, a job
 *   stays `running` until a process resumes it.
 * - `waiting`: the same, with an open question.
 * - `suspended`: it only waits, for a time, an answer, an event or a child, and is not in memory.
 * - `held`: its code no longer fits its record, it ended its process too often, or its parameters cannot be read. Nothing runs until it is released.
 * - `pulled`: an unfinished copy of another service's job. It never runs here.
 * - `stopping`: it was asked to stop, and its end is not stored yet.
 * - `ended`: it is completed, failed or cancelled.
 */
export type JobState =
  | "queued"
  | "parked"
  | "running"
  | "waiting"
  | "suspended"
  | "held"
  | "pulled"
  | "stopping"
  | "ended";

/** What moves a job from one state to another. */
export type JobMove =
  /** A run starts or resumes. */
  | "run"
  /** A question opens, or the last open one is answered or withdrawn. */
  | "ask"
  /** It only waits, and leaves memory. */
  | "suspend"
  | "hold"
  /** A held job resumes: other code fits it, or a person decides so. */
  | "release"
  /** A person or its parent asks it to stop. */
  | "stop"
  | "end"
  /** A person has it run again: from its last good step, from the start, or with raised limits. */
  | "retry"
  /** An operator sets its status, other than to an end. */
  | "set";

type Moves = Readonly<Partial<Record<JobMove, readonly JobState[]>>>;

const IN_MEMORY = ["running", "waiting"] as const;
const ALWAYS = { set: [...IN_MEMORY, "parked", "stopping"], end: ["ended"] } as const;
const OPEN = { ...ALWAYS, stop: ["stopping"] } as const;
const ACTIVE = { ...OPEN, run: IN_MEMORY, ask: IN_MEMORY, suspend: ["suspended"], hold: ["held"] } as const;

/** What can move a job in each state, and where to: nothing else does, which `changeJob` checks. */
export const JOB_MOVES: Readonly<Record<JobState, Moves>> = {
  queued: { ...OPEN, run: ["running"] },
  parked: OPEN,
  running: ACTIVE,
  waiting: ACTIVE,
  suspended: { ...OPEN, run: IN_MEMORY },
  held: { ...OPEN, run: IN_MEMORY, release: IN_MEMORY, retry: ["queued"] },
  pulled: { end: ["ended"] },
  stopping: ALWAYS,
  ended: { set: ALWAYS.set, retry: ["queued"] },
};

/** Reasons that hold a job instead of ending it: it is `awaiting` until a person decides, or the reason is gone. */
export const HOLD_REASONS = [
  "crash_loop",
  "code_changed",
  "unreadable_parameters",
] as const satisfies readonly StopReason[];
export type HoldReason = (typeof HOLD_REASONS)[number];

/** What a job's state is derived from; jobs of earlier versions lack some of it. */
export type StateFields = Pick<StoredJob, "status" | "stop_reason"> &
  Partial<Pick<StoredJob, "parked" | "suspended">>;

/** The state of a job. */
export function stateOf(job: StateFields): JobState {
  const { status, stop_reason } = job;
  if (isTerminal(status)) return "ended";
  if (status === "cancelling") return "stopping";
  if (status === "stopped") return job.parked ? "parked" : "queued";
  if (status === "awaiting" && stop_reason === "pulled") return "pulled";
  if (holdOf(job)) return "held";
  if (job.suspended) return "suspended";
  return status === "awaiting" ? "waiting" : "running";
}

/** Whether a job is in one of these states. */
export function isIn(job: StateFields, ...states: readonly JobState[]): boolean {
  return states.includes(stateOf(job));
}

/** Whether something can move a job as it is. */
export function may(job: StateFields, move: JobMove): boolean {
  return JOB_MOVES[stateOf(job)][move] !== undefined;
}

/** Why a job is held; `undefined` where it is not. */
export function holdOf({
  status,
  stop_reason,
}: Pick<StoredJob, "status" | "stop_reason">): HoldReason | undefined {
  if (status !== "awaiting") return undefined;
  return HOLD_REASONS.find((reason) => reason === stop_reason);
}

/** Whether a hold ends with a retry from the last good step: code that does not fit a record needs a decision instead. */
export function endsWithRetry(hold: HoldReason | undefined): boolean {
  return hold === "crash_loop" || hold === "unreadable_parameters";
}

/** Whether `move` leads from one state to the other; without a move, a change must keep the state. */
export function leadsTo(from: JobState, move: JobMove | null, to: JobState): boolean {
  return from === to || (move !== null && JOB_MOVES[from][move]?.includes(to) === true);
}

/** Removes from a job that is now in `state` what belongs to others. */
export function dropStale(job: StoredJob, state: JobState): void {
  if (job.parked && state !== "parked") job.parked = undefined;
  if (job.held && (state !== "held" || job.stop_reason !== "code_changed")) job.held = null;
  if (job.suspended && state !== "suspended") job.suspended = null;
  if (job.owner && !OWNED.includes(state)) job.owner = null;
}

/** States in which an instance may own a job: it is to run, or to end. */
const OWNED: readonly JobState[] = ["queued", "parked", "running", "waiting", "stopping"];

/** Statuses of jobs that have not ended. */
export const UNFINISHED: readonly EntityStatus[] = ["stopped", "in_progress", "awaiting", "cancelling"];

/** What a suspended job waits for; `undefined` where it is not suspended. Earlier versions stored no more than a time. */
export function waitsFor({ suspended }: Pick<StateFields, "suspended">): WaitsFor | undefined {
  if (!suspended) return undefined;
  return suspended.waits_for ?? (suspended.wake_at === null ? "event" : "time");
}

/**
 * What people mean by the state of a job, in lists, filters and counts, with the condition of a list that finds those in
 * it: each job is in exactly one. What waits in memory for less than `suspendAfter` runs.
 */
export const SHOWN_STATES = {
  running: { status: "in_progress", waits_for: [null, "answer"] },
  sleeping: { status: "in_progress", waits_for: "time" },
  waiting_for_event: { status: "in_progress", waits_for: "event" },
  waiting_for_child: { status: "in_progress", waits_for: "child" },
  chat: { status: "in_progress", waits_for: "message" },
  waiting_for_answer: { status: "awaiting", stop_reason: null },
  held: { status: "awaiting", stop_reason: HOLD_REASONS },
  pulled: { status: "awaiting", stop_reason: "pulled" },
  queued: { status: "stopped", parked: false },
  parked: { status: "stopped", parked: true },
  stopping: { status: "cancelling" },
  completed: { status: "completed" },
  failed: { status: "failed" },
  cancelled: { status: "cancelled" },
} as const;
export type ShownState = keyof typeof SHOWN_STATES;
export const ShownStateSchema = v.picklist(Object.keys(SHOWN_STATES) as [ShownState, ...ShownState[]]);

type Conditions = Readonly<Record<string, string | boolean | null | undefined | readonly (string | null)[]>>;

/** The conditions of a list for the jobs in a state that meet others, too; what contradicts it matches nothing. */
export function inState(state: ShownState, given: Conditions): Conditions {
  const where: Record<string, Conditions[string]> = { ...given };
  for (const [field, condition] of Object.entries<Conditions[string]>(SHOWN_STATES[state])) {
    const asked = given[field];
    const allowed = [condition].flat();
    where[field] =
      asked === undefined
        ? condition
        : allowed.filter((one): one is string => [asked].flat().includes(one as string));
  }
  return where;
}

const WAITS: Readonly<Record<WaitsFor, ShownState>> = {
  time: "sleeping",
  event: "waiting_for_event",
  child: "waiting_for_child",
  message: "chat",
  // It was given: the job is about to resume.
  answer: "running",
};

/** The state of a job as people mean it. */
export function shownStateOf(job: StateFields): ShownState {
  const { status } = job;
  if (status === "in_progress") return WAITS[waitsFor(job) ?? "answer"];
  const state = stateOf(job);
  if (state === "held" || state === "pulled" || state === "queued" || state === "parked") return state;
  if (status === "awaiting") return "waiting_for_answer";
  return status === "stopped" ? "queued" : status === "cancelling" ? "stopping" : status;
}

/** Which jobs run, as a condition of a list. */
export const RUNNING_JOBS = SHOWN_STATES.running;

/** Which jobs are held, as a condition of a list. */
export const HELD_JOBS = SHOWN_STATES.held;

/** Which jobs are queued, as a condition of a list. */
export const QUEUED_JOBS = SHOWN_STATES.queued;

/**
 * Which jobs a search for work finds, as a condition of a list: queued, running and waiting ones. Suspended jobs sleep
 * on, held ones wait for a person or for other code.
 */
export const ACTIVE_JOBS = {
  status: ["stopped", "in_progress", "awaiting"],
  wake_at: null,
  stop_reason: null,
  parked: false,
} as const;
