import { SyncPace } from "./sync-pace.ts";
import type { Timers } from "./timers.ts";

/** After so many groups of one commit there is only one writer, which may block the thread. */
const LONE = 3;

/** Learns from each group of commits how many to write together next. */
export class GroupPace {
  /** So many waiting commits are written without waiting for more. A single writer does not wait. */
  enough = 1;
  readonly #timers: Timers;
  readonly #sync = new SyncPace();
  /** Milliseconds that a sync takes as a rule. */
  #usual = 0;
  /** Consecutive groups of one commit, with none queued after it. */
  #lone = 0;
  #lastCommit = 0;
  #lastGroup = 0;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** Notes that a commit came while a group was being written. */
  noteCommit(): void {
    this.#lastCommit = this.#timers.now();
  }

  /** Whether the thread may block for the sync of so many commits; others are queued after them. */
  isOnTheSpot({ count, waiting }: { count: number; waiting: number }): boolean {
    return this.#lone >= LONE && count === 1 && waiting === 0 && this.#sync.isQuick;
  }

  /**
   * Notes that a group is on disk whose write began at a time, and how many wait by now. Where staging commits takes
   * longer than a sync, half of them are enough: the disk works on one half while the other is staged. Where the sync
   * takes longer, all: each of them costs one.
   */
  noteGroup(
    { count, waiting }: { count: number; waiting: number },
    { began, onTheSpot }: { began: number; onTheSpot: boolean },
  ): void {
    const now = this.#timers.now();
    const callers = count + waiting;
    this.#lone = callers === 1 ? this.#lone + 1 : 0;
    const each = waiting > 0 ? (this.#lastCommit - began) / waiting : (began - this.#lastGroup) / count;
    const took = now - began;
    this.#sync.note(took, { onTheSpot });
    // A moving median: a single sync that takes ten times as long as the others must not decide.
    this.#usual = this.#usual === 0 ? took : this.#usual * (took > this.#usual ? 1.25 : 0.8);
    this.enough = each * callers > this.#usual ? Math.ceil(callers / 2) : callers;
    this.#lastGroup = now;
  }
}
