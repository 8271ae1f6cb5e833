import type { RunEntry } from "../../../core/models/run-entry.ts";
import type { LogEntry } from "../../../core/store/store.ts";
import type { SeenParts } from "../parts.ts";

/** The entries of a run log, followed by the steps that are running now, which are not stored yet. */
export function withRunning(
  { runner }: Pick<SeenParts, "runner">,
  jobId: string,
  entries: readonly LogEntry<RunEntry>[],
): RunEntry[] {
  return [...entries.map(({ entry }) => entry), ...runner().runningSteps(jobId)];
}
