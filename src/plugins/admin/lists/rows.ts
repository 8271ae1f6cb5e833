import { countOf } from "../../../core/base/count-of.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import { failureOf, shownLineOf } from "../../../core/models/failure.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { shownStateOf } from "../../../core/models/job-state.ts";
import { withQuery } from "../query.ts";
import { elapsed, formatCost, formatCount, formatDuration } from "../views/format.ts";
import { jobPiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import type { Beside } from "./failed-cases.ts";

export interface RowContext extends Beside {
  readonly now: Date;
  readonly currency: string;
}

/** A job as job lists return it. */
export function toJobRow(job: StoredJob, { failed, stuck }: Beside) {
  const {
    id,
    name,
    agent_name,
    status,
    created_at,
    updated_at,
    finished_at,
    total_cost,
    stop_reason,
    case_count,
    error,
    run_count,
  } = job;
  return {
    id,
    name,
    agent_name,
    status,
    state: stuck.has(id) ? ("stuck" as const) : shownStateOf(job),
    created_at,
    updated_at,
    finished_at,
    case_count,
    failed_cases: failed[id] ?? 0,
    total_cost,
    stop_reason,
    error,
    failure: failureOf(job),
    agent_version: job.agent_version ?? null,
    run_count,
    tags: job.tags ?? [],
    started_by: job.job_context.started_by,
  };
}

/** A case as case lists return it. */
export function toCaseRow(item: StoredCase) {
  const { id, name, description, status, job_id, created_at, updated_at, finished_at, total_cost } = item;
  return {
    id,
    name,
    description,
    status,
    job_id,
    created_at,
    updated_at,
    finished_at,
    total_cost,
    update_count: item.update_count,
    error: item.last_error ?? null,
  };
}

/** A job as a line of a table. */
export function toJobLine(job: StoredJob, { now, currency, failed, stuck }: RowContext) {
  const failedCases = failed[job.id] ?? 0;
  return {
    isJob: true,
    id: job.id,
    name: job.name,
    href: pathTo("jobs", job.id),
    status: jobPiece(job, stuck.has(job.id)).toString(),
    agent: job.agent_name,
    tags: (job.tags ?? []).map((tag) => ({ tag, href: withQuery("/admin/jobs", { tag }) })),
    error: job.status === "failed" ? shownLineOf(job.error) : "",
    cases: formatCount(job.case_count),
    failedCases:
      failedCases === 0 ? "" : `${formatCount(failedCases)} of ${countOf(job.case_count, "case")} failed`,
    failedHref: withQuery("/admin/cases", { job_id: job.id, status: "failed" }),
    cost: costOf(job.total_cost, currency),
    duration: durationOf(job, now),
    updated: timePiece(job.updated_at, now).toString(),
    created: timePiece(job.created_at, now).toString(),
  };
}

/** A case as a line of a table. */
export function toCaseLine(item: StoredCase, { now, currency }: Omit<RowContext, keyof Beside>) {
  return {
    isJob: false,
    id: item.id,
    name: item.name,
    href: pathTo("cases", item.id),
    status: statusPiece(item.status).toString(),
    error: item.status === "failed" ? shownLineOf(item.last_error ?? null) : "",
    jobId: item.job_id,
    jobHref: pathTo("jobs", item.job_id),
    updates: formatCount(item.update_count),
    cost: costOf(item.total_cost, currency),
    duration: durationOf(item, now),
    updated: timePiece(item.updated_at, now).toString(),
    created: timePiece(item.created_at, now).toString(),
  };
}

export type EntityLine = ReturnType<typeof toJobLine> | ReturnType<typeof toCaseLine>;

function costOf(cost: number, currency: string): string {
  return cost === 0 ? "–" : formatCost(cost, currency);
}

function durationOf(entity: StoredJob | StoredCase, now: Date): string {
  if (entity.status === "stopped") return "–";
  const end = isTerminal(entity.status) ? (entity.finished_at ?? entity.updated_at) : null;
  return formatDuration(elapsed(entity.created_at, end, now));
}
