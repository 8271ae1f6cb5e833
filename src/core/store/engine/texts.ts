/** Slots of a block: their texts are one string, and are searched together. */
export const BLOCK = 256;
/** Changed texts of a block that are kept beside its string. */
const CHANGED = 64;

/** The texts of some slots, one after another. */
interface Block {
  joined: string;
  /** Where the text of each slot ends. */
  readonly ends: Uint32Array;
  /** Texts that differ from those in the string, by place, and their number. */
  changed: (string | undefined)[];
  count: number;
}

/**
 * A text for each slot, in few long strings: they cost little more than their characters, and searching them takes one
 * call for many slots. A search finds exactly the texts that contain the needle.
 */
export class Texts {
  readonly #blocks: Block[] = [];

  get(slot: number): string {
    const block = this.#blocks[Math.floor(slot / BLOCK)];
    return block === undefined ? "" : textOf(block, slot % BLOCK);
  }

  set(slot: number, text: string): void {
    const number = Math.floor(slot / BLOCK);
    if (text === "" && number >= this.#blocks.length) return;
    const block = this.#blockOf(number);
    const place = slot % BLOCK;
    if (block.changed[place] === undefined) block.count++;
    block.changed[place] = text;
    if (block.count >= CHANGED) pack(block);
  }

  /** Sets the texts of slots from `first` on: each block is joined once. */
  load(first: number, texts: readonly string[]): void {
    for (let at = 0; at < texts.length; ) {
      const block = this.#blockOf(Math.floor((first + at) / BLOCK));
      for (let place = (first + at) % BLOCK; place < BLOCK && at < texts.length; place++)
        block.changed[place] = texts[at++];
      pack(block);
    }
  }

  #blockOf(number: number): Block {
    while (this.#blocks.length <= number)
      this.#blocks.push({ joined: "", ends: new Uint32Array(BLOCK), changed: [], count: 0 });
    return this.#blocks[number]!;
  }

  /**
   * Marks the slots from `from`, the first of a block, to before `to` whose text contains the needle, which is not empty,
   * with 1; returns how many there are.
   */
  search(needle: string, { from, to }: { from: number; to: number }, marks: Uint8Array): number {
    let count = 0;
    for (let number = Math.floor(from / BLOCK); number * BLOCK < to; number++) {
      const block = this.#blocks[number];
      if (block === undefined) break;
      count += searchBlock(block, needle, marks.subarray(number * BLOCK, (number + 1) * BLOCK));
    }
    return count;
  }

  /** Releases the memory after the first `capacity` slots, which is unused. */
  trim(capacity: number): void {
    this.#blocks.length = Math.min(this.#blocks.length, Math.ceil(capacity / BLOCK));
    for (const block of this.#blocks) pack(block);
  }
}

function textOf({ joined, ends, changed }: Block, place: number): string {
  return changed[place] ?? joined.slice(place === 0 ? 0 : ends[place - 1], ends[place]);
}

/** Makes one string of all texts. */
function pack(block: Block): void {
  const texts: string[] = [];
  let end = 0;
  for (let place = 0; place < BLOCK; place++) texts.push(textOf(block, place));
  for (let place = 0; place < BLOCK; place++) {
    end += texts[place]!.length;
    block.ends[place] = end;
  }
  block.joined = texts.join("");
  block.changed = [];
  block.count = 0;
}

function searchBlock({ joined, ends, changed, count }: Block, needle: string, marks: Uint8Array): number {
  let hits = 0;
  let place = 0;
  for (let at = joined.indexOf(needle); at >= 0; ) {
    while (ends[place]! <= at) place++;
    const end = ends[place]!;
    // It may be in the end of one text and the beginning of the next.
    const isWhole = at + needle.length <= end;
    if (isWhole && changed[place] === undefined) {
      marks[place] = 1;
      hits++;
    }
    at = joined.indexOf(needle, isWhole ? end : at + 1);
  }
  if (count === 0) return hits;
  for (let at = 0; at < changed.length; at++) {
    if (!changed[at]?.includes(needle)) continue;
    marks[at] = 1;
    hits++;
  }
  return hits;
}
