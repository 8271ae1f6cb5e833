import type { StoredJob } from "../../../core/models/job.ts";
import { timeTaken, type UsedTime } from "../../../core/runs/replay/limits.ts";
import { formatCost, formatCount, formatDuration } from "../views/format.ts";
import { meterBar } from "../views/pieces.ts";

/** How much is used of each limit of a job; `readRecord` gives what is recorded of it. */
export async function toMeters(
  job: StoredJob,
  readRecord: () => Promise<UsedTime>,
  { now, currency }: { readonly now: Date; readonly currency: string },
) {
  const limits = job.job_context.job_instructions;
  if (!limits) return [];
  const meter = (label: string, used: number, limit: number | null, show: (value: number) => string) => {
    if (limit === null) return [];
    const share = limit === 0 ? (used > 0 ? 1.01 : 0) : used / limit;
    const tone = share > 1 ? "over" : share >= 0.8 ? "high" : "";
    return [{ label, value: `${show(used)} of ${show(limit)}`, tone, bar: meterBar(share).toString() }];
  };
  const took = limits.max_duration === null ? 0 : timeTaken(await readRecord(), limits, now) / 1000;
  return [
    ...meter("Cases", job.case_count, limits.max_cases, formatCount),
    ...meter("Time", took, limits.max_duration, (seconds) => formatDuration(seconds * 1000)),
    ...meter("Cost", job.total_cost, limits.max_cost, (cost) => formatCost(cost, currency)),
  ];
}

/** The limits without a number. */
export function limitNote(job: StoredJob): string {
  const limits = job.job_context.job_instructions;
  if (limits?.stop_on_warning) return "Stops at the first warning.";
  return (limits?.stop_on_error ?? true) ? "Stops at the first failed case." : "Continues when a case fails.";
}
