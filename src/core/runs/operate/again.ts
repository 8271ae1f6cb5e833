import * as v from "valibot";
import { type Actor, nameOf } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import { reopenCase } from "../../entities/change-case.ts";
import { changeJob, releaseJob } from "../../entities/change-job.ts";
import { findKeptRequest, isRepeated } from "../../entities/keyed-requests.ts";
import { removeWaits } from "../../entities/received-events.ts";
import { removeCasesOf } from "../../entities/remove-job.ts";
import type { StopReason, StoredJob } from "../../models/job.ts";
import { type JobInstructions, JobInstructionsSchema } from "../../models/job-instructions.ts";
import { endsWithRetry, holdOf } from "../../models/job-state.ts";
import type { MarkEntry } from "../../models/run-entry.ts";
import type { Call } from "../replay/call.ts";
import { dropArtifacts, endsOf, tagsAfter } from "../replay/call-additions.ts";
import { endOfParent } from "../replay/children.ts";
import { RunRecord } from "../replay/run-record.ts";
import {
  type Asked,
  asJob,
  note,
  type RequestParts,
  refusePulled,
  refuseWhenClosing,
} from "../runner-parts.ts";
import { changeWithRun } from "./job-change.ts";
import { stopChildren } from "./steer.ts";

/** Ends that raised limits can undo. */
const LIMITS: readonly (StopReason | null)[] = [
  "max_cases",
  "max_cost",
  "max_duration",
  "stop_on_error",
  "stop_on_warning",
  "timeout",
];

interface Again {
  readonly mark: MarkEntry["mark"];
  readonly patch?: Partial<Pick<StoredJob, "job_context">>;
  /** Its entry in the audit log. */
  readonly after: unknown;
}

/** Resumes a job that a limit ended, with raised limits. */
export function resumeJob(
  parts: RequestParts,
  jobId: string,
  instructions: Partial<JobInstructions> | undefined,
  asked: Asked,
): Promise<StoredJob> {
  const raiseLimits = (job: StoredJob): Again => {
    refusePulled(job);
    if (job.status !== "failed" || !LIMITS.includes(job.stop_reason)) {
      throw new ServiceError("invalid_transition", `Job "${jobId}" is ${job.status}, and no limit ended it`, {
        detail:
          'Only a job that a limit ended can be resumed with raised limits; use "retry" for a failed one.',
      });
    }
    const merged = { ...job.job_context.job_instructions, ...instructions };
    const job_instructions = v.parse(JobInstructionsSchema, merged);
    const patch = { job_context: { ...job.job_context, job_instructions } };
    return { mark: "limits_raised", patch, after: job_instructions };
  };
  return again(parts, jobId, raiseLimits, asked);
}

/**
 * Runs a job again that failed, was cancelled or is held: from its last good step, with the children that failed it or
 * were stopped with it, or from the start with nothing recorded, and without its children.
 */
export async function retryJob(
  parts: RequestParts,
  jobId: string,
  from: "last_step" | "start",
  asked: Asked,
): Promise<StoredJob> {
  const retry = (job: StoredJob): Again => {
    refusePulled(job);
    const { status } = job;
    const hold = holdOf(job);
    if (endsWithRetry(hold) && from === "last_step") return { mark: "continued", after: { from } };
    const mayStartOver = hold !== undefined && from === "start";
    if (status !== "failed" && status !== "cancelled" && !mayStartOver) {
      throw new ServiceError("invalid_transition", `Job "${jobId}" is ${status}: there is nothing to retry`, {
        detail: `The current status is "${status}"; only a failed or cancelled job can be run again, or a held one from the start.`,
      });
    }
    return { mark: from === "start" ? "restarted" : "retried", after: { from } };
  };
  refuseWhenClosing(parts);
  const job = await parts.jobs.get(jobId);
  // Its children, too, may have failed again since.
  if (asked.once && (await findKeptRequest(parts.store, jobId, asked.once))) return job;
  const { mark } = retry(job);
  if (mark === "retried") await retryChildren(parts, jobId, asked.actor);
  if (mark === "restarted") await stopChildren(parts, jobId, endOfParent(jobId, "restarted"));
  return again(parts, jobId, retry, asked);
}

/** The children first: otherwise the job could find them still failed. */
async function retryChildren(parts: RequestParts, jobId: string, actor?: Actor): Promise<void> {
  const { items } = await parts.jobs.list({
    where: { parent_id: jobId, status: ["failed", "cancelled"] },
    limit: Number.POSITIVE_INFINITY,
  });
  if (items.length === 0) return;
  const record = await RunRecord.of(parts.jobs, jobId);
  const failed = new Set(keysOf(record.forgetFailures(), "child"));
  // What the handler has stopped stays stopped.
  for (const id of keysOf(record.ended, "stop")) failed.delete(id);
  for (const { id, stop_reason } of items) {
    if (stop_reason === "parent_ended" || failed.has(id)) await retryJob(parts, id, "last_step", { actor });
  }
}

function keysOf(calls: readonly Call[], kind: Call["kind"]): (string | undefined)[] {
  return calls.filter((call) => call.kind === kind).map(({ key }) => key);
}

/** Queues a job that has ended, or is held, once more; `plan` refuses where it cannot. */
async function again(
  parts: RequestParts,
  jobId: string,
  plan: (job: StoredJob) => Again,
  { actor, once }: Asked,
): Promise<StoredJob> {
  const by = actor && nameOf(actor);
  const { agents, turns } = parts;
  refuseWhenClosing(parts);
  const next = await changeWithRun(parts, jobId, async (unit, { job, record }) => {
    if (await isRepeated(unit, jobId, once)) return undefined;
    const { mark, patch, after } = plan(job);
    agents.get(job.agent_name);
    const action = mark === "limits_raised" ? "job.resume" : "job.retry";
    await note(parts, unit, actor, { action, target: asJob(jobId), before: job.status, after });
    if (mark === "continued") return releaseJob(unit, jobId, { by: by ?? "api" });
    const isFromStart = mark === "restarted";
    const calls = { gone: endsOf(record.ended), kept: [] };
    if (isFromStart) {
      await dropArtifacts(unit, jobId, calls);
      await removeCasesOf(unit, jobId, by);
      await removeWaits(unit, jobId);
    } else {
      record.forgetFailures();
      for (const id of record.openCases()) await reopenCase(unit, id, by);
    }
    await unit.record(jobId, { type: "mark", mark, by: by ?? "api" });
    const change = (current: StoredJob): StoredJob => ({
      ...current,
      ...patch,
      status: "stopped",
      finished_at: null,
      error: null,
      stop_reason: null,
      open_questions: 0,
      ...(isFromStart && {
        ...{ case_count: 0, total_cost: 0, result: null },
        ...(current.tags && { tags: tagsAfter(current.tags, calls) }),
        agent_version: agents.get(job.agent_name).definition.version,
      }),
    });
    return changeJob(unit, jobId, "retry", change, by);
  });
  if (!next) return parts.jobs.get(jobId);
  // A job that was held resumes where it was, without being `stopped` in between.
  void turns.queue(next, next.status === "stopped" ? "start" : "resume");
  return next;
}
