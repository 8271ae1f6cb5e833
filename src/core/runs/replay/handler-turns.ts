import { causes } from "./causes.ts";

/** How many ends are delivered without a pause for others: some tenths of a millisecond of work. */
const IN_A_ROW = 100;
/** A cheaper way to a microtask than `queueMicrotask`, which makes an asynchronous resource of each. */
const SETTLED = Promise.resolve();

/** What gives the handler the ends of its calls. */
interface TurnedGate {
  /** The handler has done all that it does without waiting. */
  turnEnded(): void;
}

/**
 * The turns of a handler. A turn is all that the handler does, without waiting for anything else, after it was given the
 * end of a call: what it does in its turns, it does again in the same order in replay. What it does after waiting for
 * something of its own is outside of any turn.
 */
export class HandlerTurns {
  readonly #gate: TurnedGate;
  /** Whether what the handler does now follows from the last delivery, or from its beginning, alone. */
  isInTurn = false;
  /** Whether the end of what the handler does now is waited for. */
  #isEnding = false;
  /** Parts of the current turn that continue in another process. */
  #elsewhere = 0;
  #causeElsewhere: number | undefined;
  /** The present turn, among all of this process, or the last one. */
  number = 0;
  /** The line of the log up to which the handler was given the ends of its calls. */
  line = 0;
  /** Numbers the segments; the current one, 0 if none; the one that the current turn follows from. */
  #segments = 0;
  #segment = 0;
  #segmentOfTurn = 0;
  /** How many turns began since the event loop had its turn. */
  #inARow = 0;
  #unwatch: (() => void) | undefined;

  /** `isStrict` says whether it is watched from the beginning what the handler's calls follow from. */
  constructor(gate: TurnedGate, isStrict: boolean) {
    this.#gate = gate;
    if (isStrict) this.#unwatch = causes.watch();
  }

  /** Whether the handler may be about to do something. */
  get isBusy(): boolean {
    return this.isInTurn || this.#isEnding || this.#elsewhere > 0;
  }

  /**
   * The segment that what is done now follows from. Outside of any turn the handler begins one with its first call: all
   * calls that it makes there without waiting for anything are in one segment, and always in the same order. A turn
   * follows from the segment of the call that was delivered in it; 0 is the handler's own beginning.
   */
  get segment(): number {
    if (this.isInTurn) return this.#segmentOfTurn;
    if (this.#segment === 0) {
      this.#segment = ++this.#segments;
      queueMicrotask(() => {
        this.#segment = 0;
      });
    }
    return this.#segment;
  }

  /** Whether the next turn may begin in the present one, where its end is certain not to change what comes. */
  get mayFollow(): boolean {
    return this.isInTurn && this.#elsewhere === 0 && this.#inARow < IN_A_ROW && !causes.isWatching;
  }

  /** The last turn that what is done now, outside of any, follows from; nothing where that is not known. */
  cause(): number | undefined {
    if (this.#causeElsewhere !== undefined) return this.#causeElsewhere;
    if (this.#unwatch) return causes.current;
    // Most handlers never get here, and are spared the costs.
    this.#unwatch = causes.watch();
    return undefined;
  }

  /** Begins a turn, in which the handler is given the end at a line of the log, which it waited for from a segment. */
  begin(line = 0, segment = 0): number {
    if (line > this.line) this.line = line;
    this.#segmentOfTurn = segment;
    this.isInTurn = true;
    this.number = causes.nextTurn();
    this.endSoon();
    return this.number;
  }

  /** The present turn is followed by one that begins in it. */
  follow(): void {
    this.#inARow++;
  }

  /** Keeps the current turn open until the result is called: the handler is in another process. */
  hold(): () => void {
    this.#elsewhere++;
    return () => {
      this.#elsewhere--;
      this.endSoon();
    };
  }

  /**
   * Does what the handler did in another process after waiting for something of its own: outside of any turn, after it
   * was given the ends up to a line; `cause` is the last turn that it follows from.
   */
  outside(work: () => void, { cause, line }: { readonly cause: number; readonly line: number }): void {
    const [isInTurn, before] = [this.isInTurn, this.line];
    this.isInTurn = false;
    this.line = line;
    this.#segment = 0;
    this.#causeElsewhere = cause;
    try {
      work();
    } finally {
      this.isInTurn = isInTurn;
      this.line = before;
      this.#causeElsewhere = undefined;
    }
  }

  /** Has the gate continue once the handler has done what it is about to do. */
  endSoon(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    void SETTLED.then(this.#afterMicrotasks);
  }

  stop(): void {
    this.#unwatch?.();
  }

  /** Microtasks run until there are none; only then comes the next tick. */
  readonly #afterMicrotasks = (): void => {
    process.nextTick(this.#end);
  };

  readonly #end = (): void => {
    this.#isEnding = false;
    if (this.#elsewhere > 0) return;
    this.isInTurn = false;
    this.#inARow = 0;
    this.#gate.turnEnded();
  };
}
