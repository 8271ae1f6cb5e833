import { randomInt } from "node:crypto";
import { MULTIPLIER, type Strings } from "./strings.ts";

/** Finds strings by their value: eight to sixteen bytes for each. */
export class StringLookup {
  readonly #strings: Strings;
  /** Unknown outside, so that nobody can choose strings that all have the same place. */
  readonly #seed = randomInt(2 ** 31);
  /** One more than the number of a string; 0 is a free place. Its length is a power of two. */
  #places = new Uint32Array(64);
  #size = 0;

  constructor(strings: Strings) {
    this.#strings = strings;
  }

  get size(): number {
    return this.#size;
  }

  find(value: string): number | undefined {
    const places = this.#places;
    const mask = places.length - 1;
    const { bytes, starts } = this.#strings;
    const { length } = value;
    let hash = this.#seed;
    for (let i = 0; i < length; i++) {
      hash = Math.imul(hash ^ value.charCodeAt(i), MULTIPLIER);
      hash ^= hash >>> 15;
    }
    for (let place = hash & mask; ; place = (place + 1) & mask) {
      const number = places[place]! - 1;
      if (number < 0) return undefined;
      const start = starts[number]!;
      const head = bytes[start]!;
      if (head === 255 || (head & 1) === 1) {
        if (this.#strings.get(number) === value) return number;
      } else if (head === length * 2) {
        let i = 0;
        while (i < length && bytes[start + 1 + i] === value.charCodeAt(i)) i++;
        if (i === length) return number;
      }
    }
  }

  /** Adds a string that is stored under a number, and whose value none has yet. */
  add(number: number): void {
    this.#size++;
    if (this.#size * 2 > this.#places.length) this.#resize(this.#places.length * 2);
    const places = this.#places;
    const mask = places.length - 1;
    let at = this.#strings.hashAt(number, this.#seed) & mask;
    while (places[at]! > 0) at = (at + 1) & mask;
    places[at] = number + 1;
  }

  /** Removes a string, which must still be stored. */
  remove(number: number): void {
    const places = this.#places;
    const mask = places.length - 1;
    let at = this.#strings.hashAt(number, this.#seed) & mask;
    while (places[at] !== number + 1) at = (at + 1) & mask;
    this.#size--;
    // Those behind it move up, so that none is behind a free place.
    for (let next = (at + 1) & mask; places[next] !== 0; next = (next + 1) & mask) {
      const home = this.#homeOf(places[next]! - 1);
      if (((next - home) & mask) < ((next - at) & mask)) continue;
      places[at] = places[next]!;
      at = next;
    }
    places[at] = 0;
  }

  /** Makes room for as many strings in all. */
  reserve(count: number): void {
    let { length } = this.#places;
    while (count * 2 > length) length *= 2;
    if (length > this.#places.length) this.#resize(length);
  }

  /** Releases memory that a smaller number of strings does not need. */
  trim(): void {
    let length = 64;
    while (this.#size * 2 > length) length *= 2;
    if (length < this.#places.length) this.#resize(length);
  }

  #homeOf(number: number): number {
    return this.#strings.hashAt(number, this.#seed) & (this.#places.length - 1);
  }

  #resize(length: number): void {
    const before = this.#places;
    const places = new Uint32Array(length);
    this.#places = places;
    for (let from = 0; from < before.length; from++) {
      if (before[from] === 0) continue;
      let at = this.#homeOf(before[from]! - 1);
      while (places[at]! > 0) at = (at + 1) & (length - 1);
      places[at] = before[from]!;
    }
  }
}
