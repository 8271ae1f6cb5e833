import * as v from "valibot";
import type { Actor } from "../../../core/audit/caller.ts";
import { ServiceError } from "../../../core/base/errors.ts";
import { exactAmount } from "../../../core/base/exact-amount.ts";
import { check } from "../../../core/http/check.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { endsWithRetry, holdOf } from "../../../core/models/job-state.ts";
import { EntityIdSchema, JsonMapSchema } from "../../../core/models/scalars.ts";
import type { ListQuery } from "../../../core/store/store.ts";
import { isLimit } from "../failures/read-failures.ts";
import {
  CasesFilterSchema,
  JobsFilterSchema,
  toCasesListQuery,
  toJobsListQuery,
} from "../lists/list-query.ts";
import type { SeenParts } from "../parts.ts";
import type { BulkAction, RaisedLimits } from "./bulk-table.ts";
import { type BulkRequest, MOST_ENTITIES } from "./operations.ts";

const ids = v.pipe(v.array(EntityIdSchema), v.minLength(1), v.maxLength(10_000));
const LimitsSchema = v.object({
  max_cost: v.optional(v.pipe(v.number(), v.minValue(0))),
  max_duration: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
  max_cases: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))),
});
export const BulkBodySchema = v.object({
  kind: v.picklist(["jobs", "cases"]),
  action: v.picklist(["stop", "retry", "continue", "restart", "resume", "delete"]),
  /** With "resume": the limits that the jobs get in place of those that ended them. */
  limits: v.optional(LimitsSchema),
  /** The entities; or the filters of the list, all of whose matches are meant. */
  ids: v.optional(ids),
  filter: v.optional(JsonMapSchema),
  /** Says that no filter means every entity. */
  all: v.optional(v.boolean()),
});

/** The entities that an action applies to. */
export interface Selection {
  readonly kind: "jobs" | "cases";
  readonly action: BulkAction;
  readonly limits?: RaisedLimits | undefined;
  readonly query: ListQuery;
}

const PAGE = 500;

/** The entities named, or all that match the filters of a list. */
export async function selectionOf(
  parts: Pick<SeenParts, "attention">,
  body: v.InferOutput<typeof BulkBodySchema>,
): Promise<Selection> {
  const { kind, action, limits, ids, filter, all } = body;
  if (kind === "cases" && action !== "delete") {
    throw new ServiceError("invalid_request", `Action ${action} is not available for cases`, {
      detail: "Use it on their jobs.",
    });
  }
  if ((action === "resume") !== Object.keys(limits ?? {}).length > 0) {
    throw new ServiceError("invalid_request", "Action resume needs the raised limits, and no other has any", {
      detail: 'For example: "action": "resume", "limits": { "max_cost": 5 }.',
    });
  }
  if (ids && (filter || all)) {
    throw new ServiceError("invalid_request", "The selection is ambiguous", {
      detail: "Send either ids or a filter.",
    });
  }
  if (ids) return { kind, action, limits, query: { where: { id: ids } } };
  if (!filter && !all) {
    throw new ServiceError("invalid_request", "Nothing is selected", { detail: "Send ids or a filter." });
  }
  const given = asTexts(filter ?? {});
  const query =
    kind === "jobs"
      ? await toJobsListQuery(parts, check(JobsFilterSchema, given, "body"))
      : toCasesListQuery(check(CasesFilterSchema, given, "body"));
  const { where, search } = query;
  const narrows = search !== undefined || Object.values(where ?? {}).some((value) => value !== undefined);
  if (!narrows && !all) {
    throw new ServiceError("invalid_request", `The filter matches all ${kind}`, {
      detail: `Narrow it, or send "all": true to select every one.`,
    });
  }
  return { kind, action, limits, query: { where, search } };
}

/** A filter as a query has it: programs send numbers as numbers. */
function asTexts(filter: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(filter).map(([name, value]) => [name, typeof value === "number" ? String(value) : value]),
  );
}

/** Resolves the entities at this moment; those that the action cannot apply to are skipped. */
export async function freeze(
  parts: SeenParts,
  { kind, action, limits, query }: Selection,
  by: Actor,
): Promise<BulkRequest> {
  const table = kind === "jobs" ? parts.jobs : parts.cases;
  const ids: string[] = [];
  let cost = 0;
  // What matches now: a page of what changes meanwhile would miss some.
  const matching = await table.ids({ ...query, sort: "id", limit: Number.POSITIVE_INFINITY });
  for (let at = 0; at < Math.min(matching.length, MOST_ENTITIES); at += PAGE) {
    const page = matching.slice(at, Math.min(at + PAGE, MOST_ENTITIES));
    for (const entity of (await table.list({ where: { id: page }, sort: "id", limit: PAGE })).items) {
      if (limits ? !mayBeResumed(entity, limits) : !applies(action, entity)) continue;
      ids.push(entity.id);
      cost = exactAmount(cost + entity.total_cost);
    }
  }
  return {
    kind,
    action,
    ...(limits && { limits }),
    ids,
    cost,
    leftOut: matching.length - ids.length,
    by,
  };
}

/** Whether a limit ended a job that is raised, above what the job has used. */
function mayBeResumed(entity: StoredJob | StoredCase, limits: RaisedLimits): boolean {
  if (!("stop_reason" in entity) || entity.status !== "failed") return false;
  const { stop_reason: met, job_context, total_cost, case_count } = entity;
  if (!isLimit(met)) return false;
  const raised = limits[met];
  if (raised === undefined) return false;
  const used = { max_cost: total_cost, max_cases: case_count, max_duration: 0 }[met];
  return raised > Math.max(used, job_context.job_instructions?.[met] ?? 0);
}

function applies(action: BulkAction, entity: StoredJob | StoredCase): boolean {
  const { status } = entity;
  const hold = "stop_reason" in entity ? holdOf(entity) : undefined;
  if (action === "continue") return hold === "code_changed";
  if (action === "restart" && hold) return true;
  if (action === "retry" && "stop_reason" in entity && isLimit(entity.stop_reason)) return false;
  if (action === "stop") return !isTerminal(status) && status !== "cancelling";
  if (action === "delete" || status === "failed" || status === "cancelled") return true;
  return endsWithRetry(hold);
}
