import { countOf } from "../../../core/base/count-of.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { isIn, shownStateOf } from "../../../core/models/job-state.ts";
import { withQuery } from "../query.ts";
import { type Call, calledOn } from "../views/calls.ts";
import { elapsed, formatCost, formatCount, formatDuration, toLabel } from "../views/format.ts";
import { jobPiece } from "../views/pieces.ts";
import { hasEnded, isLine } from "./step-view.ts";

interface VerdictContext {
  readonly calls: readonly Call[];
  readonly caseNames: ReadonlyMap<string, string>;
  readonly runs: number;
  readonly now: Date;
  readonly currency: string;
  /** Cases of the job that failed. */
  readonly failedCases: number;
  /** Whether its step takes far longer than it ever has. */
  readonly isStuck: boolean;
}

/** How a job ended, or what it does now, in words: the first thing that its page says. */
export function toVerdict(job: StoredJob, context: VerdictContext) {
  const { calls, runs, now, currency, failedCases, isStuck } = context;
  const call = keyCall(job, calls);
  const ended = isTerminal(job.status);
  const isQueued = job.status === "stopped";
  return {
    tone: isStuck ? "bad" : job.status === "completed" && failedCases > 0 ? "warn" : toneOf(job),
    status: jobPiece(job, isStuck).toString(),
    title: titleOf(job, call, context),
    // A held job says above why.
    reason: job.held ? "" : (job.error ?? ""),
    // That of an earlier run is with that run.
    traceback:
      job.error === null
        ? ""
        : (job.responses.findLast((response) => response.error_traceback)?.error_traceback ?? ""),
    // The cases that failed, and the step that failed or runs.
    casesHref: failedCases > 0 ? withQuery("/admin/cases", { job_id: job.id, status: "failed" }) : "",
    stepHref: call ? `?step=${encodeURIComponent(call.id)}` : "",
    figures: [
      {
        label: "Duration",
        // What waits in line has taken nothing yet, here as in lists.
        value: isQueued ? "–" : formatDuration(elapsed(job.created_at, job.finished_at, now)),
        since: ended || isQueued ? "" : job.created_at,
      },
      { label: "Cost", value: formatCost(job.total_cost, currency), since: "" },
      { label: "Cases", value: formatCount(job.case_count), since: "" },
      { label: "Runs", value: formatCount(runs), since: "" },
    ],
  };
}

/** The call that the verdict names: what failed, or what runs now. */
function keyCall(job: StoredJob, calls: readonly Call[]): Call | undefined {
  const lines = calls.filter(isLine);
  if (job.status === "failed") {
    const failed = lines.filter((call) => call.entry?.error !== undefined);
    return (
      failed.findLast((call) => job.error?.includes(call.entry?.error?.message ?? "\n")) ?? failed.at(-1)
    );
  }
  return isTerminal(job.status) ? undefined : lines.findLast((call) => !hasEnded(call));
}

function titleOf(job: StoredJob, call: Call | undefined, context: VerdictContext): string {
  const { caseNames, now, failedCases, isStuck } = context;
  const where = call ? placeOf(call, caseNames) : "";
  const reason = job.stop_reason ? REASONS[job.stop_reason] : undefined;
  switch (job.status) {
    case "completed":
      return [
        `Completed in ${formatDuration(elapsed(job.created_at, job.finished_at, now))}`,
        failedCases > 0 ? `, ${formatCount(failedCases)} of ${countOf(job.case_count, "case")} failed` : "",
      ].join("");
    case "failed":
      if (reason) return reason;
      return call ? `Failed in ${where}` : "Failed outside of a step";
    case "cancelled":
      return reason ?? "Cancelled";
    case "cancelling":
      return "Stopping…";
    case "stopped":
      return isIn(job, "parked") ? "Stopped by an operator" : "Queued";
    case "awaiting":
      if (isIn(job, "held", "pulled")) return reason ?? "Held until a person decides";
      return job.open_questions > 0 ? `Waiting for ${countOf(job.open_questions, "answer")}` : "Waiting";
    case "in_progress":
      if (isStuck) return call ? `Stuck in ${where}` : "Stuck";
      if (!call) return "Running";
      if (calledOn(call, job.id) !== call.name) return "Waiting for a message";
      if (call.call === "sleep") return call.name === "sleep" ? "Sleeping" : `Sleeping: “${call.name}”`;
      return `${call.call === "step" ? "Running" : (DOES[call.call] ?? "In")} ${where}`;
  }
}

function placeOf(call: Call, caseNames: ReadonlyMap<string, string>): string {
  const what = call.entry?.kind ?? call.tries.at(-1)?.kind ?? (call.call === "ask" ? "question" : call.call);
  const name = call.case_id === undefined ? undefined : caseNames.get(call.case_id);
  const of = call.case_id === undefined ? "" : ` of ${name ?? call.case_id}`;
  return `${toLabel(what).toLowerCase()} “${call.name}”${of}`;
}

/** What a job does in a call that is not a step. */
const DOES: Readonly<Partial<Record<Call["call"], string>>> = {
  ask: "Waiting for",
  child: "Waiting for",
  event: "Waiting for",
};

const REASONS: Readonly<Partial<Record<NonNullable<StoredJob["stop_reason"]>, string>>> = {
  max_cases: "Reached its limit of cases",
  max_cost: "Reached its limit of cost",
  max_duration: "Reached its time limit",
  question_expired: "Nobody answered a question in time",
  parent_ended: "Stopped because the job that started it ended",
  nondeterministic: "Its code does not make the recorded calls",
  code_changed: "Held: its code has changed",
  pulled: "A copy of another service's job",
  overridden: "Its status was set by an operator",
  damaged: "Its record is damaged",
  crash_loop: "Held: the process ended each time that it ran",
  unreadable_parameters: "Held: its parameters cannot be read",
  stopped: "Stopped by a person",
};

function toneOf(job: StoredJob): string {
  if (job.status === "completed") return "good";
  if (job.status === "failed") return "bad";
  if (job.status === "in_progress") return shownStateOf(job) === "running" ? "run" : "";
  if (isIn(job, "held")) return "held";
  return job.status === "awaiting" || job.status === "cancelling" ? "warn" : "";
}
