import { type KeepsArtifact, keepArtifacts } from "../../entities/job-files.ts";
import type { Unit } from "../../entities/ledger.ts";
import { isFileValue } from "../../models/file.ts";
import type { CallEntry, RunEntry } from "../../models/run-entry.ts";
import { withoutTags } from "../../models/tags.ts";
import type { Call } from "./call.ts";
import { ARTIFACT_STEP } from "./made-files.ts";

/** Recorded ends of calls: of those that no longer count for their job, and of those that do. */
export interface SplitCalls {
  readonly gone: readonly CallEntry[];
  readonly kept: readonly CallEntry[];
}

export function endsOf(calls: readonly Call[]): CallEntry[] {
  return calls.flatMap(({ entry }) => entry ?? []);
}

export function endsIn(entries: readonly RunEntry[]): CallEntry[] {
  return entries.filter((entry) => entry.type === "call");
}

/** The tags of a job without those that only calls have added which no longer count. */
export function tagsAfter(
  tags: readonly string[] | undefined,
  { gone, kept }: SplitCalls,
): string[] | undefined {
  return withoutTags(tags, { gone: gone.filter(isTag), kept: kept.filter(isTag) });
}

/** Which artifacts the files of a job are by its calls. */
export function artifactsBy(calls: readonly CallEntry[]): KeepsArtifact {
  const keyOf = (sha256: string, step: string) => `${sha256} ${step}`;
  const keys = calls.filter(isArtifact).map(({ name, result }) => keyOf(result.sha256, name));
  const known = new Set(keys);
  return (sha256, artifact) => known.has(keyOf(sha256, `${ARTIFACT_STEP}${artifact}`));
}

/** Inside the unit after which calls no longer count: their job's files are artifacts only by the others. */
export async function dropArtifacts(unit: Unit, jobId: string, { gone, kept }: SplitCalls): Promise<void> {
  if (gone.some(isArtifact)) await keepArtifacts(unit, jobId, artifactsBy(kept));
}

function isTag({ call }: CallEntry): boolean {
  return call === "tag";
}

function isArtifact(entry: CallEntry): entry is CallEntry & { readonly result: { readonly sha256: string } } {
  return entry.call === "step" && entry.name.startsWith(ARTIFACT_STEP) && isFileValue(entry.result);
}
