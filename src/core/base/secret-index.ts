/** Characters at the end of a text from which on they may be the beginning of a known one. */
const SHORTEST_START = 2;

/** Characters that are hashed together. */
const BLOCK = 3;

/**
 * Finds any of many fixed texts; its speed does not depend on how many there are. Like the search of Wu and Manber, it
 * reads the end of a window of `prefixLength` characters, and mostly moves on by all but two of them.
 */
export class SecretIndex {
  readonly #prefixLength: number;
  /**
   * Texts by their first characters, then by length: many keys of one vendor start with the same characters.
   */
  readonly #byPrefix = new Map<string, Map<number, Set<string>>>();
  /** Whether a text starts with a block of this hash: avoids most lookups. */
  readonly #filter = new Uint8Array(1 << 16);
  /** How far the window can move where its last block has this hash, as no text has such a block nearer to its prefix's end. */
  readonly #shifts: Uint8Array;
  /** The beginnings of texts that are shorter than a prefix, from `SHORTEST_START` characters on. */
  readonly #starts = new Set<string>();
  #longest = 0;
  /** How many beginnings its texts have. */
  size = 0;

  /** `prefixLength` is the length of the shortest text that will be added. */
  constructor(prefixLength: number) {
    this.#prefixLength = prefixLength;
    this.#shifts = new Uint8Array(1 << 16).fill(prefixLength - BLOCK + 1);
  }

  add(texts: readonly string[]): void {
    for (const text of texts) {
      const prefix = text.slice(0, this.#prefixLength);
      const lengths = this.#byPrefix.get(prefix) ?? new Map<number, Set<string>>();
      this.#byPrefix.set(prefix, lengths);
      this.size = this.#byPrefix.size;
      lengths.set(text.length, (lengths.get(text.length) ?? new Set()).add(text));
      this.#filter[hash(text, 0)] = 1;
      for (let at = 0; at + BLOCK <= prefix.length; at++) {
        const block = hash(text, at);
        this.#shifts[block] = Math.min(this.#shifts[block]!, prefix.length - BLOCK - at);
      }
      this.#longest = Math.max(this.#longest, text.length);
      for (let end = SHORTEST_START; end < prefix.length; end++) this.#starts.add(prefix.slice(0, end));
    }
  }

  finds(text: string): boolean {
    return this.#next(text, 0) !== undefined;
  }

  /**
   * Replaces each range that known texts cover; overlapping ranges are replaced together. The first `skip` characters are
   * omitted from the result: they only count for what is found.
   */
  replace(text: string, mask: string, skip = 0): string {
    let match = this.#next(text, 0);
    if (!match) return text.slice(skip);
    let clean = "";
    let done = skip;
    while (match) {
      clean += text.slice(done, match.start) + mask;
      done = match.end;
      match = this.#next(text, done);
    }
    return clean + text.slice(done);
  }

  /** The number of characters at the start of a text that stay as they are found now, whatever follows. */
  settled(text: string): number {
    let end = this.#openFrom(text);
    for (let match = this.#next(text, 0); match && match.start < end; match = this.#next(text, match.end)) {
      if (match.end > end) end = match.start;
    }
    return end;
  }

  /** Where the beginning of a known text starts that the end of `text` cuts off. */
  #openFrom(text: string): number {
    const last = text.length - SHORTEST_START;
    for (let start = Math.max(0, text.length - this.#longest + 1); start <= last; start++) {
      const left = text.length - start;
      if (left < this.#prefixLength) {
        if (this.#starts.has(text.slice(start))) return start;
      } else if (this.#filter[hash(text, start)] === 1 && this.#isBeginning(text.slice(start))) return start;
    }
    return text.length;
  }

  #isBeginning(text: string): boolean {
    for (const [length, texts] of this.#byPrefix.get(text.slice(0, this.#prefixLength)) ?? []) {
      if (length <= text.length) continue;
      for (const one of texts) if (one.startsWith(text)) return true;
    }
    return false;
  }

  #next(text: string, from: number): { start: number; end: number } | undefined {
    if (this.#byPrefix.size === 0) return undefined;
    const last = text.length - this.#prefixLength;
    const toBlock = this.#prefixLength - BLOCK;
    const shifts = this.#shifts;
    let start = from;
    while (start <= last) {
      const at = start + toBlock;
      // As `hash` does: a call for each block would be most of the calls that a job makes.
      const block =
        ((text.charCodeAt(at) * 31 + text.charCodeAt(at + 1)) * 31 + text.charCodeAt(at + 2) * 7) & 0xff_ff;
      const shift = shifts[block]!;
      if (shift > 0) {
        start += shift;
        continue;
      }
      let end = this.#endAt(text, start);
      if (end === undefined) {
        start++;
        continue;
      }
      for (let inside = start + 1; inside < end && inside <= last; inside++) {
        end = Math.max(end, this.#endAt(text, inside) ?? end);
      }
      return { start, end };
    }
    return undefined;
  }

  #endAt(text: string, at: number): number | undefined {
    if (this.#filter[hash(text, at)] === 0) return undefined;
    const lengths = this.#byPrefix.get(text.slice(at, at + this.#prefixLength));
    let end: number | undefined;
    for (const [length, texts] of lengths ?? []) {
      if (at + length > (end ?? 0) && texts.has(text.slice(at, at + length))) end = at + length;
    }
    return end;
  }
}

/** The hash of the block at a position. */
function hash(text: string, at: number): number {
  return ((text.charCodeAt(at) * 31 + text.charCodeAt(at + 1)) * 31 + text.charCodeAt(at + 2) * 7) & 0xff_ff;
}
