/** Location of a line. */
export interface Locator {
  readonly segment: number;
  readonly offset: number;
  readonly length: number;
}

/** Location of each slot's newest line: twelve bytes each. */
export class Locators {
  #numbers = new Uint32Array(3 * 64);

  /** One more than the highest slot with memory. */
  get capacity(): number {
    return this.#numbers.length / 3;
  }

  get(slot: number): Locator {
    const at = slot * 3;
    return { segment: this.#numbers[at]!, offset: this.#numbers[at + 1]!, length: this.#numbers[at + 2]! };
  }

  set(slot: number, { segment, offset, length }: Locator): void {
    const at = slot * 3;
    if (at + 3 > this.#numbers.length) this.#grow(at + 3);
    this.#numbers[at] = segment;
    this.#numbers[at + 1] = offset;
    this.#numbers[at + 2] = length;
  }

  /** Forgets a slot; segment 0 does not exist. */
  clear(slot: number): void {
    this.set(slot, { segment: 0, offset: 0, length: 0 });
  }

  isAt(slot: number, segment: number, offset: number): boolean {
    return this.#numbers[slot * 3] === segment && this.#numbers[slot * 3 + 1] === offset;
  }

  /** The slots from `from` to before `to` whose line is in one of `segments`. */
  *slotsIn(segments: ReadonlySet<number>, from: number, to: number): Generator<number, void> {
    const numbers = this.#numbers;
    const end = Math.min(to * 3, numbers.length);
    for (let at = from * 3; at < end; at += 3) if (segments.has(numbers[at]!)) yield at / 3;
  }

  #grow(needed: number): void {
    const next = new Uint32Array(Math.max(needed, Math.ceil(this.#numbers.length * 0.5) * 3));
    next.set(this.#numbers);
    this.#numbers = next;
  }
}

/** Locations of one key's entries, in order: three small numbers each, no text. */
export class EntryLocators {
  readonly #numbers: number[] = [];
  #newest = 0;

  /** The highest number of a file that contains, or once contained, an entry. */
  get newest(): number {
    return this.#newest;
  }

  get count(): number {
    return this.#numbers.length / 3;
  }

  /** Entry `number`, counted from 1. */
  get(number: number): Locator {
    const at = (number - 1) * 3;
    return { segment: this.#numbers[at]!, offset: this.#numbers[at + 1]!, length: this.#numbers[at + 2]! };
  }

  push({ segment, offset, length }: Locator): void {
    this.#numbers.push(segment, offset, length);
    this.#newest = Math.max(this.#newest, segment);
  }

  move(number: number, { segment, offset, length }: Locator): void {
    const at = (number - 1) * 3;
    this.#numbers[at] = segment;
    this.#numbers[at + 1] = offset;
    this.#numbers[at + 2] = length;
    this.#newest = Math.max(this.#newest, segment);
  }

  isAt(number: number, segment: number, offset: number): boolean {
    const at = (number - 1) * 3;
    return this.#numbers[at] === segment && this.#numbers[at + 1] === offset;
  }
  /** The numbers, from `from` to before `to`, of entries whose line is in one of `segments`. */
  *numbersIn(segments: ReadonlySet<number>, from: number, to: number): Generator<number, void> {
    const numbers = this.#numbers;
    const end = Math.min((to - 1) * 3, numbers.length);
    for (let at = (from - 1) * 3; at < end; at += 3) if (segments.has(numbers[at]!)) yield at / 3 + 1;
  }
}
