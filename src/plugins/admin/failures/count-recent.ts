import type { AdminParts } from "../parts.ts";

const DAY = 86_400_000;

/** How many jobs failed in the last 24 hours: read from an index. */
export async function countRecentFailures({
  jobs,
  clock,
}: Pick<AdminParts, "jobs" | "clock">): Promise<number> {
  const where = { status: "failed", finished_at: { gte: clock().getTime() - DAY } };
  return (await jobs.list({ where, limit: 0 })).total;
}
