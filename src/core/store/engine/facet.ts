import type { IndexValue } from "../store.ts";
import { compareValues } from "./column.ts";
import type { FieldSlice } from "./index-slice.ts";
import { longer } from "./longer.ts";
import { StringLookup } from "./string-lookup.ts";
import { Strings } from "./strings.ts";

/** Codes below this are of values that are kept as they are, too: most fields have few, and those are asked for often. */
const COMMON = 1024;

/** Codes of no entity, and of `null`. */
const FREE = 0;
const NULL = 1;

/**
 * The values of one field by slot, and the slots by value. Each distinct value has a code, and its slots are chained, in
 * arrays of numbers that the garbage collector does not visit. Those with `null` are not chained: of most fields most
 * are, and few ask for them.
 */
export class Facet {
  /** By slot. */
  #codes = new Uint32Array(0);
  #next = new Uint32Array(0);
  #previous = new Uint32Array(0);
  /** By code: one more than the first slot, and how many there are. */
  #first = new Uint32Array(64);
  #counts = new Uint32Array(64);
  /** By code. */
  #strings = new Strings();
  #lookup = new StringLookup(this.#strings);
  /** Codes of all values but strings, and of strings while there are few. */
  readonly #common = new Map<IndexValue, number>();
  readonly #decoded: IndexValue[] = [];
  /** Codes that are no longer used; all from `#nextCode` on are not either. */
  readonly #unused: number[] = [];
  #nextCode = NULL + 1;
  #size = 0;

  /** Number of distinct values. */
  get size(): number {
    return this.#size;
  }

  get(slot: number): IndexValue {
    return this.valueOf(this.codeAt(slot));
  }

  /** The code of a slot's value: a small number, the same for equal values while any slot has them. */
  codeAt(slot: number): number {
    return this.#codes[slot] ?? FREE;
  }

  /** `undefined` where no slot has the value. */
  codeOf(value: IndexValue): number | undefined {
    if (value === null) return this.#counts[NULL]! > 0 ? NULL : undefined;
    const isCommon = this.#nextCode <= COMMON || typeof value !== "string";
    return isCommon ? this.#common.get(value) : this.#lookup.find(value);
  }

  valueOf(code: number): IndexValue {
    if (code <= NULL) return null;
    const known = this.#decoded[code];
    if (known !== undefined) return known;
    return this.#strings.get(code)!;
  }

  /** Makes room for slots below `count`. */
  reserve(count: number): void {
    if (count > this.#codes.length) this.#codes = longer(this.#codes, count, 1);
  }

  /** Whether a slot has this value. */
  is(slot: number, value: IndexValue): boolean {
    const code = this.#codes[slot] ?? FREE;
    if (value === null || code <= NULL) return value === null && code === NULL;
    return code < COMMON || typeof value !== "string"
      ? this.#decoded[code] === value
      : this.#strings.equals(code, value);
  }

  /** Returns the code of the value, which may be given where it is known. */
  add(slot: number, value: IndexValue, known?: number): number {
    let code = known ?? NULL;
    if (known === undefined && value !== null) {
      const isCommon = this.#nextCode <= COMMON || typeof value !== "string";
      code = (isCommon ? this.#common.get(value) : this.#lookup.find(value)) ?? this.#newCode(value);
    }
    if (this.#counts[code]!++ === 0) this.#size++;
    if (slot >= this.#codes.length) this.#codes = longer(this.#codes, slot + 1);
    this.#codes[slot] = code;
    if (code === NULL) return code;
    if (slot >= this.#next.length) this.#growChains(slot + 1);
    const first = this.#first[code]!;
    this.#next[slot] = first;
    this.#previous[slot] = 0;
    if (first > 0) this.#previous[first - 1] = slot + 1;
    this.#first[code] = slot + 1;
    return code;
  }

  remove(slot: number): void {
    const code = this.#codes[slot] ?? FREE;
    if (code === FREE) return;
    this.#codes[slot] = FREE;
    if (code !== NULL) {
      const next = this.#next[slot]!;
      const previous = this.#previous[slot]!;
      if (next > 0) this.#previous[next - 1] = previous;
      if (previous > 0) this.#next[previous - 1] = next;
      else this.#first[code] = next;
    }
    if (--this.#counts[code]! > 0) return;
    this.#size--;
    if (code !== NULL) this.#forget(code);
  }

  count(value: IndexValue): number {
    const code = this.codeOf(value);
    return code === undefined ? 0 : this.#counts[code]!;
  }

  /** Unordered. */
  slots(value: IndexValue): Iterable<number> {
    const code = this.codeOf(value);
    if (code === undefined) return [];
    const slots = new Uint32Array(this.#counts[code]!);
    let count = 0;
    if (code === NULL) {
      for (let slot = 0; count < slots.length; slot++) if (this.#codes[slot] === NULL) slots[count++] = slot;
    } else {
      for (let at = this.#first[code]!; at > 0; at = this.#next[at - 1]!) slots[count++] = at - 1;
    }
    return slots;
  }

  /** Each value with its code and the number of its slots. */
  *counts(): Generator<{ readonly value: IndexValue; readonly code: number; readonly count: number }, void> {
    for (let code = NULL; code < this.#nextCode; code++) {
      const count = this.#counts[code]!;
      if (count > 0) yield { value: this.valueOf(code), code, count };
    }
  }

  /** The values of some slots. */
  sliceOf(slots: Uint32Array): FieldSlice {
    const places = new Map<number, number>();
    const codes = new Uint16Array(slots.length);
    for (let at = 0; at < slots.length; at++) {
      const code = this.codeAt(slots[at]!);
      let place = places.get(code);
      if (place === undefined) {
        place = places.size;
        places.set(code, place);
      }
      codes[at] = place;
    }
    return { kind: "codes", values: Array.from(places.keys(), (code) => this.valueOf(code)), codes };
  }

  /** Sets the values of slots from `first` on, which have none. */
  load(first: number, { values, codes }: Extract<FieldSlice, { kind: "codes" }>): void {
    const known: (number | undefined)[] = [];
    for (let at = 0; at < codes.length; at++) {
      const place = codes[at]!;
      known[place] = this.add(first + at, values[place]!, known[place]);
    }
  }

  /** Order of the values of two slots. */
  compare(a: number, b: number): number {
    const [one, other] = [this.codeAt(a), this.codeAt(b)];
    return one === other ? 0 : compareValues(this.valueOf(one), this.valueOf(other));
  }

  /** Releases the memory after the first `capacity` slots, which is unused. */
  trim(capacity: number): void {
    this.#codes = this.#codes.slice(0, capacity);
    this.#next = this.#next.slice(0, capacity);
    this.#previous = this.#previous.slice(0, capacity);
    this.#lookup.trim();
  }

  #newCode(value: string | number | boolean): number {
    const code = this.#unused.pop() ?? this.#nextCode++;
    if (code >= this.#counts.length) {
      this.#counts = longer(this.#counts, code + 1);
      this.#first = longer(this.#first, code + 1);
    }
    if (typeof value === "string") {
      this.#strings.set(code, value);
      this.#lookup.add(code);
    }
    if (typeof value === "string" && code >= COMMON) return code;
    this.#common.set(value, code);
    this.#decoded[code] = value;
    return code;
  }

  #forget(code: number): void {
    if (this.#strings.has(code)) {
      this.#lookup.remove(code);
      this.#strings.clear(code);
    }
    const value = this.#decoded[code];
    if (value !== undefined) this.#common.delete(value);
    delete this.#decoded[code];
    this.#unused.push(code);
  }

  #growChains(needed: number): void {
    this.#next = longer(this.#next, Math.max(needed, this.#codes.length));
    this.#previous = longer(this.#previous, this.#next.length);
  }
}
