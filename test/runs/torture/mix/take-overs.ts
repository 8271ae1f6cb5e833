import type { Outcome } from "../../../../src/cli/torture/trial.ts";
import type { Effect } from "./agents.ts";
import { isInterruption, isStep, mayChangeOwner } from "./journal.ts";
import type { Lives } from "./lives.ts";
import type { TakeOvers } from "./mix-counts.ts";

/**
 * How long jobs waited from the end of the process that had them until another one had claimed them. Not those that had
 * nobody then: one that is suspended or held waits for something else.
 */
export function readTakeOvers(
  outcomes: Iterable<Outcome>,
  lives: Lives,
): Readonly<Record<"kill" | "hand-over", TakeOvers>> {
  const found = { kill: [] as TakeOver[], "hand-over": [] as TakeOver[] };
  for (const { job, log } of outcomes) {
    let owner: number | undefined;
    for (const entry of log.values()) {
      if (isStep(entry) && !entry.error) owner = (entry.result as Effect).life;
      if (!mayChangeOwner(entry)) continue;
      const ended = owner === undefined ? undefined : lives.get(owner)?.ended;
      owner = undefined;
      const waited = ended ? Date.parse(entry.at) - ended.at : -1;
      if (ended && isInterruption(entry) && waited >= 0) found[ended.how].push({ job: job.id, waited });
    }
  }
  return { kill: sumUp(found.kill), "hand-over": sumUp(found["hand-over"]) };
}

interface TakeOver {
  readonly job: string;
  /** Milliseconds. */
  readonly waited: number;
}

function sumUp(found: readonly TakeOver[]): TakeOvers {
  const sorted = found.toSorted((a, b) => a.waited - b.waited);
  const seconds = (at: number) => Math.round(sorted[at]?.waited ?? 0) / 1000;
  return {
    count: sorted.length,
    median: seconds(sorted.length >> 1),
    longest: seconds(sorted.length - 1),
    of: sorted.at(-1)?.job,
  };
}
