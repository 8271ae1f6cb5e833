import * as v from "valibot";
import { pageQuery } from "../../../core/http/query.ts";
import { EntityStatusSchema } from "../../../core/models/entity-status.ts";
import { StopReasonSchema } from "../../../core/models/job.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import type { ListQuery } from "../../../core/store/store.ts";
import { filterQuery, optionalText, withoutEmpty } from "../query.ts";

export const DEFAULT_LIMIT = 50;
export const DEFAULT_SORT = "-created_at";

const text = v.pipe(v.string(), v.maxLength(200));
const page = pageQuery({ max: 100, default: DEFAULT_LIMIT });
const common = { status: optionalText(EntityStatusSchema), search: optionalText(text) };
const jobFilters = {
  ...common,
  agent_name: optionalText(text),
  stop_reason: optionalText(StopReasonSchema),
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

/** The store's query for a list of jobs. */
export function toJobsListQuery(query: Partial<JobsQuery>): ListQuery {
  const { status, agent_name, stop_reason, parent_id, search, limit, skip, sort } = withoutEmpty(query);
  const agent = agent_name === undefined ? undefined : { contains: agent_name };
  const where = { status, agent_name: agent, stop_reason, parent_id };
  return { where, search, sort: sort ?? DEFAULT_SORT, limit, skip };
}

/** The store's query for a list of cases. */
export function toCasesListQuery(query: Partial<CasesQuery>): ListQuery {
  const { status, job_id, search, limit, skip, sort } = withoutEmpty(query);
  return { where: { status, job_id }, search, sort: sort ?? DEFAULT_SORT, limit, skip };
}

function sortBy(keys: readonly string[]) {
  return v.picklist(
    keys.flatMap((key) => [key, `-${key}`]),
    `must be one of ${keys.join(", ")}, with or without a leading "-"`,
  );
}
