import type { AnswerEntry, AttemptEntry, BegunEntry, CallEntry } from "../../models/run-entry.ts";
import { CALL_MOVES, type CallMove, type CallState } from "./call-state.ts";
import type { RunEnd } from "./run-errors.ts";

export type CallKind = CallEntry["call"];

const WAITS: ReadonlySet<CallKind> = new Set<CallKind>(["ask", "sleep", "child", "event"]);

type ByState = Readonly<Record<CallState, boolean>>;

const NEITHER = {
  ...{ open: false, settled: false, skipped: false, loose: false },
  ...{ issued: false, asking: false, due: false, held: false, delivered: false },
} satisfies ByState;
const ISSUED: ByState = { ...NEITHER, issued: true, asking: true, due: true, held: true, delivered: true };
const SETTLED: ByState = {
  ...NEITHER,
  ...{ settled: true, skipped: true, loose: true },
  ...{ due: true, held: true, delivered: true },
};

/** What an entry of the log says of which call it belongs to. */
export interface CallNames {
  readonly name: string;
  readonly key?: string | undefined;
  readonly position: number;
}

/** Tries of a step so far. */
export interface Tries {
  /** Failed attempts since the step last started over: these count against its retries. */
  failed: number;
  /** The number of the last try that failed. */
  last: number;
  /** Line of the log that recorded it. */
  line: number;
  /** When the next one begins, where the pause before it was not over. */
  pauseUntil: string | undefined;
  /** How long that pause was when it began, in milliseconds. */
  pause: number;
  /** Ends of the process in that pause: these cut no try short. */
  paused: number;
}

/**
 * A call of a handler: what is recorded of it, and what becomes of it in the present run, which `CallState` describes.
 * There is one for each line of a long log when a run is replayed, so what most of them do not have is not set.
 */
export class Call {
  /** The case, or nothing for the job itself. */
  readonly caseId: string | undefined;
  readonly kind: CallKind;
  /** As it is recorded: without secrets. */
  name: string;
  key: string | undefined;
  /** Which of the calls of its scope, kind, and name or key it is, from 0. */
  n: number;
  position: number;

  /** How it ended, until the handler has taken that up. */
  entry: CallEntry | undefined = undefined;
  /** Line of the log that ended it, from 1. */
  line = 0;
  declare answer: AnswerEntry | undefined;
  declare begun: BegunEntry | undefined;
  /** Line of the log that began it, where it is a wait: other code may have been there at its end. */
  declare begunLine: number | undefined;
  declare tries: Tries | undefined;
  /** Whether the handler asks it under another name than the one that is recorded. */
  declare isRenamed: boolean | undefined;
  /** Why it is asked again, where its answer does not fit. */
  declare note: string | undefined;
  /** Whether a person continued the job without what was recorded there. */
  declare isLoose: boolean | undefined;
  /** Whether it failed, and is to be made again. */
  declare isForgotten: boolean | undefined;
  /** The line of the log up to which the handler had been given the ends of its calls when it first made this one. */
  made: number | undefined = undefined;
  /** How many calls of its kind and name it had made in the same turn before. */
  also = 0;
  /** Whether it first made the call outside of any turn: after waiting for something that is not recorded. */
  declare isOutside: boolean | undefined;
  /** Approximately when it first made the call, and when that process, or the job, had started. */
  begunAt = "";
  processBegunAt = "";
  /** Whether version 0.1.0 recorded it, which did not tell whether it was made outside of any turn. */
  declare isOld: boolean | undefined;

  /** The limit that is reached by what it has stored, until the job's end is stored. */
  declare ends: RunEnd | undefined;

  /** Changed by `move` alone. */
  readonly state: CallState = "open";
  /** The line up to which the log had been given back when the handler issued the call in this run. */
  issuedAt = 0;
  /** Whether the handler issued it outside of any turn of this run. */
  isIssuedOutside = false;
  /** The segment of this run in which, or in a turn after which, the handler issued it. */
  segment = 0;
  /** The calls of its kind and name, of which it is one. */
  same: SameCalls | undefined = undefined;
  /** In which turn of this process it was delivered. */
  turn = 0;
  #value: unknown = undefined;
  #promise: Promise<unknown> | undefined = undefined;
  #resolve: ((value: unknown) => void) | undefined = undefined;
  #reject: ((error: Error) => void) | undefined = undefined;

  constructor(caseId: string | undefined, kind: CallKind, { name, key, position }: CallNames, n: number) {
    this.caseId = caseId;
    this.kind = kind;
    this.name = name;
    this.key = key;
    this.n = n;
    this.position = position;
  }

  /** Whether the handler has issued it in this run. */
  get isIssued(): boolean {
    return ISSUED[this.state];
  }

  /** Whether its end is stored. */
  get isSettled(): boolean {
    return SETTLED[this.state];
  }

  /** Moves the call to another state; throws where the table has no such move. */
  move(move: CallMove): void {
    const to = CALL_MOVES[this.state][move];
    if (to === undefined) throw new Error(`${this.label} is ${this.state}: it cannot ${move}`);
    (this as { state: CallState }).state = to;
  }

  /** The handler makes the call, after `also` others of its kind and name in the same turn. */
  issue(line: number, also: number): void {
    this.move("issue");
    this.issuedAt = line;
    if (this.made !== undefined || this.isOld) return;
    this.made = line;
    this.also = also;
    if (this.isIssuedOutside) this.isOutside = true;
  }

  /** Whether the handler first made it in a turn: it makes it in the same one again, or not in that place. */
  get wasInTurn(): boolean {
    return !this.isOutside && !this.isOld;
  }

  /** Milliseconds that the process had run when the handler first made the call. */
  get delay(): number {
    return Math.max(0, Date.parse(this.begunAt) - Date.parse(this.processBegunAt)) || 0;
  }

  /** Whether anything was recorded of it before it ended. */
  get hasTrace(): boolean {
    return this.begun !== undefined || this.tries !== undefined || this.isForgotten === true;
  }

  /** What each of its entries says of which call it is. */
  get fields(): Pick<
    AttemptEntry,
    "case_id" | "position" | "name" | "key" | "n" | "made" | "also" | "outside"
  > {
    return {
      case_id: this.caseId,
      position: this.position,
      name: this.name,
      key: this.key,
      n: this.n,
      made: this.made,
      also: this.also > 0 ? this.also : undefined,
      outside: this.isOutside === true ? true : undefined,
    };
  }

  /** Whether it only waits for something that is stored: the record may continue without its end. */
  get onlyWaits(): boolean {
    return WAITS.has(this.kind);
  }

  /** For people. */
  get label(): string {
    const scope = this.caseId === undefined ? "" : ` of case "${this.caseId}"`;
    const which = this.n > 0 ? ` (number ${this.n + 1} of that name)` : "";
    return `${this.kind} "${this.key ?? this.name}"${scope}${which}`;
  }

  /** How it ended, where that is recorded; the record is kept no longer. */
  takeEntry(): CallEntry | undefined {
    const { entry } = this;
    this.entry = undefined;
    return entry;
  }

  /** Resolves with `value` when its end is delivered, which must not have happened. */
  wait<T>(value: T): Promise<T> {
    this.#value = value;
    const promise = new Promise<unknown>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#promise = promise;
    return promise as Promise<T>;
  }

  /** Gives its end to the handler, in one of the turns of this process. */
  deliver(turn: number): void {
    this.move("deliver");
    this.turn = turn;
    this.same!.delivered(this);
    this.#resolve?.(this.#value);
    this.#value = undefined;
  }

  /** The run ends before it is delivered. */
  refuse(error: Error): void {
    // The handler may have left it behind.
    this.#promise?.catch(() => {});
    this.#reject?.(error);
  }
}

/** Where in a run the handler makes a call. */
export interface CallPlace {
  readonly turn: number | undefined;
  readonly isOutside: boolean;
  readonly segment: number;
}

/** The calls of one kind and name in a scope. */
export class SameCalls {
  /** By their numbers; there may be gaps. */
  readonly #calls: (Call | undefined)[] = [];
  /** How many the handler has made in this run. */
  made = 0;
  /** How many of these were not delivered. */
  #open = 0;
  /** How many of these were made outside of any turn. */
  #openOutside = 0;
  /** The segment in which these were made; nothing where there are several. */
  #outsideIn: number | undefined;
  /** The last turn in which one was made, and how many were made in it. */
  #lastMade = 0;
  #inLast = 0;
  /** The last turn in which one was delivered that was made outside of any turn. */
  #lastDelivered = 0;

  /** Call number `n`, where it is known. */
  at(n: number): Call | undefined {
    // To look behind the end of an array is slow.
    return n < this.#calls.length ? this.#calls[n] : undefined;
  }

  /** The number after the last one that is known. */
  get next(): number {
    return this.#calls.length;
  }

  set(n: number, call: Call | undefined): void {
    this.#calls[n] = call;
  }

  /**
   * Whether the order of the next call and of those before it follows from turns alone, so that it is the same in each
   * run. `turn` is the turn in which it is made; outside of any turn, the last one that it follows from, as far as that
   * is known. Calls of one segment, and what follows from one of them, come after those before them in each run, too.
   */
  isInOrder({ turn, isOutside, segment }: CallPlace): boolean {
    const followsFromThem = this.#openOutside > 0 && this.#outsideIn === segment;
    if (!isOutside) return this.#openOutside === 0 || followsFromThem;
    if (followsFromThem && this.#open === this.#openOutside) return true;
    return this.#open === 0 && (turn === undefined || turn >= Math.max(this.#lastMade, this.#lastDelivered));
  }

  /** The next call was made; tells how many were made before it in the same turn. */
  add({ isIssuedOutside, segment }: Call, turn: number | undefined): number {
    this.#open++;
    if (isIssuedOutside) {
      const isFirst = this.#openOutside === 0;
      this.#outsideIn = isFirst || this.#outsideIn === segment ? segment : undefined;
      this.#openOutside++;
      return 0;
    }
    this.#inLast = turn === this.#lastMade ? this.#inLast + 1 : 0;
    this.#lastMade = turn!;
    return this.#inLast;
  }

  /** A call was given to the handler. */
  delivered({ isIssuedOutside, turn }: Call): void {
    this.#open--;
    if (!isIssuedOutside) return;
    this.#openOutside--;
    this.#lastDelivered = turn;
  }
}

/**
 * A call that the handler may leave behind without waiting for it. When the run ends it rejects, and a rejection that
 * nobody takes would end the process, and all other jobs with it. What became of the call is in the record.
 */
export function mayBeLeft<T>(call: Promise<T>): Promise<T> {
  call.catch(() => {});
  return call;
}
