import type { Attempt } from "./attempt.ts";
import type { Unit } from "./group.ts";

/** What became of an attempt: `conflict` says that its work must run again. */
export type Outcome = "stored" | "conflict" | "fenced";

const OUTCOMES: readonly Outcome[] = ["stored", "conflict", "fenced"];

/** What became of the units of a group; `text` is an array of Postgres. */
export function readResult(text: string): Outcome[] {
  return text
    .slice(1, -1)
    .split(",")
    .map((number) => OUTCOMES[Number(number)]!);
}

/** What became of an attempt. Where several with different fences are in a unit, each finds out by itself when it runs again. */
export function outcomeFor(attempt: Attempt, outcome: Outcome, { attempts }: Unit): Outcome {
  if (outcome !== "fenced") return outcome;
  const fences = new Set(attempts.flatMap(({ fence }) => (fence ? [`${fence.epoch} ${fence.job}`] : [])));
  return attempt.fence !== undefined && fences.size === 1 ? "fenced" : "conflict";
}

/** Whether an attempt was built on what will never be stored. */
export function isBuiltOnFailure({ after }: Attempt): boolean {
  for (const { state } of after) if (state === "failed") return true;
  return false;
}
