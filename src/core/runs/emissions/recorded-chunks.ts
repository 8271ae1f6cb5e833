import type { EmittedChunks } from "../../models/emitted-chunks.ts";
import type { RunEntry } from "../../models/run-entry.ts";

/** What an attempt has emitted, from its record, as a reader who came too late for it gets it; `undefined` where that is nothing. */
export function recordedChunks(entry: RunEntry): EmittedChunks | undefined {
  if ((entry.type !== "call" && entry.type !== "attempt") || !entry.emitted) return undefined;
  const { case_id, position, name, key, emitted } = entry;
  const attempt = entry.type === "call" ? (entry.attempts ?? 1) : entry.attempt;
  const chunks = emitted.chunks ?? (entry.type === "call" ? [entry.result] : []);
  return { type: "chunk", case_id, position, name, key, run: emitted.run, attempt, index: 0, chunks };
}

/** Identifies an attempt among those of its job. */
export function attemptKey({
  case_id,
  position,
  run,
  attempt,
}: Pick<EmittedChunks, "case_id" | "position" | "run" | "attempt">): string {
  return `${case_id ?? "job"}/${position}/${run}/${attempt}`;
}
