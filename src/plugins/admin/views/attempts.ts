import { isTerminal } from "../../../core/models/entity-status.ts";
import type { AttemptEntry, BegunEntry, CallEntry, RunEntry } from "../../../core/models/run-entry.ts";

/** Numbers of the last attempts, by call. */
export type LastAttempts = ReadonlyMap<string, number>;

/**
 * Counts the attempts of calls in each run of a job. Their numbers continue from run to run: of a step that failed three
 * times in each of two runs, the last attempt has number 6.
 */
export class AttemptCounter {
  readonly #last: Map<string, number>;
  #before: LastAttempts;

  /** `before`: the last attempts of the runs before the first entry. */
  constructor(before: LastAttempts = new Map()) {
    this.#before = before;
    this.#last = new Map(before);
  }

  /** How many attempts of its call its run has made up to this entry, which follows those given before. */
  add(entry: RunEntry): number {
    if (entry.type === "status" && isTerminal(entry.to)) this.#before = this.last();
    const number =
      entry.type === "call"
        ? entry.attempts
        : entry.type === "attempt" || entry.type === "begun"
          ? entry.attempt
          : undefined;
    if (number === undefined) return 1;
    const key = keyOf(entry as CallEntry | AttemptEntry | BegunEntry);
    this.#last.set(key, number);
    return Math.max(1, number - (this.#before.get(key) ?? 0));
  }

  last(): LastAttempts {
    return new Map(this.#last);
  }
}

/** A call among those of its job. */
export function keyOf({
  case_id,
  position,
}: Pick<CallEntry | AttemptEntry | BegunEntry, "case_id" | "position">): string {
  return `${position}\n${case_id ?? ""}`;
}
