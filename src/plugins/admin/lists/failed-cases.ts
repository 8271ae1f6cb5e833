import type { SeenParts } from "../parts.ts";

/** How many cases of a job failed, by the job's id; jobs without one are absent. */
export type FailedCases = Readonly<Record<string, number>>;

/** What rows of jobs show besides the jobs. */
export interface Beside {
  readonly failed: FailedCases;
  /** Ids of the jobs that are stuck. */
  readonly stuck: ReadonlySet<string>;
}

/** Reads what rows of jobs show besides the jobs. */
export async function readBeside(
  parts: Pick<SeenParts, "cases" | "attention">,
  ids: readonly string[],
): Promise<Beside> {
  const [failed, stuck] = await Promise.all([countFailed(parts, ids), parts.attention.stuck()]);
  return { failed, stuck: new Set(stuck) };
}

/** Counts the failed cases of jobs: a job may be completed although some of its cases failed. */
export async function countFailed(
  { cases }: Pick<SeenParts, "cases">,
  ids: readonly string[],
): Promise<FailedCases> {
  if (ids.length === 0) return {};
  return cases.countBy("job_id", { where: { job_id: ids, status: "failed" } });
}
