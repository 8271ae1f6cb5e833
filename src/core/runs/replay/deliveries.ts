import { busyLoop } from "../../base/busy-loop.ts";
import type { Logger } from "../../base/log.ts";
import { startTimer } from "../../base/timer.ts";
import type { Call } from "./call.ts";
import { causes } from "./causes.ts";

/**
 * Milliseconds that a recorded call is waited for which the handler may still make, after waiting for something of its
 * own: so many, and twice as long as it took when it was recorded, which is not taken to be more than the second.
 */
const PATIENCE = 3000;
const MOST = 150_000;
/**
 * The same for a retried job, which continues where it failed: calls that it made after that may not come
 * again.
 */
const PATIENCE_AFTER_RETRY = 1000;
/** How many ends are delivered without a pause for others: some tenths of a millisecond of work. */
const IN_A_ROW = 100;
/** A cheaper way to a microtask than `queueMicrotask`, which makes an asynchronous resource of each. */
const SETTLED = Promise.resolve();

interface DeliveriesParts {
  /** Calls whose end is recorded, in the order of the log. */
  readonly recorded: readonly Call[];
  /** Questions and sleeps that were started, and whose end is not recorded. */
  readonly open: readonly Call[];
  /** These, and steps that were tried. */
  readonly begun: readonly Call[];
  /** Recorded calls that need not be made again, whose end is given to the handler whenever it makes them. */
  readonly loose: readonly Call[];
  /** Most milliseconds that a recorded call is waited for. @default as long as it may take */
  readonly patience?: number | undefined;
  /** Called when a turn is over. */
  readonly onTurnEnd?: (() => void) | undefined;
  /** Called once all that is recorded was given back, and the handler waits for something that is not. */
  readonly onReplayed?: (() => void) | undefined;
  /** Whether failures of it were forgotten. */
  readonly isRetried: boolean;
  /** Whether it is watched from the beginning what the handler's calls follow from. */
  readonly isStrict: boolean;
  readonly log: Logger;
  /** The handler makes `found` where the record has `expected`, or does not make what was made before that. */
  readonly onMismatch: (expected: Call, found: Call | undefined) => void;
}

/**
 * Gives the ends of a run's calls to its handler: in the order in which they were stored, one in each turn, both when
 * they come from the record and when they happen. A turn is all that the handler does, without waiting for anything
 * else, after it was given one. So whatever the handler does in its turns, it does again in the same order in replay.
 *
 * A call of which no end is recorded begins after all that are recorded were given back.
 */
export class Deliveries {
  readonly #parts: DeliveriesParts;
  /** Ends that are stored and were not delivered, in their order. */
  readonly #due: (Call | undefined)[];
  #head = 0;
  /** Those that were passed over because the handler did not make the call then, and has made it since. */
  readonly #late: Call[] = [];
  readonly #skipped = new Set<Call>();
  readonly #loose: Set<Call>;
  /** Calls that were made, whose end is due and not delivered. */
  #waiting = 0;
  /** Calls that wait until the record is given back. */
  readonly #pending = new Map<Call, () => void>();
  /** Partially recorded calls that were started before the rest of the record was replayed. */
  readonly #ahead = new Set<Call>();
  #isLive: boolean;
  #isSilent: boolean;
  #isInTurn = false;
  /** Whether the end of what the handler does now is waited for. */
  #isEnding = false;
  #isClosed = false;
  /** Whether the next end is delivered only after a turn of the event loop. */
  #isPausing = false;
  /** Parts of the current turn that continue in another process. */
  #elsewhere = 0;
  #causeElsewhere: number | undefined;
  #refused: (() => Error) | undefined;
  #callOffPatience: (() => void) | undefined;
  /** Calls for which patience is over. */
  readonly #givenUp = new Set<Call>();
  /** The line of the log up to which the handler was given the ends of its calls. */
  #line = 0;
  /** Recorded calls in the order in which they were first made; empty where each was made after the end of the last. */
  readonly #firstMade: Call[];
  #nextMade = 0;
  /** Whether the handler makes calls beside each other, so that it may be on its way to one while it waits for another. */
  #isConcurrent: boolean;
  /** Calls that were made and not delivered. */
  #open = 0;
  #turn = 0;
  /** Numbers the sections; the current one, 0 if none; the one that the current turn follows from. */
  #stretches = 0;
  #stretch = 0;
  #turnStretch = 0;
  /** How many ends were delivered since the event loop had its turn. */
  #inARow = 0;
  #unwatch: (() => void) | undefined;

  constructor(parts: DeliveriesParts) {
    this.#parts = parts;
    this.#due = [...parts.recorded];
    this.#loose = new Set(parts.loose);
    this.#isLive = parts.recorded.length === 0 && parts.open.length === 0;
    this.#isSilent = !this.#isLive;
    this.#isConcurrent = areBeside(parts);
    this.#firstMade = this.#isConcurrent
      ? [...parts.recorded, ...parts.begun]
          .filter(({ made }) => made !== undefined)
          .sort((a, b) => a.made! - b.made!)
      : [];
    if (parts.isStrict) this.#unwatch = causes.watch();
  }

  /** Whether what the handler does now follows from the last delivery, or from its beginning, alone. */
  get isInTurn(): boolean {
    return this.#isInTurn;
  }

  /** How many calls the handler waits for, where it has done all that follows from the last delivery. */
  get open(): number | undefined {
    const isBusy = this.#isInTurn || this.#isEnding || this.#isPausing || this.#elsewhere > 0;
    return isBusy ? undefined : this.#open;
  }

  /** Whether nothing was done yet but to answer from the record. */
  get isSilent(): boolean {
    return this.#isSilent;
  }

  /** Whether calls of which no end is recorded may begin. */
  get isLive(): boolean {
    return this.#isLive && !this.#isClosed;
  }

  /** The present turn, among all of this process, or the last one. */
  get turn(): number {
    return this.#turn;
  }

  /**
   * The stretch that what is done now follows from. Outside of any turn the handler begins one with its first call: all
   * calls that it makes there without waiting for anything are in one stretch, and always in the same order. A turn
   * follows from the stretch of the call that was delivered in it; 0 is the handler's own beginning.
   */
  get stretch(): number {
    if (this.#isInTurn) return this.#turnStretch;
    if (this.#stretch === 0) {
      this.#stretch = ++this.#stretches;
      queueMicrotask(() => {
        this.#stretch = 0;
      });
    }
    return this.#stretch;
  }

  /** The last turn that what is done now, outside of any, follows from; nothing where that is not known. */
  cause(): number | undefined {
    if (this.#causeElsewhere !== undefined) return this.#causeElsewhere;
    if (this.#unwatch) return causes.current;
    // Most handlers never get here, and are spared the costs.
    this.#unwatch = causes.watch();
    return undefined;
  }

  /** Whether the handler has made all calls that are recorded. */
  get isBehindRecord(): boolean {
    for (const { kind } of this.#skipped) if (kind !== "read") return false;
    if (this.#parts.begun.some(({ isMade, isDue }) => !isMade && !isDue)) return false;
    // Mostly the last one tells.
    if (this.#due.length > this.#head && this.#due.at(-1)?.isMade === false) return false;
    for (let at = this.#head; at < this.#due.length; at++) if (this.#due[at]?.isMade === false) return false;
    return true;
  }

  /** The line of the log up to which the handler was given the ends of its calls. */
  get line(): number {
    return this.#line;
  }

  /** The line of the end that the handler is given next; nothing where all that are stored were given to it. */
  get nextLine(): number | undefined {
    return this.#due[this.#head]?.line;
  }

  /** Keeps the current turn open until the result is called: the handler is in another process. */
  holdTurn(): () => void {
    this.#elsewhere++;
    return () => {
      this.#elsewhere--;
      this.#goOnSoon();
    };
  }

  /**
   * Does what the handler did in another process after waiting for something of its own: outside of any turn, after it
   * was given the ends up to a line; `cause` is the last turn that it follows from.
   */
  outside(work: () => void, { cause, line }: { readonly cause: number; readonly line: number }): void {
    const [isInTurn, before] = [this.#isInTurn, this.#line];
    this.#isInTurn = false;
    this.#line = line;
    this.#stretch = 0;
    this.#causeElsewhere = cause;
    try {
      work();
    } finally {
      this.#isInTurn = isInTurn;
      this.#line = before;
      this.#causeElsewhere = undefined;
    }
  }

  /** Begins the handler's first turn. */
  begin(): void {
    this.#beginTurn();
    causes.enter(this.#turn);
  }

  /** The handler has made a call, after `also` others of its kind and name in the same turn. */
  made(call: Call, also: number): void {
    call.isMade = true;
    call.madeAt = this.#line;
    if (++this.#open > 1) this.#isConcurrent = true;
    if (call.made === undefined && !call.isOld) {
      call.made = this.#line;
      call.also = also;
      if (call.isMadeOutside) call.isOutside = true;
    }
    if (!call.isDue) return;
    this.#waiting++;
    if (this.#skipped.delete(call) || this.#loose.delete(call)) this.#late.push(call);
    if (this.#isNextAlone()) void SETTLED.then(this.#goOnAtOnce);
    else this.#goOnSoon();
  }

  /** Waits until a call of which no end is recorded may begin. */
  live(call: Call): Promise<void> | undefined {
    if (this.#isLive || this.#ahead.has(call)) {
      this.#isSilent = false;
      return undefined;
    }
    return new Promise((resolve) => {
      this.#pending.set(call, resolve);
      this.#goOnSoon();
    });
  }

  /** The end of a call is stored, at a line of the log. */
  due(call: Call, line: number): void {
    if (call.isDue) return;
    call.isDue = true;
    call.line = line;
    this.#ahead.delete(call);
    this.#due.push(call);
    if (call.isMade) this.#waiting++;
    this.#goOn();
  }

  /** The end that is recorded of a call is none any longer. */
  withdraw(call: Call): void {
    if (!call.isDue) return;
    call.isDue = false;
    call.line = 0;
    if (call.isMade) this.#waiting--;
    this.#skipped.delete(call);
    this.#loose.delete(call);
    for (const list of [this.#due, this.#late]) {
      const at = list.indexOf(call);
      if (at >= 0) list.splice(at, 1);
    }
  }

  /** The end of a call may be delivered, once it is due. */
  ready(call: Call): void {
    call.isHeld = false;
    this.#goOn();
  }

  /**
   * Resolves with `value` when the end of a call is given to the handler, which has happened where there is nothing to
   * wait for.
   */
  delivered<T>(call: Call, value: T): Promise<T> | undefined {
    if (call.isDelivered) {
      causes.enter(call.turn);
      return undefined;
    }
    if (this.#refused) return Promise.reject(this.#refused());
    return call.wait(value);
  }

  /** The handler has ended: what it left behind is given nothing more. */
  stop(): void {
    this.#isClosed = true;
    this.#callOffPatience?.();
    this.#unwatch?.();
  }

  /** The run ends: nothing more is delivered, and what waits rejects with what `why` gives. */
  refuse(why: () => Error): void {
    this.stop();
    this.#refused = why;
    for (const call of [...this.#due.slice(this.#head), ...this.#late]) call?.refuse(why());
    // They find that the run has ended.
    for (const begin of this.#pending.values()) begin();
    this.#pending.clear();
  }

  /**
   * Recorded calls that the handler has not made, in the order of the log; `open` are those without an end. It may continue
   * without reads.
   */
  notMade(): {
    readonly passedOver: readonly Call[];
    readonly ahead: readonly Call[];
    readonly open: readonly Call[];
  } {
    const left = this.#due.slice(this.#head).filter((call): call is Call => call?.isMade === false);
    const ahead = left.filter(({ kind }) => kind !== "read");
    const reads = left.filter(({ kind }) => kind === "read");
    const open = this.#parts.begun.filter(({ isMade, isDue }) => !isMade && !isDue);
    return { passedOver: [...this.#skipped, ...reads], ahead, open };
  }

  /**
   * Whether the handler makes one call after the other, as it did when they were recorded, and waits for the next one
   * alone: then its end can be delivered without waiting for the turn to end. The last one always ends a turn: beside
   * it, the handler may be on its way to a call of which nothing is recorded.
   */
  #isNextAlone(): boolean {
    const call = this.#due[this.#head];
    if (!call?.isMade || call.isHeld || this.#head + 1 >= this.#due.length) return false;
    if (!this.#isInTurn || this.#isClosed || this.#isConcurrent || this.#open > 1) return false;
    if (this.#elsewhere > 0) return false;
    return this.#late.length === 0 && this.#inARow < IN_A_ROW && !causes.isWatching;
  }

  readonly #goOnAtOnce = (): void => {
    // It may have made another call since, without waiting for this one.
    if (!this.#isNextAlone()) {
      this.#goOnSoon();
      return;
    }
    this.#inARow++;
    this.#deliver(this.#due[this.#head]!);
    this.#due[this.#head++] = undefined;
  };

  readonly #endTurn = (): void => {
    this.#isEnding = false;
    if (this.#elsewhere > 0) return;
    this.#isInTurn = false;
    this.#inARow = 0;
    this.#goOn(true);
    if (!this.#isInTurn && !this.#isPausing) this.#parts.onTurnEnd?.();
  };

  /** Microtasks run until there are none; only then comes the next tick. */
  readonly #endTurnSoon = (): void => {
    process.nextTick(this.#endTurn);
  };

  #beginTurn(): void {
    this.#isInTurn = true;
    this.#turn = causes.nextTurn();
    if (this.#isEnding) return;
    this.#isEnding = true;
    void SETTLED.then(this.#endTurnSoon);
  }

  /** Continues once the handler has done what it is about to do. */
  #goOnSoon(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    void SETTLED.then(this.#endTurnSoon);
  }

  /** Delivers the next one, if it is time for it; what the handler has not made is judged where it is `settled`. */
  #goOn(settled = false): void {
    while (!this.#isInTurn && !this.#isClosed && !this.#mustPause()) {
      const late = this.#late.shift();
      const call = this.#due[this.#head];
      if (late) {
        this.#deliver(late);
      } else if (call?.isMade) {
        if (call.isHeld || this.#comesFirst(call)) return;
        this.#due[this.#head++] = undefined;
        this.#deliver(call);
      } else if (!settled) {
        this.#goOnSoon();
        return;
      } else if (call && this.#mayPassOver(call)) {
        this.#due[this.#head++] = undefined;
        this.#skipped.add(call);
      } else {
        if (call) return;
        this.#goLive();
        const waits = this.#pending.size === 0 && (this.#isLive || this.#ahead.size > 0);
        if (waits) this.#parts.onReplayed?.();
        return;
      }
    }
  }

  /**
   * Whether the next end has to wait for a turn of the event loop: where the store answers from memory, or from a fast
   * disk, thousands of steps would follow each other without one, and no request would be received.
   */
  #mustPause(): boolean {
    if (this.#isPausing) return true;
    const isNext = this.#late.length > 0 || this.#due[this.#head]?.isMade === true;
    if (!isNext || !busyLoop.keepsOthersWaiting) return false;
    this.#isPausing = true;
    setImmediate(() => {
      this.#isPausing = false;
      if (!this.#isClosed) this.#goOnSoon();
    });
    return true;
  }

  #deliver(call: Call): void {
    this.#waiting--;
    this.#open--;
    this.#line = Math.max(this.#line, call.line);
    this.#callOffPatience?.();
    this.#turnStretch = call.stretch;
    this.#beginTurn();
    if (causes.isWatching) causes.during(this.#turn, () => call.deliver(this.#turn));
    else call.deliver(this.#turn);
  }

  /**
   * Whether the handler had made a call, before it was given the end of this one, that it has not made again: it waits
   * for something of its own that took less time then. Were it given this one first, it could go another way.
   */
  #comesFirst({ line }: Call): boolean {
    for (; this.#nextMade < this.#firstMade.length; this.#nextMade++) {
      const first = this.#firstMade[this.#nextMade]!;
      if (first.made! >= line) break;
      if (!first.isMade && this.#mayStillCome(first)) return true;
    }
    // The next call is identified by its number among those of its name: all earlier ones must exist.
    for (let at = this.#nextMade; this.#firstMade[at]?.made === line; at++) {
      const next = this.#firstMade[at]!;
      if (next.kind === "read" || next.isOutside || next.same!.made >= next.n - next.also) continue;
      if (!this.#mayStillCome(next)) this.#parts.onMismatch(next, undefined);
      return true;
    }
    return false;
  }

  /**
   * Whether the handler continues without a recorded call whose turn it is: it has received everything that
   * was stored before the end of that call, and has not made it. Then the code has changed; what does not
   * depend on the call continues.
   */
  #mayPassOver(call: Call): boolean {
    // Whatever comes next may be the call.
    if (this.#waiting === 0 && this.#pending.size === 0 && this.#ahead.size === 0) return false;
    this.#beginAhead();
    if ([...this.#ahead].some((ahead) => !ahead.onlyWaits)) return false;
    if (this.#mayStillCome(call)) return false;
    if (call.kind === "read") return true;
    const found = this.#unknown(call);
    // Once it only waits for people or a time, nothing will follow that could be the call in its place.
    if (!found) return this.#waiting > 0 || (this.#ahead.size > 0 && wasInTurn(call));
    if (this.#isLastWait(call) && found.kind !== call.kind) return true;
    this.#parts.onMismatch(call, found);
    return false;
  }

  /**
   * Whether the record ends with the end of a wait, as with an answer: nothing was done after it. So a new call may come
   * before it, as it may before a wait that has not ended.
   */
  #isLastWait(call: Call): boolean {
    return call.onlyWaits && this.#head === this.#due.length - 1;
  }

  /**
   * All that was recorded is given back: the calls that wait for that begin. A new one may come before a question or a
   * sleep that has not ended, as nothing was done after these; it may not come where a call was passed over, which it
   * may be under another name.
   */
  #goLive(): void {
    if (this.#isLive || this.#pending.size === 0) return;
    const missing = this.#parts.open.find((call) => !call.isMade && !call.isDue);
    const found = this.#unknown(missing);
    if (found) {
      if (missing && this.#mayStillCome(missing)) return;
      // A call of another kind is not the same one under another name.
      const expected = [...this.#skipped].find(
        (call) => call.kind === found.kind && call.kind !== "read" && !this.#isBehind(found, call),
      );
      if (expected) {
        this.#parts.onMismatch(expected, found);
        return;
      }
    }
    this.#isLive = true;
    this.#isSilent = false;
    for (const begin of this.#pending.values()) begin();
    this.#pending.clear();
  }

  /**
   * Whether a new call comes after a wait that ended behind a passed-over call, so that it is not that one under another
   * name: while the handler waited, it was known to continue without it. An answer that a person gives meanwhile must
   * not be what the job is held for.
   */
  #isBehind(found: Call, passedOver: Call): boolean {
    const { recorded, open } = this.#parts;
    return (
      wasInTurn(passedOver) &&
      [...recorded, ...open].some(
        ({ onlyWaits, isDelivered, line }) =>
          onlyWaits && isDelivered && line > passedOver.line && line <= found.madeAt,
      )
    );
  }

  /** Calls of which something is recorded may begin before the rest. */
  #beginAhead(): void {
    for (const [call, begin] of this.#pending) {
      if (!call.hasTrace) continue;
      this.#pending.delete(call);
      this.#ahead.add(call);
      this.#isSilent = false;
      begin();
    }
  }

  /** A call that waits and of which nothing is recorded; one of the same scope first. */
  #unknown(like: Call | undefined): Call | undefined {
    const unknown = [...this.#pending.keys()].filter((call) => !call.hasTrace);
    return unknown.find(({ caseId }) => caseId === like?.caseId) ?? unknown[0];
  }

  /** Whether the handler may be on its way to a call, while it waits for something of its own. */
  #mayStillCome(call: Call): boolean {
    const isCertain = !this.#isConcurrent && !call.isOutside && !call.isOld;
    if (isCertain || this.#givenUp.has(call)) return false;
    if (this.#callOffPatience) return true;
    const { isRetried, patience: most = Number.POSITIVE_INFINITY } = this.#parts;
    const long = isRetried ? PATIENCE_AFTER_RETRY : PATIENCE + 2 * Math.min(call.delay, MOST);
    const patience = Math.min(long, most);
    const stop = startTimer(patience, () => {
      this.#callOffPatience = undefined;
      this.#givenUp.add(call);
      this.#parts.log.warn("the handler has not repeated a recorded call; it continues without it", {
        call: call.label,
      });
      this.#goOn();
    });
    this.#callOffPatience = () => {
      stop();
      this.#callOffPatience = undefined;
    };
    return true;
  }
}

/** Whether the handler made a call in a turn: it makes it in the same one again, or not in that place. */
function wasInTurn({ isOutside, isOld }: Call): boolean {
  return !isOutside && !isOld;
}

/** Whether a call was made before the end of another one was given to the handler. */
function areBeside({ recorded, begun }: DeliveriesParts): boolean {
  let line = 0;
  for (const call of recorded) {
    if (call.isOld || (call.made !== undefined && call.made < line)) return true;
    line = call.line;
  }
  return begun.some(({ made, isOld }) => isOld || (made !== undefined && made < line));
}
