import type { IndexValue } from "../store.ts";

/** Maximum number of slots in a list that is scanned for one of them. */
const FEW = 64;

/**
 * The slots that have one value: a number or an unordered list, as most values of an id-like field have one
 * or few.
 */
interface Posting {
  readonly value: IndexValue;
  slots: number | number[];
  /** Whether the position of each slot in the list is kept. */
  isPlaced: boolean;
}

/** The values of one field and which slots have them. A slot has one value. */
export class Facet {
  readonly #postings = new Map<IndexValue, Posting>();
  /** The position of each slot in the list of its value, if kept. */
  #places = new Uint32Array(0);

  /** Adds a slot; returns the value as first seen, so that equal strings are held once. */
  add(value: IndexValue, slot: number): IndexValue {
    const posting = this.#postings.get(value);
    if (posting === undefined) {
      this.#postings.set(value, { value, slots: slot, isPlaced: false });
      return value;
    }
    if (typeof posting.slots === "number") {
      posting.slots = [posting.slots, slot];
      return posting.value;
    }
    const count = posting.slots.push(slot);
    if (posting.isPlaced) this.#place(slot, count - 1);
    else if (count > FEW) {
      posting.isPlaced = true;
      for (let at = 0; at < count; at++) this.#place(posting.slots[at]!, at);
    }
    return posting.value;
  }

  remove(value: IndexValue, slot: number): void {
    const posting = this.#postings.get(value);
    if (posting === undefined) return;
    const { slots, isPlaced } = posting;
    if (typeof slots === "number") {
      this.#postings.delete(value);
      return;
    }
    const at = isPlaced ? this.#places[slot]! : slots.indexOf(slot);
    // The last one takes its place.
    const last = slots.pop()!;
    if (last !== slot) {
      slots[at] = last;
      if (isPlaced) this.#place(last, at);
    }
    if (slots.length === 0) this.#postings.delete(value);
  }

  count(value: IndexValue): number {
    const slots = this.#postings.get(value)?.slots;
    if (slots === undefined) return 0;
    return typeof slots === "number" ? 1 : slots.length;
  }

  /** Unordered. */
  slots(value: IndexValue): Iterable<number> {
    const slots = this.#postings.get(value)?.slots ?? [];
    return typeof slots === "number" ? [slots] : slots;
  }

  /** Number of distinct values. */
  get size(): number {
    return this.#postings.size;
  }

  values(): Iterable<IndexValue> {
    return this.#postings.keys();
  }

  /** Releases the memory after the first `capacity` slots, which is unused. */
  trim(capacity: number): void {
    this.#places = this.#places.slice(0, capacity);
  }

  #place(slot: number, at: number): void {
    if (slot >= this.#places.length) {
      const next = new Uint32Array(Math.ceil((slot + 1) * 1.5));
      next.set(this.#places);
      this.#places = next;
    }
    this.#places[slot] = at;
  }
}
