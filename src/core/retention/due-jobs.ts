import { KEPT_STATUSES, type KeptStatus, type RetentionPolicy } from "../agents/retention-policy.ts";
import type { Workspaces } from "../agents/workspaces.ts";
import type { ListQuery, Store } from "../store/store.ts";

/** How long jobs of an agent are kept, in a workspace where these have times of their own. */
export interface PolicyOf {
  (agent: string, workspace?: string): RetentionPolicy;
  readonly workspaces?: Workspaces;
}

/** Expired jobs of one agent and status. */
export interface DueGroup {
  /** Slug of the agent. */
  readonly agent: string;
  readonly status: KeptStatus;
  /** Jobs that ended before this time are due, milliseconds since the epoch. */
  readonly before: number;
  /** Of these workspaces; `null` for all, where none keeps jobs for a time of its own. */
  readonly workspaces: readonly string[] | null;
  readonly query: ListQuery;
}

/** What is due for one agent and status, as shown to people. */
export interface DueCount {
  readonly agent: string;
  readonly status: KeptStatus;
  /** Of these workspaces; `null` for all. */
  readonly workspaces: readonly string[] | null;
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
  policyOf: PolicyOf,
  now: Date,
  table: "Job" | "DeletedJob" = "Job",
): Promise<DueGroup[]> {
  const agents = Object.keys(await store.table(table).countBy("agent_name")).sort();
  const groups = await Promise.all(
    agents.map(async (agent) => {
      const parts = await partsOf(store, policyOf, { agent, table });
      return KEPT_STATUSES.flatMap((status) =>
        [...byTime(parts, status)].flatMap(([keep, names]): DueGroup[] => {
          if (keep === null) return [];
          const before = now.getTime() - keep;
          const where = {
            ...{ agent_name: agent, status, finished_at: { lt: before } },
            ...(names !== undefined && { workspace_id: names }),
          };
          return [
            { agent, status, before, workspaces: names ?? null, query: { where, sort: "finished_at" } },
          ];
        }),
      );
    }),
  );
  return groups.flat();
}

interface Part {
  /** `undefined` for all. */
  readonly workspace: string | undefined;
  readonly policy: RetentionPolicy;
}

/** The jobs of an agent, apart where workspaces have times of their own. */
async function partsOf(
  store: Store,
  policyOf: PolicyOf,
  { agent, table }: { readonly agent: string; readonly table: "Job" | "DeletedJob" },
): Promise<Part[]> {
  if (!policyOf.workspaces?.haveRetention) return [{ workspace: undefined, policy: policyOf(agent) }];
  const ended = { where: { agent_name: agent, status: KEPT_STATUSES } };
  // Rows of deleted jobs do not say whose they were: they are kept as long as any workspace says.
  if (table === "DeletedJob")
    return [{ workspace: undefined, policy: longest(policyOf.workspaces.policies(policyOf(agent))) }];
  const names = Object.keys(await store.table("Job").countBy("workspace_id", ended));
  return names.map((workspace) => ({ workspace, policy: policyOf(agent, workspace) }));
}

/** The workspaces whose jobs are kept as long, by that time. */
function byTime(parts: readonly Part[], status: KeptStatus): Map<number | null, string[] | undefined> {
  const groups = new Map<number | null, string[] | undefined>();
  for (const { workspace, policy } of parts) {
    const names = groups.get(policy[status]);
    if (names && workspace !== undefined) names.push(workspace);
    else groups.set(policy[status], workspace === undefined ? undefined : [workspace]);
  }
  return groups;
}

function longest(policies: readonly RetentionPolicy[]): RetentionPolicy {
  const of = (status: KeptStatus): number | null => {
    const times = policies.map((policy) => policy[status]);
    return times.includes(null) ? null : Math.max(...(times as number[]));
  };
  return Object.fromEntries(
    KEPT_STATUSES.map((status) => [status, of(status)]),
  ) as unknown as RetentionPolicy;
}

/** How many jobs are due at `now`, and since when; groups with none are omitted. */
export async function countDue(
  store: Store,
  policyOf: PolicyOf,
  now: Date,
  table: "Job" | "DeletedJob" = "Job",
): Promise<DueCount[]> {
  const counts: DueCount[] = [];
  for (const { before, query, ...of } of await dueGroups(store, policyOf, now, table)) {
    const { items, total } = await store.table(table).list({ ...query, limit: 1 });
    const oldest = items[0]?.finished_at;
    if (!oldest) continue;
    counts.push({ ...of, jobs: total, before: new Date(before).toISOString(), oldest });
  }
  return counts;
}
