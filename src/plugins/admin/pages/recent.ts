import type { AdminParts } from "../parts.ts";
import { pathTo, statusPiece, timePiece } from "../views/pieces.ts";

const MOST = 10;

/** The newest changes of jobs and cases, newest first. */
export async function readRecent({ jobs, cases }: Pick<AdminParts, "jobs" | "cases">) {
  const query = { sort: "-updated_at", limit: MOST };
  const [newJobs, newCases] = await Promise.all([jobs.list(query), cases.list(query)]);
  const items = [
    ...newJobs.items.map(({ id, name, status, created_at, updated_at, agent_name }) => ({
      type: "job" as const,
      ...{ id, name, status, created_at, updated_at, agent_name },
    })),
    ...newCases.items.map(({ id, name, status, created_at, updated_at, job_id }) => ({
      type: "case" as const,
      ...{ id, name, status, created_at, updated_at, job_id },
    })),
  ];
  items.sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
  return { items: items.slice(0, MOST) };
}

type RecentItem = Awaited<ReturnType<typeof readRecent>>["items"][number];

/** A change as a line of a list. */
export function toRecentLine(item: RecentItem, now: Date) {
  return {
    name: item.name,
    href: pathTo(item.type === "job" ? "jobs" : "cases", item.id),
    sub: item.type === "job" ? `Job · ${item.agent_name}` : `Case of ${item.job_id}`,
    status: statusPiece(item.status).toString(),
    time: timePiece(item.updated_at, now).toString(),
  };
}
