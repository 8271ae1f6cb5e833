import type { CallEntry, MarkEntry, RunEntry } from "../../models/run-entry.ts";

/** A job that was under way at so many crashes in a row, without progress between them, is held. */
export const MOST_CRASHES = 3;

/**
 * Crashes of the process at which a job was under way, since it last made progress: since a call was recorded that was
 * not recorded before, an answer came, or a person steered it. A job that begins from the start after each crash makes
 * progress where it gets further than before.
 */
export function countCrashes(entries: readonly RunEntry[]): number {
  let count = 0;
  let calls = 0;
  let most = 0;
  let run: number | undefined;
  for (const entry of entries) {
    if (isSteered(entry)) {
      count = 0;
      most = 0;
    }
    if (entry.type === "mark" && entry.mark === "restarted") calls = 0;
    if (isProgress(entry)) calls++;
    // If the process ended before the job was resumed, its next start records the same crash.
    if (!isCrash(entry) || entry.run === run) continue;
    run = entry.run;
    count = calls > most ? 1 : count + 1;
    most = Math.max(most, calls);
  }
  return calls > most ? 0 : count;
}

/** The log's entry for the crash of a run. */
export function crashOf(entries: readonly RunEntry[], run: number): MarkEntry | undefined {
  const last = entries.findLast(isCrash);
  return last?.run === run ? last : undefined;
}

/** What a job was doing when its process crashed, as far as its log shows. */
export function lastDoing(entries: readonly RunEntry[]): string {
  const restart = entries.findLastIndex((entry) => entry.type === "mark" && entry.mark === "restarted");
  const last = entries.findLast((entry, at): entry is CallEntry => at > restart && entry.type === "call");
  if (!last) return "its handler, before its first call";
  return `its handler, after ${last.call} "${last.key ?? last.name}"`;
}

export function isCrash(entry: RunEntry): entry is MarkEntry {
  return entry.type === "mark" && entry.mark === "interrupted" && entry.doing !== undefined;
}

export function isProgress(entry: RunEntry): boolean {
  return (
    entry.type === "call" || entry.type === "answer" || (entry.type === "begun" && entry.call !== "step")
  );
}

export function isSteered(entry: RunEntry): boolean {
  return (entry.type === "mark" || entry.type === "status") && entry.by !== undefined;
}
