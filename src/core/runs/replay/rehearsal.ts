import type { Call } from "./call.ts";
import type { Outcome } from "./outcome.ts";
import type { ReplayGate } from "./replay-gate.ts";
import type { RunClock } from "./run-clock.ts";
import type { RunEnd } from "./run-errors.ts";
import { refused } from "./run-ledger.ts";
import type { RunLife } from "./run-life.ts";

/**
 * The result of a rehearsal: why the run would not continue; `undefined` if it would, `"unsure"` if that is
 * not known.
 */
export interface Rehearsed {
  readonly end: RunEnd | "unsure" | undefined;
  /** Lines of calls that the handler does not make. */
  readonly notMade: readonly number[];
  /** Recorded calls that it continues without. */
  readonly skipped: readonly Call[];
  /** The first recorded call that it did not make in time, where that leaves the end unsure. */
  readonly missing: Call | undefined;
  /** Why the handler failed before it had made all recorded calls; absent if it did not. */
  readonly failed?: string;
  /** What the handler has returned; absent if it has not. */
  readonly returned?: { readonly value: unknown };
  /** Calls that it waits for, of which no end is recorded. */
  readonly next: readonly Call[];
  /** Line of the log up to which it was given the ends of its calls. */
  readonly line: number;
}

/** What a rehearsal needs of the run that it is. */
interface RehearsedRun {
  readonly life: RunLife;
  readonly clock: RunClock;
  readonly gate: ReplayGate;
  /** Why the run ends, other than by the result of its handler, which has not made the call that is `expected`. */
  endOf(outcome: Outcome, expected: Call | undefined): RunEnd | undefined;
  describe(error: unknown): string;
  abandon(end: RunEnd): void;
  /** The run is over. */
  leave(): void;
}

/** Gives the record to a handler without doing anything: nothing is run that is not recorded, nothing is stored. */
export class Rehearsal {
  readonly #run: RehearsedRun;
  /** Calls that the handler has made and that are not recorded. */
  readonly #neverBegun = new Set<Call>();
  readonly #judged: Promise<Outcome>;
  /** Called once it is known whether the handler fits the record. */
  judged: () => void = () => {};

  constructor(run: RehearsedRun) {
    this.#run = run;
    this.#judged = new Promise((resolve) => {
      this.judged = () => resolve({ kind: "left" });
    });
  }

  /**
   * Takes at most so many milliseconds, and as long as `answers` does, which resolves once the process of the handler has
   * answered or ended.
   */
  async run(
    settled: Promise<Outcome>,
    milliseconds: number,
    answers?: () => Promise<void>,
  ): Promise<Rehearsed> {
    const run = this.#run;
    let isLate = false;
    if (Number.isFinite(milliseconds))
      run.clock.after(milliseconds, () => {
        isLate = true;
        this.judged();
      });
    const outcome = await Promise.race([this.#judged, settled]);
    if (outcome.kind === "left" && !run.life.end) await answers?.();
    const { line } = run.gate.turns;
    const next = [...this.#neverBegun].filter(({ isSettled }) => !isSettled);
    const { ahead, skipped } = run.gate.notIssued();
    const missing = ahead[0] ?? (isLate ? run.gate.notIssuedOpen()[0] : undefined);
    const end =
      run.endOf(outcome, ahead[0]) ?? (outcome.kind === "left" ? missing && "unsure" : failure(outcome));
    run.abandon({ to: "cancelled", reason: "stopped", message: "The rehearsal is over" });
    run.leave();
    return {
      ...{ end, next, line, notMade: [...skipped, ...ahead].map((call) => call.line) },
      ...{ skipped, missing: end === "unsure" ? missing : undefined },
      ...(outcome.kind === "threw" && ahead.length > 0 && { failed: run.describe(outcome.error) }),
      ...(outcome.kind === "returned" && { returned: { value: outcome.value } }),
    };
  }

  /** No call begins: each waits until the rehearsal is over. */
  never(call: Call): Promise<void> {
    const { gate, life } = this.#run;
    this.#neverBegun.add(call);
    const pending = gate.live(call) ?? Promise.resolve();
    return pending.then(() => life.orEnd(() => new Promise<void>(() => {})));
  }
}

/** How a job would end that the handler ends in a rehearsal. */
function failure(outcome: Outcome): RunEnd | undefined {
  return outcome.kind === "threw" ? refused(outcome.error) : undefined;
}
