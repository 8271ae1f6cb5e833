import * as v from "valibot";
import { type Actor, nameOf } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { reopenCase } from "../entities/cases.ts";
import { changeJob, removeCasesOf } from "../entities/jobs.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StopReason, StoredJob } from "../models/job.ts";
import { type JobInstructions, JobInstructionsSchema } from "../models/job-instructions.ts";
import type { MarkEntry } from "../models/run-entry.ts";
import { RunRecord } from "./run/run-record.ts";
import { asJob, note, type RequestParts, refuseWhenClosing } from "./runner-parts.ts";

/** Ends that raised limits can undo. */
const LIMITS: readonly (StopReason | null)[] = [
  "max_cases",
  "max_cost",
  "max_duration",
  "stop_on_error",
  "stop_on_warning",
  "timeout",
];

interface Change {
  readonly mark: MarkEntry["mark"];
  readonly patch: Partial<Pick<StoredJob, "job_context">>;
}

/** Goes on with a job that a limit ended, under raised limits. */
export async function resumeJob(
  parts: RequestParts,
  jobId: string,
  instructions: Partial<JobInstructions> | undefined,
  actor?: Actor,
): Promise<StoredJob> {
  const job = await parts.jobs.get(jobId);
  if (job.status !== "failed" || !LIMITS.includes(job.stop_reason)) {
    throw new ServiceError("invalid_transition", `Job "${jobId}" is ${job.status}, and no limit ended it`, {
      detail: 'Only a job that a limit ended can go on under raised limits; "retry" runs a failed one again.',
    });
  }
  const merged = { ...job.job_context.job_instructions, ...instructions };
  const job_context = { ...job.job_context, job_instructions: v.parse(JobInstructionsSchema, merged) };
  return again(parts, job, { mark: "limits_raised", patch: { job_context } }, actor);
}

/** Runs a failed or cancelled job again: from its last good step, or from the start with nothing recorded. */
export async function retryJob(
  parts: RequestParts,
  jobId: string,
  from: "last_step" | "start",
  actor?: Actor,
): Promise<StoredJob> {
  const job = await parts.jobs.get(jobId);
  if (job.status !== "failed" && job.status !== "cancelled") {
    throw new ServiceError(
      "invalid_transition",
      `Job "${jobId}" is ${job.status}: there is nothing to retry`,
      {
        detail: `The current status is "${job.status}"; only a failed or cancelled job can be run again.`,
      },
    );
  }
  return again(parts, job, { mark: from === "start" ? "restarted" : "retried", patch: {} }, actor);
}

/** Queues a job that has ended once more. */
async function again(parts: RequestParts, job: StoredJob, change: Change, actor?: Actor): Promise<StoredJob> {
  const { mark, patch } = change;
  const by = actor && nameOf(actor);
  const { jobs, ledger, agents, runs } = parts;
  refuseWhenClosing(parts);
  agents.get(job.agent_name);
  const record = RunRecord.read((await jobs.log(job.id)).map(({ entry }) => entry));
  record.forgetFailures();
  const fromStart = mark === "restarted";
  const next = await ledger.write(async (unit) => {
    const current = await unit.tx.get("Job", job.id);
    if (current && !isTerminal(current.status))
      throw new ServiceError("invalid_transition", `Job "${job.id}" is ${current.status} already`);
    const action = mark === "limits_raised" ? "job.resume" : "job.retry";
    const after =
      mark === "limits_raised"
        ? patch.job_context?.job_instructions
        : { from: fromStart ? "start" : "last_step" };
    await note(parts, unit, actor, { action, target: asJob(job.id), before: job.status, after });
    if (fromStart) await removeCasesOf(unit, job.id, by);
    if (!fromStart) for (const id of record.openCases()) await reopenCase(unit, id, by);
    await unit.record(job.id, { type: "mark", mark, by: by ?? "api" });
    return changeJob(
      unit,
      job.id,
      (one) => ({
        ...one,
        ...patch,
        status: "stopped",
        finished_at: null,
        error: null,
        stop_reason: null,
        open_questions: 0,
        ...(fromStart && { case_count: 0, total_cost: 0, result: null }),
      }),
      by,
    );
  });
  runs.queue(next, "start");
  return next;
}
