import type { Caller } from "../../../core/audit/caller.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { endsWithRetry, holdOf, stateOf } from "../../../core/models/job-state.ts";
import { withQuery } from "../query.ts";
import { offeredTo } from "../viewer.ts";
import { pathTo } from "../views/pieces.ts";

/** A button of a page; it opens a confirmation. */
export interface ActionView {
  readonly label: string;
  readonly href: string;
  readonly icon: string;
  readonly style: string;
  /** Whether it opens a page, not a dialog. */
  readonly page?: boolean;
  /** Whether it is beside the title, as people often want it, not in the menu. */
  readonly isBeside?: boolean;
}

/** Stop reasons that a raised limit can lift. */
const LIMIT_REASONS: readonly string[] = ["max_cases", "max_cost", "max_duration"];

/**
 * The actions that are available to a caller for a job in its current status; `hosted`: its agent is on this service.
 */
export function jobActions(
  job: StoredJob,
  { hosted, caller }: { readonly hosted: boolean; readonly caller: Caller },
): ActionView[] {
  const may = offeredTo(caller);
  const to = (action: string) => pathTo("jobs", job.id, action);
  const state = stateOf(job);
  const hold = holdOf(job);
  const ended = state === "ended";
  const actions: ActionView[] = [];
  if (may.answer && job.open_questions > 0 && !job.held) {
    const href = withQuery("/admin/inbox", { job_id: job.id });
    actions.push({ label: "Answer", href, icon: "inbox", style: "main", page: true });
  }
  if (may.start && !ended && state !== "stopping") {
    actions.push({ label: "Stop", href: to("stop"), icon: "stop", style: "" });
  }
  if (may.operate && ended && LIMIT_REASONS.includes(job.stop_reason ?? "")) {
    actions.push({ label: "Raise limit & resume", href: to("resume"), icon: "play", style: "main" });
  }
  if (may.operate && hold === "code_changed") {
    actions.push({ label: "Continue", href: to("continue"), icon: "play", style: "main" });
    actions.push({ label: "Restart", href: to("restart"), icon: "retry", style: "", isBeside: true });
  }
  const isOver = job.status === "failed" || job.status === "cancelled" || endsWithRetry(hold);
  if (may.operate && isOver) {
    actions.push({ label: "Retry", href: to("retry"), icon: "retry", style: "" });
  }
  if (may.start && hosted) {
    const href = withQuery(pathTo("agents", job.agent_name, "start"), { from: job.id });
    actions.push({ label: "Run again…", href, icon: "play", style: "", page: true, isBeside: true });
  }
  actions.push({ label: "Compare…", href: to("compare"), icon: "events", style: "", page: true });
  if (may.operate) actions.push({ label: "Fork", href: to("fork"), icon: "jobs", style: "" });
  if (may.manage) actions.push({ label: "Set status", href: to("status"), icon: "edit", style: "" });
  if (may.operate) actions.push({ label: "Delete", href: to("delete"), icon: "trash", style: "danger" });
  return actions;
}
