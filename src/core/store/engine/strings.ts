import { longer } from "./longer.ts";

/** Bytes of a new block. */
const FIRST = 1024;
/** Bytes that nothing refers to, from which on a block is copied without them. */
const WASTE = 64 * 1024;
/** Numbers in later ids have more digits. */
const MARGIN = 1.25;
/** The multiplier of hashes: that of MurmurHash2. */
export const MULTIPLIER = 0x5bd1e995;

/**
 * A string for each of many numbers, all in one block of memory: a few bytes besides its characters, and nothing that
 * the garbage collector visits. Any string can be stored, also with halves of surrogate pairs. What writes and lists
 * need most is in few functions: a call costs as much as some characters.
 */
export class Strings {
  /**
   * Of each string: its number of characters, twice, and one more if they have two bytes each; then its characters. Read
   * by `StringLookup`, too.
   */
  bytes = Buffer.alloc(FIRST);
  /** Where each string starts; 0 is none. Read by `StringLookup`, too. */
  starts = new Uint32Array(64);
  #end = 1;
  #waste = 0;

  /** One more than the highest number with memory. */
  get capacity(): number {
    return this.starts.length;
  }

  /** Makes room for numbers below `count`, and for as many bytes. */
  reserve(count: number, bytes = 0): void {
    if (count > this.starts.length) this.starts = longer(this.starts, count, 1);
    if (bytes > this.bytes.length) this.#grow(bytes);
  }

  /** Makes room for numbers below `count`, and for as many strings that are as long as those of some values. */
  reserveLike(some: readonly unknown[], count: number): void {
    let bytes = 0;
    for (const one of some) if (typeof one === "string") bytes += one.length + 1;
    this.reserve(count, Math.ceil((bytes / some.length) * count * MARGIN));
  }

  has(at: number): boolean {
    return this.starts[at]! > 0;
  }

  get(at: number): string | undefined {
    const start = this.starts[at];
    if (start === undefined || start === 0) return undefined;
    const bytes = this.bytes;
    const first = bytes[start]!;
    const head = first < 255 ? first : bytes.readUInt32LE(start + 1);
    const from = first < 255 ? start + 1 : start + 5;
    const length = head >>> 1;
    return (head & 1) === 0
      ? bytes.toString("latin1", from, from + length)
      : bytes.toString("utf16le", from, from + 2 * length);
  }

  set(at: number, value: string): void {
    if (this.starts[at]! > 0) this.clear(at);
    const { length } = value;
    const most = this.#end + 2 * length + 5;
    if (most > this.bytes.length) this.#grow(most);
    if (at >= this.starts.length) this.starts = longer(this.starts, at + 1);
    const bytes = this.bytes;
    let to = this.#end;
    if (length < 128) bytes[to++] = length * 2;
    else to = writeLongHead(bytes, to, length * 2);
    for (let i = 0; i < length; i++) {
      const unit = value.charCodeAt(i);
      if (unit > 255) {
        to = writeWide(bytes, this.#end, value);
        break;
      }
      bytes[to++] = unit;
    }
    this.starts[at] = this.#end;
    this.#end = to;
  }

  clear(at: number): void {
    const start = this.starts[at];
    if (start === undefined || start === 0) return;
    const head = this.bytes[start]!;
    const end = head < 255 && (head & 1) === 0 ? start + 1 + head / 2 : this.#endAt(start);
    if (end === this.#end) this.#end = start;
    else this.#waste += end - start;
    this.starts[at] = 0;
    if (this.#waste > WASTE && this.#waste > this.#end / 2) this.#compact();
  }

  equals(at: number, value: string): boolean {
    const start = this.starts[at];
    if (start === undefined || start === 0) return false;
    const bytes = this.bytes;
    const { length } = value;
    const head = bytes[start]!;
    // Long and wide ones are rare.
    if (head === 255 || (head & 1) === 1) return this.get(at) === value;
    if (head !== length * 2) return false;
    for (let i = 0; i < length; i++) if (bytes[start + 1 + i] !== value.charCodeAt(i)) return false;
    return true;
  }

  /** Order of two strings by code unit. */
  compare(a: number, b: number): number {
    const one = this.starts[a]!;
    const other = this.starts[b]!;
    const bytes = this.bytes;
    const head = bytes[one]!;
    const otherHead = bytes[other]!;
    if (head === 255 || otherHead === 255 || ((head | otherHead) & 1) === 1) {
      const [left, right] = [this.get(a)!, this.get(b)!];
      return left < right ? -1 : Number(left !== right);
    }
    const count = Math.min(head, otherHead) >>> 1;
    for (let i = 1; i <= count; i++) {
      const distance = bytes[one + i]! - bytes[other + i]!;
      if (distance !== 0) return distance;
    }
    return head - otherHead;
  }

  /** The hash of a string here, as `StringLookup.find` makes it of a value. */
  hashAt(at: number, seed: number): number {
    const bytes = this.bytes;
    const start = this.starts[at]!;
    const head = bytes[start]!;
    let hash = seed;
    if (head === 255 || (head & 1) === 1) {
      const value = this.get(at)!;
      for (let i = 0; i < value.length; i++) {
        hash = Math.imul(hash ^ value.charCodeAt(i), MULTIPLIER);
        hash ^= hash >>> 15;
      }
      return hash;
    }
    const end = start + (head >>> 1);
    for (let i = start + 1; i <= end; i++) {
      hash = Math.imul(hash ^ bytes[i]!, MULTIPLIER);
      hash ^= hash >>> 15;
    }
    return hash;
  }

  /** Releases the memory of the numbers from `capacity` on, which have no strings. */
  trim(capacity: number): void {
    this.starts = this.starts.slice(0, Math.max(capacity, 64));
    this.#compact();
  }

  #endAt(start: number): number {
    const bytes = this.bytes;
    const first = bytes[start]!;
    const head = first < 255 ? first : bytes.readUInt32LE(start + 1);
    return start + (first < 255 ? 1 : 5) + ((head & 1) === 1 ? head - 1 : head >>> 1);
  }

  #grow(needed: number): void {
    const next = Buffer.alloc(Math.max(needed, Math.ceil(this.bytes.length * 1.5)));
    next.set(this.bytes.subarray(0, this.#end));
    this.bytes = next;
  }

  /** Copies all strings without the gaps between them. */
  #compact(): void {
    const next = Buffer.alloc(Math.max(FIRST, Math.ceil((this.#end - this.#waste) * 1.25)));
    let to = 1;
    for (let at = 0; at < this.starts.length; at++) {
      const start = this.starts[at]!;
      if (start === 0) continue;
      const end = this.#endAt(start);
      next.set(this.bytes.subarray(start, end), to);
      this.starts[at] = to;
      to += end - start;
    }
    this.bytes = next;
    this.#end = to;
    this.#waste = 0;
  }
}

/** Heads below 255 have one byte, others five. */
function writeLongHead(bytes: Buffer, at: number, head: number): number {
  bytes[at] = 255;
  return bytes.writeUInt32LE(head, at + 1);
}

/** Writes a string with characters that need two bytes. */
function writeWide(bytes: Buffer, at: number, value: string): number {
  const head = value.length * 2 + 1;
  let to = at + 1;
  if (head < 255) bytes[at] = head;
  else to = writeLongHead(bytes, at, head);
  return to + bytes.write(value, to, "utf16le");
}
