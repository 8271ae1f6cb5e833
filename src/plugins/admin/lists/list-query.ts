import * as v from "valibot";
import { cursorQuery } from "../../../core/http/cursor.ts";
import { pageQuery } from "../../../core/http/query.ts";
import { type EntityStatus, EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { type StopReason, StopReasonSchema } from "../../../core/models/job.ts";
import { inState, type ShownState, ShownStateSchema } from "../../../core/models/job-state.ts";
import { EntityIdSchema, TimestampSchema } from "../../../core/models/scalars.ts";
import { hasTag, TagSchema } from "../../../core/models/tags.ts";
import type { ListQuery } from "../../../core/store/store.ts";
import type { SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty } from "../query.ts";
import { startOf, ZoneSchema } from "../zones.ts";

export const DEFAULT_LIMIT = 50;
export const DEFAULT_SORT = "-created_at";

const text = v.pipe(v.string(), v.maxLength(200));
/** What lists of jobs can be filtered by: a stored status, what people mean by it, or `stuck`. */
export const LISTED_STATES = [
  ...EntityStatusSchema.options,
  ...ShownStateSchema.options.filter((one) => !v.is(EntityStatusSchema, one)),
  "stuck",
] as const;
export type ListedState = EntityStatus | ShownState | "stuck";

const page = {
  ...pageQuery({ max: 100, default: DEFAULT_LIMIT }),
  after: optionalText(cursorQuery.after.wrapped),
};
const common = { status: optionalText(EntityStatusSchema), search: optionalText(text) };
/** A time, or a day for its start. */
export const moment = v.union(
  [v.pipe(v.string(), v.isoDate()), TimestampSchema],
  "must be a day such as 2026-01-31, or a time such as 2026-01-31T09:30:00Z",
);
const amount = v.pipe(
  v.string(),
  v.regex(/^\d{1,12}(\.\d{1,9})?$/, "must be a number of at least 0"),
  v.transform(Number),
);
const jobFilters = {
  ...common,
  /** A status or a state; `awaiting` without the jobs that are held: these have a state of their own. */
  status: optionalText(v.picklist(LISTED_STATES)),
  /** Names a reason; see `failureOf`. */
  failure: optionalText(v.pipe(v.string(), v.regex(/^[0-9a-f]{12}$/, "must be the id of a reason"))),
  since: optionalText(moment),
  until: optionalText(moment),
  /** Since when they ended. */
  ended_since: optionalText(moment),
  /** In which the days of `since`, `until` and `ended_since` begin. @default UTC */
  zone: optionalText(ZoneSchema),
  min_cost: optionalText(amount),
  /** Seconds. */
  min_duration: optionalText(amount),
  min_runs: optionalText(amount),
  agent_name: optionalText(text),
  stop_reason: optionalText(StopReasonSchema),
  tag: optionalText(TagSchema),
  started_by: optionalText(text),
  parent_id: optionalText(EntityIdSchema),
};
const caseFilters = { ...common, job_id: optionalText(EntityIdSchema) };

/** What job lists can be sorted by. */
const JOB_SORTS = [
  "created_at",
  "name",
  "status",
  "updated_at",
  "agent_name",
  "case_count",
  "total_cost",
  "duration",
  "finished_at",
] as const;
/** What case lists can be sorted by. */
const CASE_SORTS = [
  "created_at",
  "name",
  "status",
  "updated_at",
  "total_cost",
  "job_id",
  "duration",
  "finished_at",
] as const;

/** Query of the job list, on the page and in the API. */
export const JobsQuerySchema = filterQuery({
  ...page,
  ...jobFilters,
  sort: optionalText(sortBy(JOB_SORTS)),
});
export type JobsQuery = v.InferOutput<typeof JobsQuerySchema>;

/** Query of the case list, on the page and in the API. */
export const CasesQuerySchema = filterQuery({
  ...page,
  ...caseFilters,
  sort: optionalText(sortBy(CASE_SORTS)),
});
export type CasesQuery = v.InferOutput<typeof CasesQuerySchema>;

/** The jobs that a bulk action applies to: without page and order. */
export const JobsFilterSchema = filterQuery(jobFilters);
/** The cases that a bulk action applies to. */
export const CasesFilterSchema = filterQuery(caseFilters);

/** The store's query for a list of jobs: those that are stuck now have no other mark than their ids. */
export async function toJobsListQuery(
  { attention }: Pick<SeenParts, "attention">,
  query: Partial<JobsQuery>,
): Promise<ListQuery & { readonly sort: string }> {
  const {
    status,
    agent_name,
    stop_reason,
    parent_id,
    failure,
    search,
    limit,
    skip,
    sort,
    tag,
    started_by,
    ...ranges
  } = withoutEmpty(query);
  const { since, until, ended_since, zone, min_cost, min_duration, min_runs } = ranges;
  const where = {
    ...{ ...statusIs(status, stop_reason), parent_id, failure },
    id: status === "stuck" ? await attention.stuck() : undefined,
    tags: tag === undefined ? undefined : hasTag(tag),
    started_by,
    agent_name: agent_name === undefined ? undefined : { contains: agent_name },
    created_at: range(since && startOf(since, zone), until && startOf(until, zone)),
    finished_at: range(ended_since && startOf(ended_since, zone)),
    total_cost: range(min_cost),
    duration: range(min_duration === undefined ? undefined : min_duration * 1000),
    run_count: range(min_runs),
  };
  return { where, search, sort: sort ?? DEFAULT_SORT, limit, skip };
}

/** The conditions of a status or state that the list shows, where jobs also have this reason. */
export function statusIs(status: ListedState | undefined, stop_reason: StopReason | undefined) {
  if (status === undefined) return { stop_reason };
  if (status === "in_progress" || status === "stopped" || status === "cancelling")
    return { status, stop_reason };
  const state = status === "stuck" ? "running" : status === "awaiting" ? "waiting_for_answer" : status;
  return inState(state, { stop_reason });
}

/** The store's query for a list of cases. */
export function toCasesListQuery(query: Partial<CasesQuery>): ListQuery & { readonly sort: string } {
  const { status, job_id, search, limit, skip, sort } = withoutEmpty(query);
  return { where: { status, job_id }, search, sort: sort ?? DEFAULT_SORT, limit, skip };
}

function range(gte: number | undefined | "", lt?: number | undefined | "") {
  if (gte === undefined && lt === undefined) return undefined;
  return { ...(typeof gte === "number" && { gte }), ...(typeof lt === "number" && { lt }) };
}

function sortBy(keys: readonly string[]) {
  return v.picklist(
    keys.flatMap((key) => [key, `-${key}`]),
    `must be one of ${keys.join(", ")}, with or without a leading "-"`,
  );
}
