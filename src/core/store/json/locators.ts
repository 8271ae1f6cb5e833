/** Location of a line. */
export interface Locator {
  readonly segment: number;
  readonly offset: number;
  readonly length: number;
}

/** Numbers of each slot. */
const WIDTH = 5;
/** What the two halves of the number of a write have in common. */
const HALF = 2 ** 32;

/** Location of each slot's newest line, and the number of its write: twenty bytes each. */
export class Locators {
  #numbers = new Uint32Array(WIDTH * 64);

  /** One more than the highest slot with memory. */
  get capacity(): number {
    return this.#numbers.length / WIDTH;
  }

  /** Makes room for as many slots. */
  reserve(count: number): void {
    if (count * WIDTH <= this.#numbers.length) return;
    const next = new Uint32Array(count * WIDTH);
    next.set(this.#numbers);
    this.#numbers = next;
  }

  get(slot: number): Locator {
    const at = slot * WIDTH;
    return { segment: this.#numbers[at]!, offset: this.#numbers[at + 1]!, length: this.#numbers[at + 2]! };
  }

  /** Number of the write of a slot's line. */
  seqOf(slot: number): number {
    const at = slot * WIDTH;
    return this.#numbers[at + 3]! + this.#numbers[at + 4]! * HALF;
  }

  set(slot: number, { segment, offset, length }: Locator, seq: number): void {
    const at = slot * WIDTH;
    if (at + WIDTH > this.#numbers.length) this.#grow(at + WIDTH);
    const numbers = this.#numbers;
    numbers[at] = segment;
    numbers[at + 1] = offset;
    numbers[at + 2] = length;
    numbers[at + 3] = seq;
    numbers[at + 4] = seq / HALF;
  }

  /** Notes that a slot's line was copied. */
  move(slot: number, to: Locator): void {
    this.set(slot, to, this.seqOf(slot));
  }

  /** Forgets a slot; segment 0 does not exist. */
  clear(slot: number): void {
    this.set(slot, { segment: 0, offset: 0, length: 0 }, 0);
  }

  isAt(slot: number, segment: number, offset: number): boolean {
    return this.#numbers[slot * WIDTH] === segment && this.#numbers[slot * WIDTH + 1] === offset;
  }

  /** The slots from `from` to before `to` whose line is in one of `segments`. */
  *slotsIn(segments: ReadonlySet<number>, from: number, to: number): Generator<number, void> {
    const numbers = this.#numbers;
    const end = Math.min(to * WIDTH, numbers.length);
    for (let at = from * WIDTH; at < end; at += WIDTH) if (segments.has(numbers[at]!)) yield at / WIDTH;
  }

  #grow(needed: number): void {
    const next = new Uint32Array(Math.max(needed, Math.ceil((this.#numbers.length * 1.5) / WIDTH) * WIDTH));
    next.set(this.#numbers);
    this.#numbers = next;
  }
}

/** Locations of one key's entries, in order, and the numbers of their writes: four numbers each, no text. */
export class EntryLocators {
  readonly #numbers: number[] = [];
  #newest = 0;

  /** The highest number of a file that contains, or once contained, an entry. */
  get newest(): number {
    return this.#newest;
  }

  get count(): number {
    return this.#numbers.length / 4;
  }

  /** Entry `number`, counted from 1. */
  get(number: number): Locator {
    const at = (number - 1) * 4;
    return { segment: this.#numbers[at]!, offset: this.#numbers[at + 1]!, length: this.#numbers[at + 2]! };
  }

  /** Number of the write of entry `number`. */
  seqOf(number: number): number {
    return this.#numbers[(number - 1) * 4 + 3]!;
  }

  push({ segment, offset, length }: Locator, seq: number): void {
    this.#numbers.push(segment, offset, length, seq);
    this.#newest = Math.max(this.#newest, segment);
  }

  move(number: number, { segment, offset, length }: Locator): void {
    const at = (number - 1) * 4;
    this.#numbers[at] = segment;
    this.#numbers[at + 1] = offset;
    this.#numbers[at + 2] = length;
    this.#newest = Math.max(this.#newest, segment);
  }

  isAt(number: number, segment: number, offset: number): boolean {
    const at = (number - 1) * 4;
    return this.#numbers[at] === segment && this.#numbers[at + 1] === offset;
  }

  /** The numbers, from `from` to before `to`, of entries whose line is in one of `segments`. */
  *numbersIn(segments: ReadonlySet<number>, from: number, to: number): Generator<number, void> {
    const numbers = this.#numbers;
    const end = Math.min((to - 1) * 4, numbers.length);
    for (let at = (from - 1) * 4; at < end; at += 4) if (segments.has(numbers[at]!)) yield at / 4 + 1;
  }
}
