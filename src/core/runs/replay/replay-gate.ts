import { busyLoop } from "../../base/busy-loop.ts";
import type { Logger } from "../../base/log.ts";
import type { Call } from "./call.ts";
import { causes } from "./causes.ts";
import { HandlerTurns } from "./handler-turns.ts";
import { Patience } from "./patience.ts";
import { PendingCalls } from "./pending-calls.ts";
import { RecordOrder } from "./record-order.ts";
import type { RunRecord } from "./run-record.ts";

const SETTLED = Promise.resolve();

/** What its gate needs of a run. */
interface ReplayedRun {
  readonly record: RunRecord;
  readonly log: Logger;
  readonly parts: {
    /** Whether it is watched from the beginning what the handler's calls follow from. */
    readonly isStrict?: boolean | undefined;
    /** Most milliseconds that a recorded call is waited for. @default as long as it may take */
    readonly patience?: number | undefined;
  };
  readonly activity: { restIfIdle(): void };
  /** All that is recorded was given back, and the handler waits for something that is not. */
  replayed(): void;
  /** The handler makes `found` where the record has `expected`, or does not make what was made before that. */
  mismatched(expected: Call, found: Call | undefined): void;
}

/**
 * Gives the ends of a run's calls to its handler: in the order in which they were stored, one in each turn, both when
 * they come from the record and when they happen. So whatever the handler does in its turns, it does again in the same
 * order in replay.
 *
 * A call of which no end is recorded begins after all that are recorded were given back.
 */
export class ReplayGate {
  readonly turns: HandlerTurns;
  readonly #run: ReplayedRun;
  /** Absent where nothing was read: of a new job, nothing is recorded. */
  readonly #order: RecordOrder | undefined;
  /** Whether the handler makes calls beside each other, so that it may be on its way to one while it waits for another. */
  #isConcurrent: boolean;
  /** Absent where no call had to wait for the record. */
  #pending: PendingCalls | undefined;
  /** Absent where the handler makes its calls one after the other: then it is on its way to none. */
  #patience: Patience | undefined;
  /** Calls whose end is stored and was not delivered, in the order of the log. */
  readonly #stored: (Call | undefined)[];
  #head = 0;
  /** Due calls that are given as soon as possible: the handler had continued without them. */
  readonly #unordered: Call[] = [];
  readonly #skipped = new Set<Call>();
  /** How many calls are due or held. */
  #due = 0;
  /** How many calls are issued and not delivered. */
  #open = 0;
  #isLive: boolean;
  #isSilent: boolean;
  #isClosed = false;
  /** Whether the next end is delivered only after a turn of the event loop. */
  #isPausing = false;
  #refused: (() => Error) | undefined;

  constructor(run: ReplayedRun) {
    const { record, parts } = run;
    this.#run = run;
    this.#stored = [...record.ended];
    this.#order = record.isRead ? new RecordOrder(record) : undefined;
    this.#isConcurrent = this.#order?.areBeside === true;
    this.#isLive = record.ended.length === 0 && !this.#order?.open.length;
    this.#isSilent = !this.#isLive;
    this.turns = new HandlerTurns(this, parts.isStrict ?? false);
  }

  /** How many calls the handler waits for, where it has done all that follows from the last delivery. */
  get open(): number | undefined {
    return this.turns.isBusy || this.#isPausing ? undefined : this.#open;
  }

  /** Whether nothing was done yet but to answer from the record. */
  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** Whether calls of which no end is recorded may begin. */
  get isLive(): boolean {
    return this.#isLive && !this.#isClosed;
  }

  /** Whether the handler has made all calls that are recorded. */
  get isBehindRecord(): boolean {
    for (const { kind } of this.#skipped) if (kind !== "read") return false;
    if (this.#order?.hasOpen) return false;
    // Mostly the last one decides.
    if (this.#stored.length > this.#head && this.#stored.at(-1)?.state === "settled") return false;
    for (let at = this.#head; at < this.#stored.length; at++)
      if (this.#stored[at]?.state === "settled") return false;
    return true;
  }

  /** The line of the end that the handler is given next; nothing where all that are stored were given to it. */
  get nextLine(): number | undefined {
    return this.#stored[this.#head]?.line;
  }

  /** Begins the handler's first turn. */
  begin(): void {
    causes.enter(this.turns.begin());
  }

  /** The handler issues a call, after `also` others of its kind and name in the same turn. */
  issue(call: Call, also: number): void {
    const { line } = this.turns;
    const isUnordered = call.state === "skipped" || call.state === "loose";
    call.issue(line, also);
    if (++this.#open > 1) this.#isConcurrent = true;
    if (!call.isSettled) return;
    this.#due++;
    if (isUnordered) {
      this.#skipped.delete(call);
      this.#unordered.push(call);
    }
    if (this.#isNextAlone()) void SETTLED.then(this.#deliverInTurn);
    else this.turns.endSoon();
  }

  /** Waits until a call of which no end is recorded may begin. */
  live(call: Call): Promise<void> | undefined {
    if (this.#isLive || this.#pending?.isAhead(call)) {
      this.#isSilent = false;
      return undefined;
    }
    this.#pending ??= new PendingCalls();
    const begun = this.#pending.wait(call);
    this.turns.endSoon();
    return begun;
  }

  /** The end of a call is stored, at a line of the log; the first one counts. */
  settle(call: Call, line: number): void {
    if (call.isSettled) return;
    call.move("settle");
    call.line = line;
    this.#pending?.ended(call);
    this.#stored.push(call);
    if (call.isIssued) this.#due++;
    this.#deliverNext();
  }

  /** The end that is stored of a call is none any longer. */
  reopen(call: Call): void {
    if (!call.isSettled) return;
    call.move("reopen");
    call.line = 0;
    if (call.isIssued) this.#due--;
    for (const list of [this.#stored, this.#unordered]) {
      const at = list.indexOf(call);
      if (at >= 0) list.splice(at, 1);
    }
  }

  /** The end of a call is checked: the handler may get it. */
  release(call: Call): void {
    if (call.state === "asking" || call.state === "held") call.move("release");
    this.#deliverNext();
  }

  /**
   * Resolves with `value` when the end of a call is given to the handler, which has happened where there is nothing to
   * wait for.
   */
  delivered<T>(call: Call, value: T): Promise<T> | undefined {
    if (call.state === "delivered") {
      causes.enter(call.turn);
      return undefined;
    }
    if (this.#refused) return Promise.reject(this.#refused());
    return call.wait(value);
  }

  /** The handler has ended: what it left behind is given nothing more. */
  stop(): void {
    this.#isClosed = true;
    this.#patience?.cancel();
    this.turns.stop();
  }

  /** The run ends: nothing more is delivered, and what waits rejects with what `why` gives. */
  refuse(why: () => Error): void {
    if (!this.#isClosed) this.stop();
    this.#refused = why;
    for (const call of [...this.#stored.slice(this.#head), ...this.#unordered]) call?.refuse(why());
    // They find that the run has ended.
    this.#pending?.beginAll();
  }

  /** Recorded calls that have not ended, and that the handler has not issued. */
  notIssuedOpen(): Call[] {
    return this.#order?.notIssued() ?? [];
  }

  /** Calls whose end is recorded, and that the handler has not issued, in the order of the log. It may continue without reads. */
  notIssued(): { readonly skipped: readonly Call[]; readonly ahead: readonly Call[] } {
    const left = this.#stored.slice(this.#head).filter((call): call is Call => call?.state === "settled");
    const ahead = left.filter(({ kind }) => kind !== "read");
    const reads = left.filter(({ kind }) => kind === "read");
    return { skipped: [...this.#skipped, ...reads], ahead };
  }

  /**
   * Whether the handler makes one call after the other, as it did when they were recorded, and waits for the next one
   * alone: then its end can be delivered without waiting for the turn to end. The last one always ends a turn: beside
   * it, the handler may be on its way to a call of which nothing is recorded.
   */
  #isNextAlone(): boolean {
    if (this.#stored[this.#head]?.state !== "due" || this.#head + 1 >= this.#stored.length) return false;
    if (this.#isClosed || this.#isConcurrent || this.#open > 1) return false;
    return this.#unordered.length === 0 && this.turns.mayFollow;
  }

  readonly #deliverInTurn = (): void => {
    // The handler may have made another call since, without waiting for this one.
    if (!this.#isNextAlone()) {
      this.turns.endSoon();
      return;
    }
    this.turns.follow();
    this.#deliver(this.#shift());
  };

  /** The handler has done all that follows from the last end that it was given. */
  turnEnded(): void {
    this.#deliverNext(true);
    if (!this.turns.isInTurn && !this.#isPausing) this.#run.activity.restIfIdle();
  }

  /** Delivers the next end, if it is time for it; what the handler has not issued is judged where it is `quiet`. */
  #deliverNext(quiet = false): void {
    while (!this.turns.isInTurn && !this.#isClosed && !this.#mustPause()) {
      const call = this.#stored[this.#head];
      const unordered = this.#unordered[0];
      if (unordered) {
        if (unordered.state === "held") return;
        this.#unordered.shift();
        this.#deliver(unordered);
      } else if (call?.isIssued) {
        if (call.state === "held" || (this.#isConcurrent && this.#comesLater(call))) return;
        this.#deliver(this.#shift());
      } else if (!quiet) {
        this.turns.endSoon();
        return;
      } else if (call && this.#maySkip(call)) {
        this.#shift().move("skip");
        this.#skipped.add(call);
      } else {
        if (call) return;
        this.#goLive();
        if (!this.#pending?.areWaiting && (this.#isLive || this.#pending?.areAhead)) this.#run.replayed();
        return;
      }
    }
  }

  /** The call whose end is next in the log; nothing is kept of it there. */
  #shift(): Call {
    const call = this.#stored[this.#head]!;
    this.#stored[this.#head++] = undefined;
    return call;
  }

  /**
   * Whether the next end has to wait for a turn of the event loop: where the store answers from memory, or from a fast
   * disk, thousands of steps would follow each other without one, and no request would be received.
   */
  #mustPause(): boolean {
    if (this.#isPausing) return true;
    const isNext = this.#unordered.length > 0 || this.#stored[this.#head]?.isIssued === true;
    if (!isNext || !busyLoop.keepsOthersWaiting) return false;
    this.#isPausing = true;
    setImmediate(() => {
      this.#isPausing = false;
      if (!this.#isClosed) this.turns.endSoon();
    });
    return true;
  }

  #deliver(call: Call): void {
    this.#due--;
    this.#open--;
    this.#patience?.cancel();
    const turn = this.turns.begin(call.line, call.segment);
    if (causes.isWatching) causes.during(turn, () => call.deliver(turn));
    else call.deliver(turn);
  }

  /** Whether the handler must make another call before it is given the end of this one. */
  #comesLater(call: Call): boolean {
    const mayCome = (one: Call) => this.#mayStillCome(one);
    const before = this.#order?.before(call, mayCome);
    if (before?.isMissing) this.#run.mismatched(before.call, undefined);
    return before !== undefined;
  }

  /**
   * Whether the handler continues without a recorded call whose turn it is: it has received everything that
   * was stored before the end of that call, and has not made it. Then the code has changed; what does not
   * depend on the call continues.
   */
  #maySkip(call: Call): boolean {
    // Whatever comes next may be the call.
    if (this.#due === 0 && !this.#pending?.areWaiting && !this.#pending?.areAhead) return false;
    // Calls of which something is recorded may begin before the rest.
    if (this.#pending?.beginAhead()) this.#isSilent = false;
    if (this.#pending?.onlyWaitAhead === false || this.#mayStillCome(call)) return false;
    if (call.kind === "read") return true;
    const found = this.#pending?.unknown(call);
    // Once it only waits for people or a time, nothing will follow that could be the call in its place.
    if (!found) return this.#due > 0 || (this.#pending?.areAhead === true && call.wasInTurn);
    if (this.#isLastWait(call) && found.kind !== call.kind) return true;
    this.#run.mismatched(call, found);
    return false;
  }

  /**
   * Whether the record ends with the end of a wait, as with an answer: nothing was done after it. So a new call may come
   * before it, as it may before a wait that has not ended.
   */
  #isLastWait(call: Call): boolean {
    return call.onlyWaits && this.#head === this.#stored.length - 1;
  }

  /**
   * All that was recorded is given back: the calls that wait for that begin. A new one may come before a question or a
   * sleep that has not ended, as nothing was done after these; it may not come where a call was skipped, which it
   * may be under another name.
   */
  #goLive(): void {
    if (this.#isLive || !this.#pending?.areWaiting) return;
    const missing = this.#order?.open.find(({ state }) => state === "open");
    const found = this.#pending.unknown(missing);
    if (found) {
      if (missing && this.#mayStillCome(missing)) return;
      // A call of another kind is not the same one under another name.
      const expected = [...this.#skipped].find(
        (call) => call.kind === found.kind && call.kind !== "read" && !this.#order?.isBehind(found, call),
      );
      if (expected) {
        this.#run.mismatched(expected, found);
        return;
      }
    }
    this.#isLive = true;
    this.#isSilent = false;
    this.#pending.beginAll();
  }

  /** Whether the handler may be on its way to a call, while it waits for something of its own. */
  #mayStillCome(call: Call): boolean {
    if (call.wasInTurn && !this.#isConcurrent) return false;
    const { record, parts, log } = this.#run;
    this.#patience ??= new Patience({
      ...{ most: parts.patience, isRetried: record.isRetried, log },
      onOver: () => this.#deliverNext(),
    });
    return this.#patience.lasts(call);
  }
}
