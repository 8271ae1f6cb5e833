/**
 * Free slots, lowest first, so that used ones gather at the beginning and memory at the end can be released.
 * A slot may be listed twice, or be used in the meantime: check that it is free before you use it.
 */
export class FreeSlots {
  /** A heap: no slot is higher than the two at twice its place. */
  #slots: number[] = [];

  add(slot: number): void {
    const slots = this.#slots;
    let at = slots.push(slot) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (slots[parent]! <= slot) break;
      slots[at] = slots[parent]!;
      at = parent;
    }
    slots[at] = slot;
  }

  /** Removes and returns the lowest. */
  take(): number | undefined {
    const slots = this.#slots;
    const lowest = slots[0];
    const last = slots.pop();
    if (last === undefined || slots.length === 0) return lowest;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= slots.length) break;
      if (child + 1 < slots.length && slots[child + 1]! < slots[child]!) child++;
      if (slots[child]! >= last) break;
      slots[at] = slots[child]!;
      at = child;
    }
    slots[at] = last;
    return lowest;
  }

  clear(): void {
    this.#slots = [];
  }
}
