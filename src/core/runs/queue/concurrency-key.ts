import type { Gate } from "./waiting-line.ts";

/** How many jobs of one concurrency key run at the same time. */
export interface KeyLimit {
  readonly limit: number;
  /** Whether a job keeps its key until it ends, also while it waits without a slot. */
  readonly isKept: boolean;
}

/** A concurrency key: open while another job may have it. */
export class Key implements Gate {
  readonly id: string;
  readonly #limit: number;
  /** The jobs that have it: with how many slots, and whether they keep it without one. */
  readonly holders = new Map<string, { slots: number; isKept: boolean }>();
  /** Whether jobs of all instances together have all of it. */
  isBlocked = false;

  constructor(id: string, { limit }: KeyLimit) {
    this.id = id;
    this.#limit = limit;
  }

  get isOpen(): boolean {
    return !this.isBlocked && this.holders.size < this.#limit;
  }
}
