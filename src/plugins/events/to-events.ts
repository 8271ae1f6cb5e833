import type { MaybePromise } from "../../core/base/maybe-promise.ts";
import type { NewEvent } from "../../core/delivery/events.ts";
import type { Change } from "../../core/entities/change.ts";
import { caseIdsOf } from "../../core/entities/remove-job.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import { caseStartEvent } from "../../core/models/events/case-start-event.ts";
import { caseUpdateEvent } from "../../core/models/events/case-update-event.ts";
import { jobFinishedEvent } from "../../core/models/events/job-finished-event.ts";
import { jobStartConfirmationEvent } from "../../core/models/events/job-start-confirmation-event.ts";
import { jobStatusEvent } from "../../core/models/events/job-status-event.ts";
import { type Job, type StoredJob, toJob } from "../../core/models/job.ts";
import { isIn } from "../../core/models/job-state.ts";
import type { Transaction } from "../../core/store/store.ts";
import { SERVICE_STREAM } from "./control-link.ts";

/** An event, and the job in whose order it belongs. */
export interface StreamEvent {
  readonly stream: string;
  readonly event: NewEvent;
}

/** The event for a change; many changes have none. */
export function toEvent(change: Change, tx: Transaction): MaybePromise<StreamEvent> | undefined {
  switch (change.kind) {
    case "job:changed":
      if (isHeldOrReleased(change)) return ofJob(change.job, tx, jobStatusEvent);
      return begins(change) ? ofJob(change.job, tx, jobStartConfirmationEvent) : undefined;
    case "job:finished":
      return ofJob(change.job, tx, jobFinishedEvent);
    case "budget:reached": {
      const { kind: _, agent, ...use } = change;
      const details = { reason: "budget", agent, ...use };
      const about = { source: { agent }, object_type: "agent", details };
      return { stream: SERVICE_STREAM, event: { ...about, type: "agent.anomaly" } };
    }
    case "case:opened":
      return { stream: change.case.job_id, event: caseStartEvent(change.case) };
    case "case:changed":
      if (!change.update) return undefined;
      return { stream: change.case.job_id, event: caseUpdateEvent(change.case, change.update) };
    default:
      return undefined;
  }
}

async function ofJob(
  job: StoredJob,
  tx: Transaction,
  eventOf: (shown: Job) => NewEvent,
): Promise<StreamEvent> {
  return { stream: job.id, event: eventOf(toJob(job, await caseIdsOf(tx, job.id))) };
}

/** Whether a job is now held, or resumes after that; its end is a separate event. */
function isHeldOrReleased({ job, previous }: Extract<Change, { kind: "job:changed" }>): boolean {
  const isHeld = (one: StoredJob) => isIn(one, "held", "pulled");
  return !isTerminal(job.status) && isHeld(job) !== isHeld(previous);
}

/** A resumed run continues; only a first run, or one after an end, starts. */
function begins({ job, previous, by }: Extract<Change, { kind: "job:changed" }>): boolean {
  if (job.status !== "in_progress") return false;
  // Also if an operator had set the status before the job started.
  if (job.run_count === 1 && previous.run_count === 0) return true;
  if (previous.status !== "stopped" && !isTerminal(previous.status)) return false;
  // An operator's override sets a status without running anything.
  return by === undefined || job.run_count > previous.run_count;
}
