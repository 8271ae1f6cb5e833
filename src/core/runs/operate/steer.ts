import { type Actor, nameOf } from "../../audit/caller.ts";
import { isServiceError } from "../../base/errors.ts";
import { overrideCase } from "../../entities/change-case.ts";
import { moveJob, takeJob } from "../../entities/change-job.ts";
import { TO_CANCELLING } from "../../entities/ending.ts";
import { isRepeated } from "../../entities/keyed-requests.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { StoredCase } from "../../models/case.ts";
import { type EntityStatus, isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import { isIn } from "../../models/job-state.ts";
import { JOB_OVERRIDES } from "../../models/overrides.ts";
import { whileAsked } from "../questions/awake.ts";
import { whenWritable } from "../queue/when-writable.ts";
import type { StopOrder } from "../replay/child-handle.ts";
import { endOfParent, stoppedByParent } from "../replay/children.ts";
import type { Run } from "../replay/run.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import { cancellingEndOf, STOPPED, toCancelling } from "../replay/stopping.ts";
import { type Asked, asCase, asJob, note, type RequestParts, refusePulled } from "../runner-parts.ts";
import { cancelWithCases, endCancelled } from "./end-cancelled.ts";
import { changeWithRun, type FoundJob } from "./job-change.ts";
import { callJobStop } from "./method-calls.ts";
import { LEAVES_RUN, storeOverride } from "./store-override.ts";

interface StopOptions extends Partial<StopOrder> {
  /** @default a person stops it */
  readonly end?: RunEnd;
}

/** Asks a job to stop: its run ends, or the job does where it has none. */
export async function stopJob(
  parts: RequestParts,
  jobId: string,
  actor?: Actor,
  { end = STOPPED, write, record }: StopOptions = {},
): Promise<StoredJob> {
  const { agents, scheduler } = parts;
  const store = async (unit: Unit, found: FoundJob): Promise<Stopping> => {
    const stopping = await storeStop(parts, unit, found, { end, actor });
    await record?.(unit);
    return stopping;
  };
  const { job, run, isSuspended } = await changeWithRun(parts, jobId, store, { write });
  scheduler.remove(jobId);
  run?.end(end, () => callJobStop(parts, job, agents.of(job)));
  // The run may have left its job, to resume in a new process, in the moment in which the stop was stored.
  const isLeft =
    run?.isOver === true && !scheduler.isClosed && (await parts.jobs.find(jobId))?.status === "cancelling";
  if (isSuspended || isLeft) void endCancelled(parts, job, agents.of(job));
  return job;
}

interface Stopping {
  readonly job: StoredJob;
  readonly run?: FoundJob["run"];
  readonly isSuspended?: boolean;
}

async function storeStop(
  parts: RequestParts,
  unit: Unit,
  { job, run, spent }: FoundJob,
  { end, actor }: { readonly end: RunEnd; readonly actor: Actor | undefined },
): Promise<Stopping> {
  if (isIn(job, "ended", "stopping")) return { job };
  const by = actor && nameOf(actor);
  await note(parts, unit, actor, { action: "job.stop", target: asJob(job.id), before: job.status });
  // The instance that owns it ends it, or the one that claims it.
  const isSuspended = !run && isIn(job, "suspended");
  const isIdle = !run && !isSuspended && !parts.cluster.isElsewhere(job);
  if (isIdle) return { job: await cancelWithCases(unit, job, { end, total_cost: spent, by }) };
  const events = TO_CANCELLING[job.status as keyof typeof TO_CANCELLING];
  return { job: await moveJob(unit, job.id, events, toCancelling(end), by), run, isSuspended };
}

/** Stops a child because the handler of its parent does, unless it is gone or has ended. */
export async function stopChild(
  parts: RequestParts,
  parent: string,
  id: string,
  order: StopOrder,
): Promise<void> {
  const child = await parts.jobs.find(id);
  // A fork knows the children of the other job, which needs them.
  if (child && child.parent?.job_id !== parent)
    parts.log.warn("a job does not stop the child of another one", { job_id: parent, child: id });
  if (child?.parent?.job_id !== parent) return order.write((unit) => order.record(unit));
  await stopJob(parts, id, undefined, { end: stoppedByParent(parent), ...order }).catch((error: unknown) => {
    const isGone = isServiceError(error) && error.type === "job_not_found";
    if (!isGone) throw error;
    return order.write((unit) => order.record(unit));
  });
}

/** Ends a run whose job was stopped at another instance. */
export function endStopped(parts: RequestParts, run: Run, job: StoredJob): void {
  run.end(cancellingEndOf(job), () => callJobStop(parts, job, parts.agents.of(job)));
}

/** Stops the children of a job that end with it. */
export async function stopChildren(parts: RequestParts, jobId: string, end: RunEnd): Promise<void> {
  for (const { id } of await parts.jobs.openChildren(jobId)) {
    await whenWritable(
      () => stopJob(parts, id, undefined, { end }),
      (error) => {
        // They are stopped at the next start.
        if (parts.scheduler.isClosed) throw error;
      },
    );
  }
}

/** From now on, stops the children of each job that does not complete. */
export function stopWithParents(parts: RequestParts): void {
  const { hooks, scheduler, log } = parts;
  const stopAfter = (id: string, status?: string): void => {
    stopChildren(parts, id, endOfParent(id, status)).catch((error: unknown) => {
      if (!scheduler.isClosed) log.error("children of a job could not be stopped", { job_id: id, error });
    });
  };
  hooks.on("job:finished", ({ job: { id, status } }) => {
    if (status !== "completed") stopAfter(id, status);
  });
  hooks.on("job:deleted", ({ job: { id, status } }) => {
    if (!isTerminal(status)) stopAfter(id);
  });
}

/** Sets a job to any status, as `JOB_OVERRIDES` says what that does. */
export async function overrideStatus(
  parts: RequestParts,
  jobId: string,
  status: EntityStatus,
  { actor, once }: Asked & { readonly actor: Actor },
): Promise<StoredJob> {
  const { agents, cluster, scheduler, turns } = parts;
  const message = `The job was set to ${status} by an operator`;
  const end: RunEnd = { to: status === "failed" ? "failed" : "cancelled", reason: "overridden", message };
  const set = await takeFrom(parts, jobId, {
    end,
    work: async (unit, found) => {
      if (await isRepeated(unit, jobId, once)) return { value: undefined, take: false };
      const { run, record, spent } = found;
      if (!isTerminal(status)) refusePulled(found.job);
      const change = { before: found.job.status, after: status };
      await note(parts, unit, actor, { action: "job.status", target: asJob(jobId), ...change });
      const effect = JOB_OVERRIDES[change.before][status];
      const job = await storeOverride(unit, found.job, {
        ...{ status, by: nameOf(actor), effect, message, record, total_cost: spent },
        isRunning: run !== undefined || cluster.isElsewhere(found.job),
      });
      const isElsewhere = cluster.isElsewhere(found.job);
      return { value: { job, effect, run, isElsewhere }, take: LEAVES_RUN.has(effect) };
    },
  });
  if (!set) return parts.jobs.get(jobId);
  const { job, effect, run, isElsewhere } = set;
  if (effect === "is stopped") {
    const agent = agents.of(job);
    scheduler.remove(jobId);
    if (run) run.end(STOPPED, () => callJobStop(parts, job, agent));
    else if (!isElsewhere) void endCancelled(parts, job, agent);
  }
  const isIdle = !run && !isElsewhere && scheduler.position(jobId) === undefined;
  if (effect === "is resumed" || effect === "is retried" || (effect === "continues" && isIdle)) {
    void turns.queue(job, effect === "is retried" || job.run_count === 0 ? "start" : "resume");
  }
  return job;
}

/** The same for a case. */
export async function overrideCaseStatus(
  parts: RequestParts,
  caseId: string,
  status: EntityStatus,
  { actor, once }: Asked & { readonly actor: Actor },
): Promise<StoredCase> {
  return withJobOf(parts, caseId, async () => {
    let repeats = false;
    const item = await parts.ledger.write(async (unit) => {
      const found = await unit.tx.get("Case", caseId);
      repeats = found !== undefined && (await isRepeated(unit, found.job_id, once));
      if (found && repeats) return found;
      const before = found?.status;
      const changed = await overrideCase(unit, caseId, status, nameOf(actor));
      const change = { before, after: status };
      await note(parts, unit, actor, { action: "case.status", target: asCase(caseId), ...change });
      return changed;
    });
    if (!item.question && !repeats) {
      const run = parts.runs.find(item.job_id);
      await run?.questions.withdraw(item.id, `Case "${item.id}" was set to ${status} by an operator`);
    }
    return item;
  });
}

/** Changes a case; where it has a question, its job is in memory meanwhile, as far as that is possible. */
export async function withJobOf<T>(parts: RequestParts, caseId: string, work: () => Promise<T>): Promise<T> {
  const item = await parts.cases.get(caseId);
  return item.question ? whileAsked(parts, { jobId: item.job_id, caseId }, work) : work();
}

/** Stores a change of a job that may take it away from its run: nothing that the run still does is stored then. */
export async function takeFrom<T>(
  parts: RequestParts,
  jobId: string,
  order: {
    readonly end: RunEnd;
    readonly needsRecord?: boolean;
    readonly work: (unit: Unit, found: FoundJob) => Promise<{ value: T; take: boolean }>;
  },
): Promise<T> {
  let fenced: { readonly run: Run; readonly lift: (taken?: RunEnd) => void } | undefined;
  const work = async (unit: Unit, found: FoundJob) => {
    const done = await order.work(unit, found);
    const { run } = found;
    // Its run may be that of another instance.
    if (done.take && (run || found.job.owner)) await takeJob(unit, jobId);
    if (!done.take || !run) return done;
    // The run's next writes wait for this one, also where it is made again.
    if (fenced?.run !== run) {
      fenced?.lift();
      fenced = { run, lift: run.fence() };
    }
    return done;
  };
  try {
    const { value, take } = await changeWithRun(parts, jobId, work, order);
    if (take) {
      parts.scheduler.remove(jobId);
      fenced?.lift(order.end);
    }
    return value;
  } finally {
    fenced?.lift();
  }
}
