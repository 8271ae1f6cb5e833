import type { EntityStatus } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Condition } from "../../store/store.ts";
import { type ParentEndParts, parentEndOf } from "../replay/children.ts";

const ALL = Number.POSITIVE_INFINITY;
const OPEN: readonly EntityStatus[] = ["in_progress", "awaiting"];

/**
 * Suspended jobs that a start must end: those that lost data, and those whose parents have ended. Other suspended jobs
 * are not read: their index tells what is needed.
 */
export async function findSuspendedToEnd(parts: ParentEndParts): Promise<StoredJob[]> {
  const { jobs } = parts;
  const damaged = await Promise.all((await jobs.damaged()).map(({ id }) => jobs.find(id)));
  const found = damaged.filter((job): job is StoredJob => Boolean(job?.suspended));
  const ids = new Set(found.map(({ id }) => id));
  const suspended = { status: OPEN, wake_at: { gte: 0 } };
  for (const child of await findOrphans(parts, suspended)) if (!ids.has(child.id)) found.push(child);
  return found;
}

/** Of the jobs with these index values, those whose parents have ended. */
export async function findOrphans(
  parts: ParentEndParts,
  where: Readonly<Record<string, Condition>>,
): Promise<StoredJob[]> {
  const { jobs, agents } = parts;
  const byParent = await jobs.countBy("parent_id", {
    where: { ...where, parent_id: { gte: "" } },
    joins: "now",
  });
  const parents = Object.keys(byParent);
  if (parents.length === 0) return [];
  const present = new Set(await jobs.ids({ where: { id: parents } }));
  const restarted = agents
    .list()
    .flatMap(({ slug }) => agents.versions(slug))
    .filter(({ definition }) => definition.onInterruption === "restart")
    .map(({ slug }) => slug);
  const gone = [
    ...parents.filter((id) => !present.has(id)),
    ...(await jobs.ids({ where: { id: parents, status: ["failed", "cancelled"] } })),
    ...(await jobs.ids({ where: { id: parents, status: OPEN, agent_name: restarted } })),
  ];
  const { items } = await jobs.list({ where: { ...where, parent_id: gone }, limit: ALL });
  const ends = await Promise.all(items.map((child) => parentEndOf(parts, child)));
  return items.filter((_, at) => ends[at]);
}
