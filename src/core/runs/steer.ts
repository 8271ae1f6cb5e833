import { type Actor, nameOf } from "../audit/caller.ts";
import { endCases, overrideCase, removeCaseOfJob } from "../entities/cases.ts";
import { caseIdsOf, endJob, jobNotFound, moveJob, removeJob } from "../entities/jobs.ts";
import type { Unit } from "../entities/ledger.ts";
import type { StoredCase } from "../models/case.ts";
import { type EntityStatus, isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import { JOB_OVERRIDES } from "../models/overrides.ts";
import { callJobStop } from "./method-calls.ts";
import { endCancelled } from "./reconcile.ts";
import { clean } from "./run/limits.ts";
import { recordedCost } from "./run/recorded-cost.ts";
import type { Run } from "./run/run.ts";
import type { RunEnd } from "./run/run-errors.ts";
import { RunRecord } from "./run/run-record.ts";
import { asCase, asJob, note, type RequestParts } from "./runner-parts.ts";
import { LEAVES_RUN, storeOverride } from "./store-override.ts";

const STOPPED: RunEnd = { to: "cancelled", reason: "stopped", message: "The job was stopped" };

/** Asks a job to stop: its run ends, or the job does where it has none. */
export async function stopJob(parts: RequestParts, jobId: string, actor?: Actor): Promise<StoredJob> {
  const by = actor && nameOf(actor);
  const { jobs, agents, runs } = parts;
  // What a job has cost that no run is here for, by its log.
  const cost = runs.find(jobId) ? undefined : await recordedCost(jobs, jobId);
  const { job, run } = await write(parts, jobId, async (unit, run) => {
    const current = await unit.tx.get("Job", jobId);
    if (!current || isTerminal(current.status) || current.status === "cancelling") return { job: current };
    await note(parts, unit, actor, { action: "job.stop", target: asJob(jobId), before: current.status });
    if (!run || run.isOver) return { job: await cancel(unit, current, { by, cost }) };
    if (current.status === "stopped") await moveJob(unit, jobId, "start_work", {}, by);
    const event = current.status === "awaiting" ? "cancel_while_waiting" : "cancel_requested";
    return { job: await moveJob(unit, jobId, event, { open_questions: 0 }, by), run };
  });
  if (!job) return jobs.get(jobId);
  runs.scheduler.callOff(jobId);
  run?.end(STOPPED, () => callJobStop(parts, job, agents.find(job.agent_name)));
  return job;
}

/** Sets a job to any status, as `JOB_OVERRIDES` says what that does. */
export async function overrideStatus(
  parts: RequestParts,
  jobId: string,
  status: EntityStatus,
  actor: Actor,
): Promise<StoredJob> {
  const { jobs, agents, runs } = parts;
  const record = RunRecord.read((await jobs.log(jobId)).map(({ entry }) => entry));
  const message = `The job was set to ${status} by an operator`;
  const end: RunEnd = { to: status === "failed" ? "failed" : "cancelled", reason: "overridden", message };
  const decide = async (unit: Unit, found: Run | undefined) => {
    const before = await unit.tx.get("Job", jobId);
    if (!before) throw jobNotFound(jobId);
    const change = { before: before.status, after: status };
    await note(parts, unit, actor, { action: "job.status", target: asJob(jobId), ...change });
    const effect = JOB_OVERRIDES[before.status][status];
    // A run whose end is stored, or about to be, no longer counts.
    const live = found?.isOver || isTerminal(before.status) ? undefined : found;
    const total_cost = live?.limits.spent ?? clean(record.spent);
    const job = await storeOverride(unit, before, {
      ...{ status, by: nameOf(actor), effect, message, record, total_cost },
      isRunning: live !== undefined,
    });
    return { value: { job, effect, live }, take: LEAVES_RUN.has(effect) };
  };
  const { job, effect, live } = await takeFrom(parts, jobId, end, decide);
  if (effect === "is stopped") {
    const agent = agents.find(job.agent_name);
    runs.scheduler.callOff(jobId);
    if (live) live.end(STOPPED, () => callJobStop(parts, job, agent));
    else void endCancelled(parts, job, agent);
  }
  const isIdle = !live && runs.scheduler.position(jobId) === undefined;
  if (effect === "is taken up" || effect === "is retried" || (effect === "goes on" && isIdle)) {
    runs.queue(job, effect === "is retried" || job.run_count === 0 ? "start" : "resume");
  }
  return job;
}

/** The same for a case. */
export async function overrideCaseStatus(
  parts: RequestParts,
  caseId: string,
  status: EntityStatus,
  actor: Actor,
): Promise<StoredCase> {
  const item = await parts.ledger.write(async (unit) => {
    const before = (await unit.tx.get("Case", caseId))?.status;
    const changed = await overrideCase(unit, caseId, status, nameOf(actor));
    await note(parts, unit, actor, { action: "case.status", target: asCase(caseId), before, after: status });
    return changed;
  });
  if (!item.question) {
    const run = parts.runs.find(item.job_id);
    await run?.questions.withdraw(item.id, `Case "${item.id}" was set to ${status} by an operator`);
  }
  return item;
}

/** Aborts the run and removes the job with its cases; resolves with the number of cases. */
export function deleteJob(parts: RequestParts, jobId: string, actor: Actor): Promise<number> {
  const end: RunEnd = { to: "cancelled", reason: "overridden", message: "The job was deleted" };
  return takeFrom(parts, jobId, end, async (unit) => {
    const job = await unit.tx.get("Job", jobId);
    const cases = await removeJob(unit, jobId, nameOf(actor));
    const before = job && { status: job.status, agent: job.agent_name, name: job.name, cases };
    await note(parts, unit, actor, { action: "job.delete", target: asJob(jobId), before });
    return { value: cases, take: true };
  });
}

/** Removes a case; its job goes on. */
export async function deleteCase(parts: RequestParts, caseId: string, actor: Actor): Promise<void> {
  const { job_id } = await parts.ledger.write(async (unit) => {
    const removed = await removeCaseOfJob(unit, caseId, nameOf(actor));
    const { status, job_id: job, name } = removed;
    const before = { status, job, name };
    await note(parts, unit, actor, { action: "case.delete", target: asCase(caseId), before });
    return removed;
  });
  await parts.runs.find(job_id)?.questions.withdraw(caseId, `Case "${caseId}" was deleted`);
}

/** Stores a change of a job that may take it away from its run: nothing that the run still does is stored then. */
async function takeFrom<T>(
  parts: RequestParts,
  jobId: string,
  end: RunEnd,
  work: (unit: Unit, run: Run | undefined) => Promise<{ value: T; take: boolean }>,
): Promise<T> {
  const { runs } = parts;
  let taken: Run | undefined;
  let unfence = () => {};
  try {
    const { value, take } = await write(parts, jobId, async (unit, run) => {
      const done = await work(unit, run);
      taken = done.take ? run : undefined;
      if (taken) unfence = taken.fence();
      return done;
    });
    if (take) runs.scheduler.callOff(jobId);
    taken?.abandon(end);
    return value;
  } catch (error) {
    unfence();
    throw error;
  }
}

/** Stores a change of a job together with a look at its run: none is begun in between. */
function write<T>(
  { runs, ledger }: RequestParts,
  jobId: string,
  work: (unit: Unit, run: Run | undefined) => Promise<T>,
): Promise<T> {
  return runs.exclusively(jobId, () => ledger.write((unit) => work(unit, runs.find(jobId))));
}

async function cancel(
  unit: Unit,
  job: StoredJob,
  { by, cost = job.total_cost }: { by?: string; cost?: number },
): Promise<StoredJob> {
  await endCases(unit, await caseIdsOf(unit.tx, job.id), {
    to: "cancelled",
    error: STOPPED.message,
    name: "cancelled",
  });
  const patch = () => ({ stop_reason: STOPPED.reason, error: STOPPED.message, total_cost: cost });
  return endJob(unit, job.id, "cancelled", patch, by);
}
