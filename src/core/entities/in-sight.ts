import type { Sight } from "../models/access.ts";
import type { StoredCase } from "../models/case.ts";
import type { StoredJob } from "../models/job.ts";
import { matcher } from "../store/query.ts";
import type { Condition, ListQuery } from "../store/store.ts";

/** Matches nothing. */
export const NOTHING: readonly string[] = [];

/** Whether a caller with this sight sees a job. Who sees questions only sees no job. */
export function seesJob(sight: Sight | undefined, job: StoredJob): boolean {
  if (sight === undefined) return true;
  const { agents, workspace, startedBy, askedOf, job: only, jobCreated } = sight;
  if (askedOf !== undefined) return false;
  return (
    (only === undefined || only === job.id) &&
    (jobCreated === undefined || jobCreated === job.created_at) &&
    (agents === undefined || agents.includes(job.agent_name)) &&
    (workspace === undefined || workspace === job.job_context.workspace_id) &&
    (startedBy === undefined || startedBy === job.access)
  );
}

/** Whether a caller with this sight sees all jobs of an agent: then what is about all of them is for it, too. */
export function seesAgent(sight: Sight, slug: string): boolean {
  return seesWholeAgents(sight) && (sight.agents?.includes(slug) ?? true);
}

/** Whether a caller with this sight sees all jobs of each agent of which it sees any. */
export function seesWholeAgents({ workspace, startedBy, askedOf, job }: Sight): boolean {
  return [workspace, startedBy, askedOf, job].every((one) => one === undefined);
}

/** Whether a caller with this sight sees all jobs that a schedule of an agent starts in a workspace. */
export function seesSchedule(
  { workspace, ...sight }: Sight,
  started: { readonly agent: string; readonly workspace: string },
): boolean {
  return seesAgent(sight, started.agent) && (workspace === undefined || workspace === started.workspace);
}

/** A query of jobs, with the condition of a sight. */
export function jobsInSight<Q extends ListQuery>(
  sight: Sight | undefined,
  query: Q | undefined,
): Q | undefined {
  if (sight === undefined) return query;
  const { agents, workspace, startedBy, askedOf, job, jobCreated } = sight;
  const where = { ...query?.where };
  if (job !== undefined) where.id = both(where.id, [job]);
  if (jobCreated !== undefined) {
    const created = Date.parse(jobCreated);
    where.created_at = { gte: created, lt: created + 1 };
  }
  if (agents) where.agent_name = both(where.agent_name, agents);
  if (workspace !== undefined) where.workspace_id = both(where.workspace_id, [workspace]);
  if (startedBy !== undefined) where.access = both(where.access, [startedBy]);
  if (askedOf !== undefined) where.id = NOTHING;
  return { ...query, where } as Q;
}

/** Whether the open question of a case is for somebody with this sight, where that sees questions only. */
export function isAsked(sight: Sight, { status, question }: StoredCase): boolean {
  if (sight.askedOf === undefined) return true;
  const to = question?.assigned_to;
  return status === "awaiting" && to !== undefined && sight.askedOf.includes(to);
}

/** The condition that is met where both this one, if any, and one of the values are. */
export function both(condition: Condition | undefined, values: readonly string[]): readonly string[] {
  return condition === undefined ? values : values.filter(matcher(condition));
}
