import type { IndexValue } from "./store.ts";

/** From here on a `Set` is quicker to remove from than an array is to search. */
const MANY = 64;

/** The slots that have one value: a number, a short array or a set, as most values of an id-like field have one or few. */
interface Posting {
  readonly value: IndexValue;
  slots: number | number[] | Set<number>;
}

/** The values of one field and which slots have them. */
export class Facet {
  readonly #postings = new Map<IndexValue, Posting>();

  /** Adds a slot; returns the value as first seen, so that equal strings are held once. */
  add(value: IndexValue, slot: number): IndexValue {
    const posting = this.#postings.get(value);
    if (posting === undefined) {
      this.#postings.set(value, { value, slots: slot });
      return value;
    }
    if (typeof posting.slots === "number") posting.slots = [posting.slots, slot];
    else if (posting.slots instanceof Set) posting.slots.add(slot);
    else if (posting.slots.push(slot) > MANY) posting.slots = new Set(posting.slots);
    return posting.value;
  }

  remove(value: IndexValue, slot: number): void {
    const posting = this.#postings.get(value);
    if (posting === undefined) return;
    if (typeof posting.slots === "number") {
      this.#postings.delete(value);
      return;
    }
    if (posting.slots instanceof Set) posting.slots.delete(slot);
    else posting.slots.splice(posting.slots.indexOf(slot), 1);
    if (this.count(value) === 0) this.#postings.delete(value);
  }

  count(value: IndexValue): number {
    const slots = this.#postings.get(value)?.slots;
    if (slots === undefined) return 0;
    if (typeof slots === "number") return 1;
    return slots instanceof Set ? slots.size : slots.length;
  }

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
}
