import type { IndexValue } from "../store.ts";

/**
 * The values of one index field, by slot. Numbers and `null` are in a typed array, so that a table of
 * hundreds of thousands of timestamps costs eight bytes each and gives the garbage collector nothing to
 * visit.
 */
export class Column {
  /** `NaN` means `null`. */
  #numbers: Float64Array | undefined = new Float64Array(64).fill(Number.NaN);
  #values: IndexValue[] = [];

  get(slot: number): IndexValue {
    if (this.#numbers === undefined) return this.#values[slot] ?? null;
    const value = this.#numbers[slot];
    return value === undefined || Number.isNaN(value) ? null : value;
  }

  set(slot: number, value: IndexValue): void {
    if (this.#numbers === undefined) {
      this.#values[slot] = value;
      return;
    }
    if (value !== null && typeof value !== "number") {
      this.#generalise();
      this.#values[slot] = value;
      return;
    }
    if (slot >= this.#numbers.length) this.#numbers = grown(this.#numbers, slot + 1);
    this.#numbers[slot] = value ?? Number.NaN;
  }

  /** Releases the memory after the first `capacity` slots, which is unused. */
  trim(capacity: number): void {
    if (this.#numbers === undefined) this.#values.length = Math.min(this.#values.length, capacity);
    else this.#numbers = this.#numbers.slice(0, Math.max(capacity, 64));
  }

  /** Order of the values of two slots. */
  compare(a: number, b: number): number {
    if (this.#numbers === undefined) return compareValues(this.#values[a] ?? null, this.#values[b] ?? null);
    const one = this.#numbers[a]!;
    const other = this.#numbers[b]!;
    // Compared as numbers, without creating a value for each; `null` and missing ones differ from themselves.
    if (one < other) return -1;
    if (one > other) return 1;
    return one === other ? 0 : compareValues(this.get(a), this.get(b));
  }

  #generalise(): void {
    this.#values = Array.from(this.#numbers ?? [], (value) => (Number.isNaN(value) ? null : value));
    this.#numbers = undefined;
  }
}

/** A longer copy of a typed array, filled with `NaN` after the old end. */
function grown(numbers: Float64Array, needed: number): Float64Array {
  const next = new Float64Array(Math.max(needed, Math.ceil(numbers.length * 1.5))).fill(
    Number.NaN,
    numbers.length,
  );
  next.set(numbers);
  return next;
}

/** Order of index values: `null`, then booleans, numbers and strings (by code unit). */
export function compareValues(a: IndexValue, b: IndexValue): number {
  if (a === b) return 0;
  if (typeof a === typeof b && a !== null && b !== null) return a < b ? -1 : 1;
  return rank(a) - rank(b);
}

function rank(value: IndexValue): number {
  if (value === null) return 0;
  if (typeof value === "boolean") return 1;
  return typeof value === "number" ? 2 : 3;
}
