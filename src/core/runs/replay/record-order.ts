import type { Call } from "./call.ts";
import type { RunRecord } from "./run-record.ts";

/** In which order the handler made the recorded calls. */
export class RecordOrder {
  /** Questions and sleeps that were started, and whose end is not recorded. */
  readonly open: readonly Call[];
  /** Whether the handler has made calls beside each other. */
  readonly areBeside: boolean;
  readonly #ended: readonly Call[];
  /** Recorded calls that have not ended: the open ones, and steps that were tried. */
  readonly #begun: readonly Call[];
  /** Recorded calls in the order in which they were first made; empty where each was made after the end of the last. */
  readonly #firstMade: readonly Call[];
  #next = 0;

  constructor(record: RunRecord) {
    this.#ended = record.ended;
    this.open = record.open();
    this.#begun = record.begun();
    this.areBeside = areBeside(this.#ended, this.#begun);
    this.#firstMade = this.areBeside
      ? [...this.#ended, ...this.#begun]
          .filter(({ made }) => made !== undefined)
          .sort((a, b) => a.made! - b.made!)
      : [];
  }

  /** Whether there is a recorded call that has not ended, and that the handler has not issued. */
  get hasOpen(): boolean {
    for (const { state } of this.#begun) if (state === "open") return true;
    return false;
  }

  /** Recorded calls that have not ended, and that the handler has not issued. */
  notIssued(): Call[] {
    return this.#begun.filter(({ state }) => state === "open");
  }

  /**
   * A call that the handler had made before it was given the end of this one, and has not made again: it waits for
   * something of its own that took less time then. Were it given this one first, it could go another way. `isMissing`
   * says that it no longer comes.
   */
  before(
    { line }: Call,
    mayStillCome: (call: Call) => boolean,
  ): { readonly call: Call; readonly isMissing: boolean } | undefined {
    for (; this.#next < this.#firstMade.length; this.#next++) {
      const call = this.#firstMade[this.#next]!;
      if (call.made! >= line) break;
      if (!call.isIssued && mayStillCome(call)) return { call, isMissing: false };
    }
    // The next call is identified by its number among those of its name: all earlier ones must exist.
    for (let at = this.#next; this.#firstMade[at]?.made === line; at++) {
      const call = this.#firstMade[at]!;
      if (call.kind === "read" || call.isOutside || call.same!.made >= call.n - call.also) continue;
      return { call, isMissing: !mayStillCome(call) };
    }
    return undefined;
  }

  /**
   * Whether a new call comes after a wait that ended behind a skipped call, so that it is not that one under another
   * name: while the handler waited, it was known to continue without it. An answer that a person gives meanwhile must
   * not be what the job is held for.
   */
  isBehind(found: Call, skipped: Call): boolean {
    const isBetween = ({ onlyWaits, state, line }: Call) =>
      onlyWaits && state === "delivered" && line > skipped.line && line <= found.issuedAt;
    return skipped.wasInTurn && (this.#ended.some(isBetween) || this.open.some(isBetween));
  }
}

/** Whether a call was made before the end of another one was given to the handler. */
function areBeside(ended: readonly Call[], begun: readonly Call[]): boolean {
  let line = 0;
  for (const call of ended) {
    if (call.isOld || (call.made !== undefined && call.made < line)) return true;
    line = call.line;
  }
  return begun.some(({ made, isOld }) => isOld || (made !== undefined && made < line));
}
