import { promiseHooks } from "node:v8";

/** What is noted on a promise. */
interface Noted {
  /** The last turn that what made it follows from. */
  [MADE]?: number;
  /** The last turn that what settled it follows from. */
  [SETTLED]?: number;
  /** The promise that it waits for. */
  [PARENT]?: Noted | undefined;
}

const MADE = Symbol("made");
const SETTLED = Symbol("settled");
const PARENT = Symbol("parent");

/**
 * Knows of what happens now which turn of a handler it follows from, at the latest: through all that the handler waits
 * for in between. Node tells it of every promise of the process, which costs some tenths of a microsecond each, so it
 * watches only while a run asks for it.
 */
class Causes {
  #turn = 0;
  #watchers = 0;
  #stop = (): void => {};
  #now = 0;
  /** The latest cause among what was settled since the last macrotask. */
  #settledJustNow = 0;

  /** Numbers the turns of all runs of this process. */
  nextTurn(): number {
    return ++this.#turn;
  }

  get isWatching(): boolean {
    return this.#watchers > 0;
  }

  /** Watches until the result is called. */
  watch(): () => void {
    if (this.#watchers++ === 0) {
      this.#stop = promiseHooks.createHook({
        init: (promise, parent) => this.#made(promise as Noted, parent as Noted | undefined),
        before: (promise) => this.#goesOn(promise as Noted),
        after: () => {
          this.#now = 0;
        },
        settled: (promise) => this.#settled(promise as Noted),
      }) as () => void;
    }
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      if (--this.#watchers === 0) this.#stop();
    };
  }

  /** The last turn that this follows from; 0 where it follows from none that is known. */
  get current(): number {
    // Waits that started before the watch are not reported when they continue.
    return this.#now === 0 ? this.#settledJustNow : this.#now;
  }

  /** What is done from now on, until something is waited for, follows from a turn. */
  enter(turn: number): void {
    if (turn > this.#now) this.#now = turn;
  }

  /** What `fn` settles follows from a turn. */
  during(turn: number, fn: () => void): void {
    const before = this.#now;
    this.#now = turn;
    fn();
    this.#now = before;
  }

  #made(promise: Noted, parent: Noted | undefined): void {
    promise[MADE] = this.current;
    promise[PARENT] = parent;
  }

  #goesOn(promise: Noted): void {
    this.#now = Math.max(promise[MADE] ?? this.#settledJustNow, promise[PARENT]?.[SETTLED] ?? 0);
    promise[PARENT] = undefined;
  }

  #settled(promise: Noted): void {
    const turn = this.current;
    if (turn > (promise[SETTLED] ?? 0)) promise[SETTLED] = turn;
    if (turn <= this.#settledJustNow) return;
    if (this.#settledJustNow === 0) process.nextTick(this.#forget);
    this.#settledJustNow = turn;
  }

  readonly #forget = (): void => {
    this.#settledJustNow = 0;
  };
}

/** One for the process, as what it listens to is the process's. */
export const causes = new Causes();
