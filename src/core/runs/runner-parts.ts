import type { AuditEvent, AuditLog } from "../audit/audit-log.ts";
import type { Actor } from "../audit/caller.ts";
import { countOf } from "../base/count-of.ts";
import { ServiceError } from "../base/errors.ts";
import type { GivenKey } from "../entities/keyed-requests.ts";
import type { Unit } from "../entities/ledger.ts";
import type { Sight } from "../models/access.ts";
import type { StoredJob } from "../models/job.ts";
import { QUEUED_JOBS } from "../models/job-state.ts";
import type { ListQuery, Store } from "../store/store.ts";
import type { CodeChecks } from "./check/code-checks.ts";
import type { HeldTries } from "./check/held-tries.ts";
import type { Cluster } from "./cluster/cluster.ts";
import type { LeaseTimes } from "./cluster/membership.ts";
import type { Suspects } from "./cluster/suspects.ts";
import type { Pauses } from "./operate/pauses.ts";
import type { ActiveRuns, ActiveRunsParts } from "./queue/active-runs.ts";
import type { Budgets } from "./queue/budgets.ts";
import type { Scheduler } from "./queue/scheduler.ts";
import type { Turns } from "./queue/turns.ts";
import type { Waker } from "./queue/waker.ts";
import type { ResolvedSchedule } from "./schedules/define-schedule.ts";

/** What the runner is made of; the rest it makes itself. */
export interface RunnerParts extends Omit<ActiveRunsParts, "scheduler" | "cluster" | "queue" | "stop"> {
  readonly store: Store;
  readonly audit: AuditLog;
  readonly maxConcurrentJobs: number;
  /** Whether nothing runs until the scheduler is resumed. @default false */
  readonly isPaused?: boolean;
  /** Milliseconds by which a test has advanced the clock. @default never */
  readonly advancedBy?: (() => number) | undefined;
  /** When an instance counts as dead, and how often it looks; where several share the store. */
  readonly leaseTimes?: Partial<LeaseTimes> | undefined;
  readonly schedules: readonly ResolvedSchedule[];
  readonly maxQueuedJobs: number;
  /** Whether an identity provider vouches for people: names that were typed count for nothing then. @default false */
  readonly provesPeople?: boolean;
  /** The budgets of agents; `undefined` where nobody starts jobs by requests. */
  readonly budgets?: Budgets | undefined;
  /** Milliseconds that deleted jobs can be restored; `null` keeps them indefinitely. */
  readonly deletedKeep: number | null;
  /** Workspace of jobs whose start request names none. */
  readonly workspace: string;
}

/** What every request to the runner is answered with. */
export interface RequestParts extends RunnerParts {
  readonly scheduler: Scheduler;
  /** The instances of the store: this one, or this one among others. */
  readonly cluster: Cluster;
  /** The runs that this instance has. */
  readonly runs: ActiveRuns;
  /** Begins runs, each when its turn comes. */
  readonly turns: Turns;
  /** Resumes suspended jobs. */
  readonly waker: Waker;
  /** Resumes jobs that may end the process. */
  readonly suspects: Suspects;
  /** Tries whether held jobs fit the code. */
  readonly tries: HeldTries;
  /** Finds suspended jobs that do not fit new code. */
  readonly codeChecks: CodeChecks;
  readonly pauses: Pauses;
}

/** Who asks for a change of a job, and under which key only once. */
export interface Asked {
  readonly actor?: Actor | undefined;
  readonly once?: GivenKey | undefined;
}

/** Adds a line to the audit log with a change that somebody asked for. */
export async function note(
  { audit }: RequestParts,
  unit: Unit,
  by: Actor | undefined,
  event: Omit<AuditEvent, "by">,
): Promise<void> {
  if (by !== undefined) await audit.write(unit, { by, ...event });
}

/** What a line of the audit log is about. */
export const asJob = (id: string) => ({ kind: "job", id });
export const asCase = (id: string) => ({ kind: "case", id });

/** Refuses new work while the service closes, unless other instances can do it. */
export function refuseWhenClosing({ cluster, scheduler }: RequestParts): void {
  if (!scheduler.isClosed || cluster.owner !== null) return;
  throw new ServiceError("unavailable", "The service is closing", {
    detail: "Retry after it has restarted.",
    headers: { "Retry-After": "5" },
  });
}

/** Refuses to run a copy of another service's job: its effects would happen a second time. */
export function refusePulled({ id, pulled_from }: StoredJob): void {
  if (!pulled_from) return;
  throw new ServiceError(
    "invalid_transition",
    `Job "${id}" was pulled from ${pulled_from.url}: it does not run here`,
    {
      detail: `Fork it, and run the fork: svc job fork ${id} --from <call>`,
    },
  );
}

/** Refuses a job of an agent and a workspace that would have to wait while too many do. */
export async function refuseWhenFull(
  parts: RequestParts,
  job: { readonly agent: string; readonly workspace: string },
  sight: Sight | undefined,
): Promise<void> {
  if (!parts.scheduler.hasFreeSlot({ jobId: "", ...job })) await refuseMore(parts, sight);
}

/**
 * Refuses a job that would have to wait while too many do. A tenth of the queue is kept for callers who see everything;
 * of the others, who sees only what it has started has at most half, and so has a workspace to which keys are limited.
 */
export async function refuseMore(
  { cluster, scheduler, jobs, maxQueuedJobs }: RequestParts,
  sight?: Sight,
): Promise<void> {
  const queued = await cluster.countQueued();
  const kept = sight && maxQueuedJobs > 1 ? Math.max(1, Math.floor(maxQueuedJobs / 10)) : 0;
  const share = Math.ceil(maxQueuedJobs / 2);
  const isFull = queued >= maxQueuedJobs - kept;
  const own = isFull || queued < share ? undefined : ofShare(sight);
  const isOver =
    own && ((await jobs.countBy("status", { where: { ...QUEUED_JOBS, ...own } })).stopped ?? 0) >= share;
  if (!isFull && !isOver) return;
  const seconds = scheduler.retryAfter();
  // How many jobs others have is no business of who sees a part.
  const message = isOver
    ? "Too many jobs of this caller are queued"
    : sight
      ? "Too many jobs are queued"
      : `${countOf(queued, "job is", "jobs are")} already queued`;
  throw new ServiceError("rate_limited", message, {
    detail: `Try again in ${seconds} s.`,
    headers: { "Retry-After": String(seconds) },
  });
}

/** The jobs that count together; `undefined` where the caller has no share of its own. */
function ofShare(sight: Sight | undefined): ListQuery["where"] {
  if (sight?.startedBy !== undefined) return { access: sight.startedBy };
  return sight?.workspace === undefined ? undefined : { workspace_id: sight.workspace };
}
