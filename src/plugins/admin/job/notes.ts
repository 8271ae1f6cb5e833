import type { StoredJob } from "../../../core/models/job.ts";
import type { QueuePosition } from "../../../core/runs/runner.ts";
import { withQuery } from "../query.ts";
import { countOf, formatCount } from "../views/format.ts";
import { pathTo } from "../views/pieces.ts";

/** A line at the top of a job's page: what it is waiting for, or why it ended. */
export interface NoteView {
  readonly kind: "warn" | "bad" | "";
  readonly icon: string;
  readonly text: string;
  readonly href: string;
  readonly link: string;
}

/** What a person who opens a job should know first. */
export function toNotes(
  job: StoredJob,
  {
    position,
    hosted,
    isPaused,
    countsLine,
  }: {
    readonly position: QueuePosition | undefined;
    readonly hosted: boolean;
    /** Of its agent. */
    readonly isPaused: boolean;
    /** Whether the reader may know how many jobs wait. */
    readonly countsLine: boolean;
  },
): NoteView[] {
  const notes: NoteView[] = [];
  const open = job.open_questions;
  // The verdict of a job that only waits says so, and has the button.
  if (open > 0 && (job.held || job.status !== "awaiting")) {
    const text = `${countOf(open, "question")} of this job ${open === 1 ? "waits" : "wait"} for an answer.`;
    const href = job.held ? withQuery("/admin/inbox", { job_id: job.id }) : "";
    notes.push({ kind: "warn", icon: "inbox", text, href, link: "Answer" });
  }
  if (job.held) notes.push({ kind: "warn", icon: "stop", text: job.held.message, href: "", link: "" });
  if (position) {
    const place = `: position ${formatCount(position.position)} of ${formatCount(position.queued)}`;
    const text = `Queued${countsLine ? place : ""}.`;
    notes.push({ kind: "", icon: "jobs", text, href: "", link: "" });
  }
  if (job.suspended) notes.push({ kind: "", icon: "jobs", text: suspensionOf(job), href: "", link: "" });
  if (isPaused && job.run_count === 0 && job.finished_at === null) {
    const text = "Its agent is paused: the job starts when the agent is resumed.";
    const href = pathTo("agents", job.agent_name);
    notes.push({ kind: "warn", icon: "stop", text, href, link: "The agent" });
  }
  if (job.parked) {
    const text = "Stopped by an operator. It resumes where it was once its status is set to in progress.";
    notes.push({ kind: "warn", icon: "stop", text, href: "", link: "" });
  }
  if (!hosted && job.finished_at === null) {
    const text = `Agent "${job.agent_name}" is not registered on this service: the job waits until it is.`;
    notes.push({ kind: "warn", icon: "agents", text, href: "", link: "" });
  }
  const limit = LIMITS[job.stop_reason ?? ""];
  if (limit) notes.push({ kind: "bad", icon: "stop", text: limit, href: "", link: "" });
  return notes;
}

/** When a job that only waits is in memory again. */
function suspensionOf({ suspended }: StoredJob): string {
  const at = suspended?.wake_at;
  if (!at) return "Suspended: it only waits, and resumes when what it waits for is there.";
  return `Suspended: it only waits, and resumes by itself at ${at.slice(0, 19).replace("T", " ")} UTC.`;
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
