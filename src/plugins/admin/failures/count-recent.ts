import type { Attention } from "../../../core/runs/attention/attention.ts";
import { countHeard } from "../../../core/runs/attention/failure-marks.ts";
import type { AdminParts } from "../parts.ts";

const DAY = 86_400_000;

/** How many jobs failed in the last 24 hours, for reasons that are neither muted nor resolved: read from an index. */
export async function countRecentFailures({
  jobs,
  clock,
  attention,
}: Pick<AdminParts, "jobs" | "clock"> & {
  readonly attention: Pick<Attention, "marks">;
}): Promise<number> {
  const counts = await countHeard(jobs, clock().getTime() - DAY, await attention.marks.read());
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
