import type { IndexValue } from "../store.ts";
import type { FieldSlice } from "./index-slice.ts";
import { longer } from "./longer.ts";
import { Strings } from "./strings.ts";

/** What the values of a column are, besides `null`; `mixed` are any. */
type Kind = "none" | "numbers" | "strings" | "booleans" | "mixed";

const NULL = 0;
const FALSE = 1;
const TRUE = 2;

/**
 * The values of one index field, by slot, in memory that the garbage collector does not visit, unless they are of
 * several types. Where all are `null`, they take none.
 */
export class Column {
  #kind: Kind = "none";
  /** `NaN` means `null`. */
  #numbers = new Float64Array(0);
  #strings = new Strings();
  #booleans = new Uint8Array(0);
  #values: IndexValue[] = [];
  #expected = 0;

  /** Makes room for slots below `count`, once there are values. */
  reserve(count: number): void {
    this.#expected = count;
  }

  get(slot: number): IndexValue {
    switch (this.#kind) {
      case "none":
        return null;
      case "numbers": {
        const value = this.#numbers[slot];
        return value === undefined || Number.isNaN(value) ? null : value;
      }
      case "strings":
        return this.#strings.get(slot) ?? null;
      case "booleans": {
        const value = this.#booleans[slot];
        return value === undefined || value === NULL ? null : value === TRUE;
      }
      case "mixed":
        return this.#values[slot] ?? null;
    }
  }

  set(slot: number, value: IndexValue): void {
    // Most are times and amounts.
    if (this.#kind === "numbers" && typeof value === "number" && slot < this.#numbers.length) {
      this.#numbers[slot] = value;
      return;
    }
    const isOfKind = this.#kind === "strings" && typeof value === "string";
    if (value !== null && !isOfKind) this.#prepareFor(value);
    switch (this.#kind) {
      case "none":
        return;
      case "numbers":
        if (slot >= this.#numbers.length) this.#numbers = grown(this.#numbers, slot + 1);
        this.#numbers[slot] = (value as number | null) ?? Number.NaN;
        return;
      case "strings":
        if (value === null) this.#strings.clear(slot);
        else this.#strings.set(slot, value as string);
        return;
      case "booleans":
        if (slot >= this.#booleans.length) this.#booleans = longer(this.#booleans, slot + 1);
        this.#booleans[slot] = value === null ? NULL : value ? TRUE : FALSE;
        return;
      case "mixed":
        this.#values[slot] = value;
    }
  }

  /** Whether a slot has this value. */
  is(slot: number, value: IndexValue): boolean {
    if (this.#kind === "numbers" && typeof value === "number") return this.#numbers[slot] === value;
    if (this.#kind === "strings" && typeof value === "string") return this.#strings.equals(slot, value);
    return this.get(slot) === value;
  }

  /** Releases the memory after the first `capacity` slots, which is unused. */
  trim(capacity: number): void {
    this.#numbers = this.#numbers.slice(0, capacity);
    this.#booleans = this.#booleans.slice(0, capacity);
    this.#strings.trim(capacity);
    this.#values.length = Math.min(this.#values.length, capacity);
  }

  /** The values of some slots. */
  sliceOf(slots: Uint32Array): FieldSlice {
    if (this.#kind === "none") return { kind: "none" };
    if (this.#kind !== "numbers")
      return { kind: "values", values: Array.from(slots, (slot) => this.get(slot)) };
    const numbers = new Float64Array(slots.length);
    for (let at = 0; at < slots.length; at++) numbers[at] = this.#numbers[slots[at]!] ?? Number.NaN;
    return { kind: "numbers", numbers };
  }

  /** Sets the values of slots from `first` on, which have none. */
  load(first: number, slice: FieldSlice): void {
    if (slice.kind === "none") return;
    if (slice.kind === "numbers" && (this.#kind === "none" || this.#kind === "numbers")) {
      const { numbers } = slice;
      this.#kind = "numbers";
      if (first + numbers.length > this.#numbers.length)
        this.#numbers = grown(this.#numbers, Math.max(first + numbers.length, this.#expected));
      this.#numbers.set(numbers, first);
      return;
    }
    const values =
      slice.kind === "numbers"
        ? Array.from(slice.numbers, (of) => (Number.isNaN(of) ? null : of))
        : slice.values;
    if (this.#kind === "none") this.#strings.reserveLike(values, this.#expected);
    for (let at = 0; at < values.length; at++) if (values[at] !== null) this.set(first + at, values[at]!);
  }

  /** Order of the values of two slots. */
  compare(a: number, b: number): number {
    if (this.#kind === "numbers") {
      const one = this.#numbers[a]!;
      const other = this.#numbers[b]!;
      // Compared as numbers, without creating a value for each; `null` and missing ones differ from themselves.
      if (one < other) return -1;
      if (one > other) return 1;
      if (one === other) return 0;
    }
    if (this.#kind === "strings" && this.#strings.has(a) && this.#strings.has(b))
      return this.#strings.compare(a, b);
    return compareValues(this.get(a), this.get(b));
  }

  #prepareFor(value: string | number | boolean): void {
    const kind = KINDS[typeof value as "string" | "number" | "boolean"];
    if (this.#kind === kind || this.#kind === "mixed") return;
    if (this.#kind === "none") {
      this.#kind = kind;
      return;
    }
    const count = Math.max(this.#numbers.length, this.#booleans.length, this.#strings.capacity);
    this.#values = Array.from({ length: count }, (_, slot) => this.get(slot));
    this.#numbers = new Float64Array(0);
    this.#booleans = new Uint8Array(0);
    this.#strings = new Strings();
    this.#kind = "mixed";
  }
}

const KINDS = { string: "strings", number: "numbers", boolean: "booleans" } as const;

/** A longer copy of a typed array, filled with `NaN` after the old end. */
function grown(numbers: Float64Array, needed: number): Float64Array<ArrayBuffer> {
  const next = new Float64Array(Math.max(64, needed, Math.ceil(numbers.length * 1.5)));
  next.fill(Number.NaN, numbers.length);
  next.set(numbers);
  return next;
}

/** Order of index values: `null`, then booleans, numbers and strings (by code unit). */
export function compareValues(a: IndexValue, b: IndexValue): number {
  if (a === b) return 0;
  if (typeof a === typeof b && a !== null && b !== null) return a < b ? -1 : 1;
  return rank(a) - rank(b);
}

/** Ids by when their entities were made, oldest first. */
export function idsByAge(ages: ReadonlyMap<string, IndexValue>): string[] {
  return [...ages]
    .sort(([a, one], [b, other]) => compareValues(one, other) || (a < b ? -1 : 1))
    .map(([id]) => id);
}

/** What JSON makes of a value: `NaN` and the infinities have no place in it. */
export function toValue(value: IndexValue | undefined): IndexValue {
  if (value === undefined || (typeof value === "number" && !Number.isFinite(value))) return null;
  return value;
}

function rank(value: IndexValue): number {
  if (value === null) return 0;
  if (typeof value === "boolean") return 1;
  return typeof value === "number" ? 2 : 3;
}
