import type { AdminParts } from "../parts.ts";

/** How many cases of a job failed, by the job's id; jobs without one are absent. */
export type FailedCases = Readonly<Record<string, number>>;

/** Counts the failed cases of jobs: a job may be completed although some of its cases failed. */
export async function countFailed(
  { cases }: Pick<AdminParts, "cases">,
  ids: readonly string[],
): Promise<FailedCases> {
  if (ids.length === 0) return {};
  return cases.countBy("job_id", { where: { job_id: ids, status: "failed" } });
}
