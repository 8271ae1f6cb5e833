import { createHash } from "node:crypto";
import { isOwnPlace, placesIn } from "../../base/stack-places.ts";
import type { Call, CallKind, CallPlace, SameCalls } from "./call.ts";
import type { HandlerTurns } from "./handler-turns.ts";
import type { ReplayGate } from "./replay-gate.ts";
import type { Run } from "./run.ts";
import { NondeterminismError } from "./run-errors.ts";
import type { ScopeRecord } from "./scope-record.ts";

/** A longer name is not part of an idempotency key; its hash is. */
const LONGEST_NAME = 100;

/** Names that are an address as they are, and that need not be shortened: most of them. */
const PLAIN = /^[\w.~!*'()-]{1,100}$/;
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
    this.#record = run.record.scope(caseId);
    this.#label = caseId === undefined ? "of the job" : `of case "${caseId}"`;
  }

  /** The handler makes a call. Ends the job if the call could not be identified on replay. */
  take(kind: CallKind, given: string, givenKey?: string): Call {
    this.refuseInside(kind, given);
    const { run } = this;
    // As in the record.
    const name = run.parts.redact(given);
    const key = givenKey === undefined ? undefined : run.parts.redact(givenKey);
    const same = this.#record.same(kind, name, key);
    const at = placeIn(run.gate.turns);
    const n = same.made;
    // What is recorded is made again in the order in which it was recorded, wherever it is made now.
    const mayBeAnother = n > 0 && !same.at(n) && !same.isInOrder(at);
    if (mayBeAnother) throw this.#refuse(ambiguous(kind, key ?? name, this.#label));
    return issue(run.gate, this.#record.next(kind, { name, key }, n), same, at);
  }

  /**
   * The handler reads the job, or the case, outside of steps. Gives nothing where a run of an earlier version did so, which
   * has not recorded it. Ends the job if the read could not be identified on replay.
   */
  takeRead(): Call | undefined {
    const { run } = this;
    const { gate, record } = run;
    const name = this.caseId === undefined ? "job" : "case";
    const { nextLine, turns } = gate;
    const isOutside = !turns.isInTurn;
    const known = this.#record.recordedRead(turns.line, nextLine ?? Number.POSITIVE_INFINITY, isOutside);
    if (!known && nextLine !== undefined && !record.recordsReads(nextLine)) return undefined;
    // What it waited for outside of any turn may take longer than it did then.
    if (this.mayBeUnplaced || (isOutside && this.#record.hasUnplacedRead))
      throw this.#refuse(unplaced(this.#label));
    const same = this.#record.same("read", name, undefined);
    const at = placeIn(turns);
    if (!known && same.made > 0 && !same.isInOrder(at))
      throw this.#refuse(ambiguous("read", name, this.#label));
    return issue(gate, known ?? this.#record.newRead(name), same, at);
  }

  /** Whether a read here may be one of which it was not known whether it was made in a step's function. */
  get mayBeUnplaced(): boolean {
    return this.#record.unplacedRead >= this.run.gate.turns.line;
  }

  /** The same where that was in this run: in a later one, the read would have to give what it gave then. */
  get isUnplaced(): boolean {
    return this.mayBeUnplaced && !this.#record.hasUnplacedRead;
  }

  /** That is not known of a read which the handler makes now. */
  noteUnplaced(line: number): void {
    this.#record.unplacedRead = Math.max(this.#record.unplacedRead, line);
  }

  /** A question whose answer is taken back: it is asked again. */
  askAgain(call: Call): void {
    this.#record.askAgain(call);
  }

  /** Ends the job where a call is made inside a step's function: once the step is recorded, it would be missing. */
  refuseInside(kind: CallKind, name: string): void {
    const outer = this.run.activity.enclosing;
    if (!outer) return;
    throw this.#refuse(
      `${kind} "${name}" ${this.#label} is called inside step "${outer.name}": when that step is replayed, its function is not called, and the call would be missing. Make the call before or after the step`,
    );
  }

  #refuse(problem: string): NondeterminismError {
    // An isolated agent makes the call in its own process.
    const place = placesIn(new Error().stack ?? "").find((one) => !isOwnPlace(one));
    const message = place === undefined ? problem : `${problem}. The call is at ${place}`;
    this.run.end({ to: "failed", reason: "nondeterministic", message });
    return new NondeterminismError(message);
  }

  /** The number that the next try of a call has. */
  nextAttempt(call: Call): number {
    return 1 + (call.tries?.last ?? 0) + this.run.record.cutShort(call);
  }

  /** The same for every try of a call. */
  idempotencyKey(call: Call): string {
    const { jobId, record } = this.run;
    const again = record.generation > 0 ? `~${record.generation}` : "";
    // Steps that were under way under version 0.1.0 have its keys.
    const which = record.isOld ? call.position : identify(call);
    return `${jobId}${again}/${this.caseId ?? ""}/${which}`;
  }
}

/** Where the handler makes a call now. */
function placeIn(turns: HandlerTurns): CallPlace {
  const isOutside = !turns.isInTurn;
  return { isOutside, turn: isOutside ? turns.cause() : turns.number, segment: turns.segment };
}

/** The handler makes a call, the next one of its kind and name. */
function issue(gate: ReplayGate, call: Call, same: SameCalls, at: CallPlace): Call {
  same.made++;
  call.same = same;
  call.isIssuedOutside = at.isOutside;
  call.segment = at.segment;
  gate.issue(call, same.add(call, at.turn));
  return call;
}

/** Calls with the same name are distinguished by their order, and here the order is random. */
function ambiguous(kind: CallKind, name: string, scope: string): string {
  return `${kind} "${name}" ${scope} is made again, after waiting for something that is not recorded, and concurrently with another call of that name or out of order with it: after a restart one could receive the other's result. Give each its own name or "key", use a case for each, or move the awaited work into a step`;
}

function unplaced(scope: string): string {
  return `a read ${scope} was made while a step was under way, and it was not known whether the step's function made it: now the handler makes one outside of steps that may be that one, and could be given something else. Retry the job from the start`;
}

function identify({ name, key, n }: Call): string {
  return `${key === undefined ? "" : "="}${toAscii(key ?? name)}/${n}`;
}

function toAscii(name: string): string {
  if (PLAIN.test(name)) return name;
  const text = LONE_SURROGATE.test(name) ? "" : encodeURIComponent(name);
  const isFit = text !== "" && text.length <= LONGEST_NAME;
  return isFit ? text : `*${createHash("sha256").update(name).digest("base64url")}`;
}
