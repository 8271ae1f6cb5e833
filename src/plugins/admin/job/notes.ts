import { countOf } from "../../../core/base/count-of.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { holdOf, waitsFor } from "../../../core/models/job-state.ts";
import type { QueuePosition } from "../../../core/runs/runner.ts";
import { withQuery } from "../query.ts";
import { formatCount } from "../views/format.ts";
import { html } from "../views/html.ts";
import { linkPiece, pathTo, timePiece } from "../views/pieces.ts";

/** A line at the top of a job's page: what it is waiting for, or why it ended. */
export interface NoteView {
  readonly kind: "warn" | "bad" | "held" | "";
  readonly icon: string;
  readonly html: string;
}

/** What a person who opens a job should know first. */
export function toNotes(
  job: StoredJob,
  {
    now,
    position,
    hosted,
    isPaused,
    countsLine,
  }: {
    readonly now: Date;
    readonly position: QueuePosition | undefined;
    readonly hosted: boolean;
    /** Of its agent. */
    readonly isPaused: boolean;
    /** Whether the reader may know how many jobs wait. */
    readonly countsLine: boolean;
  },
): NoteView[] {
  const notes: NoteView[] = [];
  const add = (kind: NoteView["kind"], icon: string, ...text: Parameters<typeof html>[1][]) =>
    notes.push({ kind, icon, html: html`${text}`.toString() });
  const open = job.open_questions;
  // The verdict of a job that only waits says so, and has the button.
  if (open > 0 && (job.held || job.status !== "awaiting")) {
    const text = `${countOf(open, "question")} of this job ${open === 1 ? "waits" : "wait"} for an answer.`;
    add(
      "warn",
      "inbox",
      `${text} `,
      job.held && linkPiece(withQuery("/admin/inbox", { job_id: job.id }), "Answer"),
    );
  }
  if (job.held) add("held", "stop", job.held.message);
  if (position) {
    const place = `: position ${formatCount(position.position)} of ${formatCount(position.queued)}`;
    add("", "jobs", `Queued${countsLine ? place : ""}.`);
  }
  if (job.suspended) add("", "jobs", ...suspensionOf(job, now));
  if (job.parked) {
    add(
      "warn",
      "stop",
      "Stopped by an operator. Set its status to In progress, and it continues where it was.",
    );
  } else if (isPaused && job.run_count === 0 && job.finished_at === null) {
    const agent = linkPiece(pathTo("agents", job.agent_name), "The agent");
    add("warn", "stop", "Its agent is paused: the job starts when the agent is resumed. ", agent);
  }
  if (!hosted && job.finished_at === null) {
    const text = `Agent "${job.agent_name}" is not registered on this service: the job waits until it is.`;
    add("warn", "agents", text);
  }
  const limit = LIMITS[job.stop_reason ?? ""];
  if (limit) add(holdOf(job) ? "held" : "bad", "stop", limit);
  return notes;
}

/** When a job that only waits is in memory again. */
function suspensionOf(job: StoredJob, now: Date) {
  const at = job.suspended?.wake_at;
  const text = "Not in memory while it only waits. It resumes ";
  const isSleeping = waitsFor(job) === "time";
  return [
    text,
    !isSleeping && "when what it waits for is there",
    !isSleeping && at && ", at the latest ",
    at && timePiece(at, now),
    ".",
  ];
}

const LIMITS: Readonly<Record<string, string>> = {
  crash_loop:
    "Held because the process ended each time that it ran. Fix what ends the process, then retry the job, or stop it.",
  unreadable_parameters:
    "Start the service with the RSA key that it had before: the job then resumes by itself. Or stop this job, and start another one.",
  max_cases: "Ended because it reached its limit of cases. Its results so far are kept.",
  max_cost: "Ended because it reached its limit of cost. Its results so far are kept.",
  max_duration: "Ended because it reached its time limit. Its results so far are kept.",
  question_expired: "Ended because nobody answered a question in time.",
  parent_ended: "Stopped because the job that started it did not complete.",
  nondeterministic:
    "Ended because its code does not make the same calls each time: a recorded one was not found again.",
};
