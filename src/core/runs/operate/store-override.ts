import { endCases, reopenCase } from "../../entities/change-case.ts";
import { type JobPatch, overrideJob } from "../../entities/change-job.ts";
import type { Unit } from "../../entities/ledger.ts";
import { caseIdsOf } from "../../entities/remove-job.ts";
import type { EntityStatus } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import { may } from "../../models/job-state.ts";
import type { JobOverride } from "../../models/overrides.ts";
import type { RunRecord } from "../replay/run-record.ts";

/** What takes a job away from the run that it has. */
export const LEAVES_RUN: ReadonlySet<JobOverride> = new Set<JobOverride>(["is resumed", "is parked", "ends"]);

export interface OverrideOrder {
  readonly status: EntityStatus;
  readonly by: string;
  readonly effect: JobOverride;
  /** Says that an operator did it. */
  readonly message: string;
  readonly record: RunRecord;
  readonly total_cost: number;
  /** Whether a run of the job is under way. */
  readonly isRunning: boolean;
}

/** Stores what a status set by an operator does to a job, all but what its runs do then. */
export async function storeOverride(unit: Unit, job: StoredJob, order: OverrideOrder): Promise<StoredJob> {
  const { id } = job;
  const { status, by, effect, message, record, total_cost } = order;
  const store = (patch: JobPatch): Promise<StoredJob> => overrideJob(unit, id, status, by, patch);
  const isCutShort = order.isRunning && LEAVES_RUN.has(effect) && effect !== "ends";
  if (isCutShort) await unit.record(id, { type: "mark", mark: "interrupted", message, by });
  const isOpen = { parked: status === "stopped", error: null, stop_reason: null };
  switch (effect) {
    case "continues":
      if (!may(job, "release")) return store({});
      await unit.record(id, { type: "mark", mark: "continued", by });
      return store({ error: null, stop_reason: null });
    case "is parked":
      if (job.status === "stopped") await unit.record(id, { type: "mark", mark: "note", message, by });
      return store({ ...isOpen, total_cost, open_questions: await openQuestions(unit, job) });
    case "is resumed":
      return store({ ...isOpen, total_cost, open_questions: await openQuestions(unit, job) });
    case "is reopened":
    case "is retried":
      record.forgetFailures();
      for (const caseId of record.openCases()) await reopenCase(unit, caseId, by);
      await unit.record(id, { type: "mark", mark: "retried", by });
      return store(isOpen);
    case "is stopped":
      return store({ error: null, stop_reason: null, open_questions: 0 });
    case "ends": {
      const to = status as "completed" | "failed" | "cancelled";
      const error = to === "completed" ? null : message;
      // Its cases first: the last notification about a job is its end.
      await endCases(unit, await caseIdsOf(unit.tx, id), { to, error, name: "closed with its job" });
      return store({ total_cost, error });
    }
    case "is corrected":
      if (status === job.status) return store({});
      return store({
        stop_reason: "overridden",
        error: status === "completed" ? null : (job.error ?? message),
      });
  }
}

/** A job that is asked to stop drops its questions; those that were not withdrawn are open again. */
async function openQuestions(unit: Unit, job: StoredJob): Promise<number> {
  if (job.status !== "cancelling") return job.open_questions;
  let open = 0;
  for (const caseId of await caseIdsOf(unit.tx, job.id)) {
    const item = await unit.tx.get("Case", caseId);
    if (item?.status === "awaiting" && item.question) open++;
  }
  return open;
}
