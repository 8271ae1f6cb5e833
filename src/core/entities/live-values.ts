import type { ListQuery, LiveValues } from "../store/store.ts";

/** Statuses of jobs and cases that are under way: their durations are shown as the time since they were created. */
const UNDER_WAY = ["in_progress", "awaiting", "cancelling"] as const;

/**
 * A query of jobs or cases about what is shown of them: `duration` up to now, and `total_cost` with what is not stored
 * yet. A query about neither stays as it is.
 */
export function withLive<Q extends ListQuery>(
  query: Q | undefined,
  given: { readonly now: () => Date; readonly costs?: (() => ReadonlyMap<string, number>) | undefined },
): Q | undefined {
  if (!query || !mayBeUnderWay(query)) return query;
  const live: LiveValues = {
    ...(given.costs && isAbout(query, "total_cost") && { values: { total_cost: given.costs() } }),
    ...(isAbout(query, "duration") && {
      elapsed: { field: "duration", since: "created_at", now: given.now().getTime(), status: UNDER_WAY },
    }),
  };
  return Object.keys(live).length === 0 ? query : { ...query, live };
}

function isAbout({ where, sort }: ListQuery, field: string): boolean {
  return where?.[field] !== undefined || sort?.replace(/^-/, "") === field;
}

/** Whether its condition on the status lets in what is under way. */
function mayBeUnderWay({ where }: ListQuery): boolean {
  const status = where?.status;
  if (status === undefined || status === null) return true;
  const wanted = Array.isArray(status) ? status : [status];
  return wanted.some((one) => typeof one === "object" || UNDER_WAY.some((open) => open === one));
}
