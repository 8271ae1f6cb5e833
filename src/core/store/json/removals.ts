import type { LineHeader } from "./line.ts";
import type { Locator } from "./locators.ts";

/**
 * Locations of one file's lines that remove an entity or clear a key: nothing in the index points to them.
 */
export class Removals {
  /** Three numbers each: number of the write, offset, length. */
  #numbers: number[] = [];
  /** Bytes of those that mattered when their file was written by a compaction. */
  needed = 0;

  add(seq: number, { offset, length }: Locator): void {
    this.#numbers.push(seq, offset, length);
  }

  /** For `load`. */
  toNumbers(): readonly number[] {
    return [...this.#numbers];
  }

  load(numbers: readonly number[], needed: number): void {
    this.#numbers = [...numbers];
    this.needed = needed;
  }

  /** Calls `visit` with those that were written after the write `seq`, in the order of their lines. */
  since(seq: number, visit: (seq: number, place: { offset: number; length: number }) => void): void {
    for (let at = 0; at < this.#numbers.length; at += 3) {
      const own = this.#numbers[at]!;
      if (own > seq) visit(own, { offset: this.#numbers[at + 1]!, length: this.#numbers[at + 2]! });
    }
  }
}

/**
 * Distinguishes lines that remove something from those with content. Only they have index values without a
 * text.
 */
export function isRemoval({ i, x, ix }: LineHeader): boolean {
  return i === undefined ? ix !== undefined && x === undefined : i === 0;
}
