/** Chunks stay between half and this many slots: short enough to shift, long enough to be few. */
const CHUNK = 512;
/** Slots that a chunk gets room for at a time. */
const ROOM = 32;

/** Slots in order; those from `length` on are unused. */
interface Chunk {
  slots: Uint32Array;
  length: number;
}

interface Walk {
  readonly matches: (slot: number) => boolean;
  readonly visit: (slot: number) => boolean;
  /** Whether a slot is where the walk starts, or behind it; once it holds, it does for all that follow. @default for all */
  readonly from?: ((slot: number) => boolean) | undefined;
}

/**
 * The slots of a table in the order of one field, in chunks, so that moving one among hundreds of thousands costs
 * a binary search and the shift of one chunk.
 */
export class SortedOrder {
  readonly #compare: (a: number, b: number) => number;
  #chunks: Chunk[] = [];

  /** Keeps `slots`. `compare` must distinguish any two of them, and use the values that a slot had when it was inserted. */
  constructor(slots: Uint32Array, compare: (a: number, b: number) => number) {
    this.#compare = compare;
    // Those of a checkpoint mostly are in order. An array's sort, unlike that of a typed one, is quick where most are.
    const all = isInOrder(slots, compare) ? slots : Uint32Array.from(Array.from(slots).sort(compare));
    // Views of one array, until they get room of their own.
    for (let at = 0; at < all.length; at += CHUNK / 2)
      this.#chunks.push(chunkOf(all.subarray(at, at + CHUNK / 2)));
  }

  insert(slot: number): void {
    const at = this.#chunkFor(slot);
    const chunk = this.#chunks[at];
    if (chunk === undefined) {
      this.#chunks.push(chunkOf(Uint32Array.of(slot)));
      return;
    }
    const position = this.#isBehind(chunk, slot) ? chunk.length : this.#positionIn(chunk, slot);
    if (chunk.length === chunk.slots.length) makeRoom(chunk);
    chunk.slots.copyWithin(position + 1, position, chunk.length);
    chunk.slots[position] = slot;
    chunk.length++;
    if (chunk.length <= CHUNK) return;
    this.#chunks.splice(at + 1, 0, chunkOf(chunk.slots.slice(CHUNK / 2, chunk.length)));
    this.#chunks[at] = chunkOf(chunk.slots.slice(0, CHUNK / 2));
  }

  remove(slot: number): void {
    // One that was changed was mostly new, or changed, just before.
    const newest = this.#chunks.at(-1);
    const place = newest === undefined ? -1 : newest.slots.lastIndexOf(slot, newest.length - 1);
    if (place >= 0) {
      newest!.slots.copyWithin(place, place + 1, newest!.length--);
      if (newest!.length === 0) this.#chunks.pop();
      return;
    }
    const at = this.#chunkFor(slot);
    const chunk = this.#chunks[at]!;
    const position = this.#positionIn(chunk, slot);
    if (position >= chunk.length || chunk.slots[position] !== slot)
      throw new Error(`slot ${slot} is not where its values say`);
    chunk.slots.copyWithin(position, position + 1, chunk.length--);
    if (chunk.length === 0) this.#chunks.splice(at, 1);
  }

  /** Visits the slots that match in ascending order until `visit` returns `false`. */
  ascend({ matches, visit, from }: Walk): void {
    const first = from ? firstOf(this.#chunks, (chunk) => from(lastOf(chunk))) : 0;
    for (let c = first; c < this.#chunks.length; c++) {
      const chunk = this.#chunks[c]!;
      for (let i = from && c === first ? firstSlot(chunk, from) : 0; i < chunk.length; i++) {
        const slot = chunk.slots[i]!;
        if (matches(slot) && !visit(slot)) return;
      }
    }
  }

  /** Visits slots by descending value; slots for which `ties` holds keep their ascending order. */
  descend({ matches, visit, ties, from }: Walk & { ties: (a: number, b: number) => boolean }): void {
    let run: number[] = [];
    const chunks = this.#chunks;
    const first = from ? firstOf(chunks, (chunk) => !from(chunk.slots[0]!)) - 1 : chunks.length - 1;
    for (let c = first; c >= 0; c--) {
      const chunk = chunks[c]!;
      const end = from && c === first ? firstSlot(chunk, (slot) => !from(slot)) : chunk.length;
      for (let i = end - 1; i >= 0; i--) {
        const slot = chunk.slots[i]!;
        if (!matches(slot)) continue;
        if (run.length > 0 && !ties(run[0]!, slot)) {
          if (!visitBackwards(run, visit)) return;
          run = [];
        }
        run.push(slot);
      }
    }
    visitBackwards(run, visit);
  }

  /** The slots from the first one for which `from` holds to the last one before `until` holds: both hold for all that follow. */
  between(
    from: (slot: number) => boolean,
    until: (slot: number) => boolean,
  ): { readonly count: number; readonly slots: () => Iterable<number> } {
    const chunks = this.#chunks;
    const placeOf = (holds: (slot: number) => boolean) => {
      const c = firstOf(chunks, (chunk) => holds(lastOf(chunk)));
      return { c, i: c === chunks.length ? 0 : firstSlot(chunks[c]!, holds) };
    };
    const [first, end] = [placeOf(from), placeOf(until)];
    let count = end.i - first.i;
    for (let c = first.c; c < end.c; c++) count += chunks[c]!.length;
    function* slots(): Generator<number, void> {
      for (let c = first.c; c <= end.c && c < chunks.length; c++) {
        const to = c === end.c ? end.i : chunks[c]!.length;
        for (let i = c === first.c ? first.i : 0; i < to; i++) yield chunks[c]!.slots[i]!;
      }
    }
    return { count: Math.max(count, 0), slots };
  }

  /** The first chunk whose last slot is not before `slot`, else the last chunk. */
  #chunkFor(slot: number): number {
    let low = 0;
    let high = this.#chunks.length - 1;
    // New and just changed entities come last.
    if (high < 0 || this.#isBehind(this.#chunks[high]!, slot)) return Math.max(high, 0);
    while (low < high) {
      const middle = (low + high) >> 1;
      const chunk = this.#chunks[middle]!;
      if (this.#isBehind(chunk, slot)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #isBehind(chunk: Chunk, slot: number): boolean {
    return this.#compare(chunk.slots[chunk.length - 1]!, slot) < 0;
  }

  #positionIn({ slots, length }: Chunk, slot: number): number {
    let low = 0;
    let high = length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(slots[middle]!, slot) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isInOrder(slots: Uint32Array, compare: (a: number, b: number) => number): boolean {
  for (let at = 1; at < slots.length; at++) if (compare(slots[at - 1]!, slots[at]!) > 0) return false;
  return true;
}

function chunkOf(slots: Uint32Array): Chunk {
  return { slots, length: slots.length };
}

function lastOf({ slots, length }: Chunk): number {
  return slots[length - 1]!;
}

function makeRoom(chunk: Chunk): void {
  const next = new Uint32Array(chunk.length + ROOM);
  next.set(chunk.slots);
  chunk.slots = next;
}

function visitBackwards(run: number[], visit: (slot: number) => boolean): boolean {
  for (let i = run.length - 1; i >= 0; i--) if (!visit(run[i]!)) return false;
  return true;
}

function firstSlot({ slots, length }: Chunk, holds: (slot: number) => boolean): number {
  return firstOf(slots.subarray(0, length), holds);
}

/** The index of the first item for which a condition holds, as it does for all after it; their number where there is none. */
function firstOf<T>(items: ArrayLike<T>, holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(items[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}
