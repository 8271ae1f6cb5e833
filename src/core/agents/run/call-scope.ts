import type { CallEntry } from "../../models/run-entry.ts";
import type { Run } from "./run.ts";
import { NondeterminismError } from "./run-errors.ts";
import type { ScopeRecord } from "./run-record.ts";

/** A call's place in its scope, and what is recorded there. */
export interface Call {
  readonly position: number;
  readonly recorded: CallEntry | undefined;
}

/** Counts the calls of a job, or of one of its cases, and finds what is recorded of each. */
export class CallScope {
  readonly run: Run;
  readonly caseId: string | undefined;
  readonly record: ScopeRecord;
  readonly #label: string;
  #next = 0;

  constructor(run: Run, caseId?: string) {
    this.run = run;
    this.caseId = caseId;
    this.record = run.parts.record.scope(caseId);
    this.#label = caseId === undefined ? "of the job" : `of case "${caseId}"`;
  }

  /** The next call. Ends the job where the record has another call in its place. */
  take(call: CallEntry["call"], name: string): Call {
    this.refuseInside(call, name);
    const position = this.#next++;
    const recorded = this.record.calls.get(position);
    const asked = this.record.asked.get(position);
    if (recorded && (recorded.call !== call || !this.#isNamed(recorded.name, name))) {
      throw this.#mismatch(position, `${recorded.call} "${recorded.name}"`, `${call} "${name}"`);
    }
    if (asked !== undefined && (call !== "ask" || !this.#isNamed(asked, name))) {
      throw this.#mismatch(position, `ask "${asked}"`, `${call} "${name}"`);
    }
    this.record.calls.delete(position);
    return { position, recorded };
  }

  /** Ends the job where a call is made inside a step's function: once the step is recorded, it would be missing. */
  refuseInside(call: CallEntry["call"], name: string): void {
    const outer = this.run.enclosing;
    if (!outer) return;
    const message = `${call} "${name}" ${this.#label} is called inside step "${outer.name}": when that is answered from the record its function is not called, and the call would be missing. Make it before or after the step`;
    this.run.end({ to: "failed", reason: "nondeterministic", message });
    throw new NondeterminismError(message);
  }

  /** The number that the next try of a call has. */
  nextAttempt(position: number): number {
    const { failed = 0, earlier = 0 } = this.record.tries.get(position) ?? {};
    return 1 + failed + earlier + this.record.interruptions;
  }

  /** The same for every try of a call. */
  idempotencyKey(position: number): string {
    const { jobId, parts } = this.run;
    const again = parts.record.generation > 0 ? `~${parts.record.generation}` : "";
    return `${jobId}${again}/${this.caseId ?? ""}/${position}`;
  }

  /** Fields that every entry of this scope has. */
  get at(): { case_id?: string } {
    return this.caseId === undefined ? {} : { case_id: this.caseId };
  }

  /** A secret in a name was taken out of the record. */
  #isNamed(recorded: string, name: string): boolean {
    return recorded === name || recorded === this.run.parts.redact(name);
  }

  #mismatch(position: number, expected: string, found: string): NondeterminismError {
    const message = `Call ${position} ${this.#label} was ${expected} when it was recorded, and now is ${found}: the handler must make the same calls in the same order, and none inside a step's function. Retry the job from the start, or bring the former code back`;
    this.run.end({ to: "failed", reason: "nondeterministic", message });
    return new NondeterminismError(message);
  }
}
