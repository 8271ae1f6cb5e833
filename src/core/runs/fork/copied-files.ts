import type { CopiedNames } from "../../entities/job-files.ts";
import { type ReadResult, UnreadableResultError, withResult } from "../../entities/large-results.ts";
import { type FileName, type FileValue, filesIn } from "../../models/file.ts";
import type { RunEntry } from "../../models/run-entry.ts";

/**
 * The files of the original that a fork needs: those in its fields and in the copied record, and what the copied calls have
 * made. What only other calls have made, and the files of fields that were replaced, are the original's alone.
 */
export async function filesOfCopy(
  fields: unknown,
  entries: readonly RunEntry[],
  readResult: ReadResult | undefined,
): Promise<{ readonly names: CopiedNames; readonly results: ReadonlySet<string> }> {
  const values = [...filesIn(fields).values()];
  const results = new Set<string>();
  const times = new Set<string>();
  for (const entry of entries) {
    const isApart = entry.type === "call" && entry.by_reference === true;
    if (isApart) results.add((entry.result as FileValue).sha256);
    values.push(...filesIn(isApart && readResult ? await read(entry, readResult) : entry).values());
    // A file is stored with the call that makes it, at the same time.
    if (entry.type === "call" || entry.type === "answer") times.add(entry.at);
  }
  const contents = new Set(values.map(({ sha256 }) => sha256));
  const named = new Set(values.map((value) => keyOf(value.sha256, value)));
  return {
    results,
    names: (sha256, names) => {
      const isMade = ({ origin, created_at }: FileName) => origin !== "field" && times.has(created_at);
      const needed = names.filter((one) => isMade(one) || named.has(keyOf(sha256, one)));
      // The handler has another name for it.
      return needed.length === 0 && contents.has(sha256) ? names : needed;
    },
  };
}

/** The run of the fork reports a result that cannot be read. */
async function read(entry: RunEntry, readResult: ReadResult): Promise<RunEntry> {
  try {
    return await withResult(entry, readResult);
  } catch (error) {
    if (error instanceof UnreadableResultError) return entry;
    throw error;
  }
}

function keyOf(sha256: string, { name, type }: Pick<FileName, "name" | "type">): string {
  return JSON.stringify([sha256, name, type]);
}
