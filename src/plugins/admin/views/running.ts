import type { RunEntry } from "../../../core/models/run-entry.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import type { AdminParts } from "../parts.ts";

/** The entries of a run log with those steps behind them that run at this moment: nothing is stored of them yet. */
export function withRunning(
  { runner }: Pick<AdminParts, "runner">,
  jobId: string,
  entries: readonly LogEntry<RunEntry>[],
): RunEntry[] {
  return [...entries.map(({ entry }) => entry), ...runner().runningSteps(jobId)];
}
