import { type Actor, nameOf } from "../../audit/caller.ts";
import { takeJob } from "../../entities/change-job.ts";
import { eraseJob, putAside, restoreJob } from "../../entities/deleted-jobs.ts";
import type { Unit } from "../../entities/ledger.ts";
import { removeJob } from "../../entities/remove-job.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEnd } from "../replay/run-errors.ts";
import type { Deletion, DeletionOptions } from "../runner.ts";
import { asJob, note, type RequestParts } from "../runner-parts.ts";
import { cancelWithCases } from "./end-cancelled.ts";
import type { FoundJob } from "./job-change.ts";
import { takeFrom } from "./steer.ts";

const END: RunEnd = { to: "cancelled", reason: "stopped", message: "The job was deleted" };

/** Ends a job and deletes it with its cases: it can be restored for some time, unless it is deleted permanently. */
export async function deleteJob(
  parts: RequestParts,
  jobId: string,
  actor: Actor,
  { permanent = false }: DeletionOptions = {},
): Promise<Deletion> {
  const keep = permanent ? 0 : parts.deletedKeep;
  const by = nameOf(actor);
  const erase = async (unit: Unit): Promise<Deletion> => {
    const { job, cases } = await eraseJob(unit, jobId, by);
    await note(parts, unit, actor, { action: "job.erase", target: asJob(jobId), before: toNote(job, cases) });
    return { cases, restorableUntil: null };
  };
  const work = async (unit: Unit, { job, run, spent }: FoundJob) => {
    // Its end is stored: it can be retried when it is restored, and those who wait for it are notified.
    if (!isTerminal(job.status)) {
      await cancelWithCases(unit, job, { end: END, total_cost: run ? spent : job.total_cost, by });
      await takeJob(unit, jobId);
    }
    const cases = keep === 0 ? await removeJob(unit, jobId, by) : await putAside(unit, jobId, by);
    const action = keep === 0 ? "job.erase" : "job.delete";
    await note(parts, unit, actor, { action, target: asJob(jobId), before: toNote(job, cases) });
    return { value: { cases, restorableUntil: restorableUntil(unit.now, keep) }, take: true };
  };
  if (permanent && !(await parts.jobs.find(jobId))) return parts.ledger.write(erase);
  return takeFrom(parts, jobId, { end: END, work, needsRecord: false });
}

/** Restores a deleted job as it was, with its cases. */
export function restoreDeleted(parts: RequestParts, jobId: string, actor: Actor): Promise<StoredJob> {
  return parts.ledger.write(async (unit) => {
    const job = await restoreJob(unit, jobId, nameOf(actor));
    await note(parts, unit, actor, { action: "job.restore", target: asJob(jobId), after: job.status });
    return job;
  });
}

function toNote({ status, agent_name: agent, name }: StoredJob, cases: number) {
  return { status, agent, name, cases };
}

/** Until when what is deleted now can be restored; `keep` in milliseconds. */
export function restorableUntil(now: string, keep: number | null): Deletion["restorableUntil"] {
  if (keep === null) return "indefinitely";
  return keep === 0 ? null : new Date(Date.parse(now) + keep).toISOString();
}
