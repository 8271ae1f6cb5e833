import { KEPT_STATUSES, type KeptStatus, type RetentionPolicy } from "../agents/retention-policy.ts";
import type { ListQuery, Store } from "../store/store.ts";

/** Expired jobs of one agent and status. */
export interface DueGroup {
  /** Slug of the agent. */
  readonly agent: string;
  readonly status: KeptStatus;
  /** Jobs that ended before this time are due, milliseconds since the epoch. */
  readonly before: number;
  readonly query: ListQuery;
}

/** What is due for one agent and status, as shown to people. */
export interface DueCount {
  readonly agent: string;
  readonly status: KeptStatus;
  readonly jobs: number;
  /** Jobs that ended before this time are due, ISO 8601. */
  readonly before: string;
  /** When the first of them ended, ISO 8601. */
  readonly oldest: string;
}

/**
 * For each agent that has jobs, and each status that is not kept indefinitely, which jobs are due at `now`; of the
 * deleted ones, which would be if they were not deleted.
 */
export async function dueGroups(
  store: Store,
  policyOf: (agent: string) => RetentionPolicy,
  now: Date,
  table: "Job" | "DeletedJob" = "Job",
): Promise<DueGroup[]> {
  const agents = Object.keys(await store.table(table).countBy("agent_name")).sort();
  return agents.flatMap((agent) => {
    const policy = policyOf(agent);
    return KEPT_STATUSES.flatMap((status): DueGroup[] => {
      const keep = policy[status];
      if (keep === null) return [];
      const before = now.getTime() - keep;
      const where = { agent_name: agent, status, finished_at: { lt: before } };
      return [{ agent, status, before, query: { where, sort: "finished_at" } }];
    });
  });
}

/** How many jobs are due at `now`, and since when; groups with none are omitted. */
export async function countDue(
  store: Store,
  policyOf: (agent: string) => RetentionPolicy,
  now: Date,
  table: "Job" | "DeletedJob" = "Job",
): Promise<DueCount[]> {
  const counts: DueCount[] = [];
  for (const { agent, status, before, query } of await dueGroups(store, policyOf, now, table)) {
    const { items, total } = await store.table(table).list({ ...query, limit: 1 });
    const oldest = items[0]?.finished_at;
    if (!oldest) continue;
    counts.push({ agent, status, jobs: total, before: new Date(before).toISOString(), oldest });
  }
  return counts;
}
