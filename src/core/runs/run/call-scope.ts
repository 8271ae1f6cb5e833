import { createHash } from "node:crypto";
import type { Call, CallKind } from "./call.ts";
import type { Run } from "./run.ts";
import { NondeterminismError } from "./run-errors.ts";
import type { SameCalls, ScopeRecord } from "./scope-record.ts";

/** A longer name is not part of an idempotency key; its hash is. */
const LONGEST_NAME = 100;

const LONE_SURROGATE = /\p{Surrogate}/u;

/** Finds for each call of a job, or of one of its cases, what is recorded of it. */
export class CallScope {
  readonly run: Run;
  readonly caseId: string | undefined;
  readonly #record: ScopeRecord;
  readonly #label: string;

  constructor(run: Run, caseId?: string) {
    this.run = run;
    this.caseId = caseId;
    this.#record = run.parts.record.scope(caseId);
    this.#label = caseId === undefined ? "of the job" : `of case "${caseId}"`;
  }

  /** The handler makes a call. Ends the job where it cannot be told which call that is when it is made again. */
  take(kind: CallKind, given: string, givenKey?: string): Call {
    this.refuseInside(kind, given);
    const { run } = this;
    // As in the record.
    const name = run.parts.redact(given);
    const key = givenKey === undefined ? undefined : run.parts.redact(givenKey);
    const same = this.#record.same(kind, name, key);
    const { isInTurn } = run.deliveries;
    if (!isInTurn) this.#refuseAmbiguous(same, kind, key ?? name);
    const n = same.made++;
    same.open++;
    const call = same.calls[n] ?? this.#record.begin(kind, name, key, n);
    if (!isInTurn && !call.isDue && !call.hasTrace) call.isOutside = true;
    call.same = same;
    run.deliveries.made(call);
    return call;
  }

  /** Ends the job where a call is made inside a step's function: once the step is recorded, it would be missing. */
  refuseInside(kind: CallKind, name: string): void {
    const outer = this.run.enclosing;
    if (!outer) return;
    throw this.#refuse(
      `${kind} "${name}" ${this.#label} is called inside step "${outer.name}": when that is answered from the record its function is not called, and the call would be missing. Make it before or after the step`,
    );
  }

  /**
   * Two calls of one name are told apart by their order. Where the second follows something that is not recorded while
   * the first is under way, chance decides which comes first.
   */
  #refuseAmbiguous({ open }: SameCalls, kind: CallKind, name: string): void {
    if (open === 0) return;
    throw this.#refuse(
      `${kind} "${name}" ${this.#label} is made beside another of that name, after waiting for something that is not recorded: after a restart one could be given the other's result. Give each a name or a "key" of its own, work on a case for each, or move what it waits for into a step`,
    );
  }

  #refuse(message: string): NondeterminismError {
    this.run.end({ to: "failed", reason: "nondeterministic", message });
    return new NondeterminismError(message);
  }

  /** The number that the next try of a call has. */
  nextAttempt(call: Call): number {
    return 1 + (call.tries?.last ?? 0) + this.run.parts.record.cutShort(call);
  }

  /** The same for every try of a call. */
  idempotencyKey(call: Call): string {
    const { jobId, parts } = this.run;
    const again = parts.record.generation > 0 ? `~${parts.record.generation}` : "";
    // Steps that were under way under version 0.1.0 have its keys.
    const which = parts.record.isOld ? call.position : identify(call);
    return `${jobId}${again}/${this.caseId ?? ""}/${which}`;
  }
}

function identify({ name, key, n }: Call): string {
  return `${key === undefined ? "" : "="}${toAscii(key ?? name)}/${n}`;
}

function toAscii(name: string): string {
  const text = LONE_SURROGATE.test(name) ? "" : encodeURIComponent(name);
  const isFit = text !== "" && text.length <= LONGEST_NAME;
  return isFit ? text : `*${createHash("sha256").update(name).digest("base64url")}`;
}
