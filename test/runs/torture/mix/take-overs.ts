import type { Outcome } from "../../../../src/cli/torture/trial.ts";
import type { Effect } from "./agents.ts";
import { isInterruption, isStep } from "./journal.ts";
import type { Lives } from "./lives.ts";
import type { TakeOvers } from "./mix-counts.ts";

/** How long jobs waited from the end of the process that had them until another one had claimed them. */
export function readTakeOvers(
  outcomes: Iterable<Outcome>,
  lives: Lives,
): Readonly<Record<"kill" | "hand-over", TakeOvers>> {
  const times = { kill: [] as number[], "hand-over": [] as number[] };
  for (const { log } of outcomes) {
    let owner: number | undefined;
    for (const entry of log.values()) {
      if (isStep(entry) && !entry.error) owner = (entry.result as Effect).life;
      if (!isInterruption(entry) || owner === undefined) continue;
      const ended = lives.get(owner)?.ended;
      owner = undefined;
      if (ended && Date.parse(entry.at) >= ended.at) times[ended.how].push(Date.parse(entry.at) - ended.at);
    }
  }
  return { kill: sumUp(times.kill), "hand-over": sumUp(times["hand-over"]) };
}

function sumUp(times: number[]): TakeOvers {
  const sorted = times.toSorted((a, b) => a - b);
  const seconds = (at: number) => Math.round(sorted[at] ?? 0) / 1000;
  return { count: sorted.length, median: seconds(sorted.length >> 1), longest: seconds(sorted.length - 1) };
}
