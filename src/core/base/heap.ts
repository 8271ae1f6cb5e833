/** What a heap keeps: it notes where each is, so that one may be found, moved and removed. */
export interface HeapEntry {
  /** Index in the heap; -1 while it is in none. */
  at: number;
}

/** Entries of which the first, in the order of `isBefore`, is at hand; all else costs the logarithm of their number. */
export class Heap<T extends HeapEntry> {
  readonly #entries: T[] = [];
  readonly #isBefore: (one: T, other: T) => boolean;

  constructor(isBefore: (one: T, other: T) => boolean) {
    this.#isBefore = isBefore;
  }

  get first(): T | undefined {
    return this.#entries[0];
  }

  /** Adds an entry, or finds the new place of one whose order has changed. */
  put(entry: T): void {
    if (entry.at < 0) {
      entry.at = this.#entries.length;
      this.#entries.push(entry);
    }
    this.#rise(entry);
    this.#sink(entry);
  }

  remove(entry: T): void {
    const { at } = entry;
    if (at < 0) return;
    const last = this.#entries.pop()!;
    entry.at = -1;
    if (last === entry) return;
    this.#set(last, at);
    this.#rise(last);
    this.#sink(last);
  }

  #rise(entry: T): void {
    while (entry.at > 0) {
      const parent = this.#entries[(entry.at - 1) >> 1]!;
      if (!this.#isBefore(entry, parent)) return;
      this.#swap(entry, parent);
    }
  }

  #sink(entry: T): void {
    for (;;) {
      const [left, right] = [this.#entries[2 * entry.at + 1], this.#entries[2 * entry.at + 2]];
      const child = left && right && this.#isBefore(right, left) ? right : left;
      if (!child || !this.#isBefore(child, entry)) return;
      this.#swap(entry, child);
    }
  }

  #swap(one: T, other: T): void {
    const { at } = one;
    this.#set(one, other.at);
    this.#set(other, at);
  }

  #set(entry: T, at: number): void {
    this.#entries[at] = entry;
    entry.at = at;
  }
}
