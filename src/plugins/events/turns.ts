/** Places for work that parties take in turns, so that none waits for more than a turn of each of the others. */
export class Turns<T> {
  readonly #most: number;
  readonly #mostOfParty: number;
  /** In the order of their turns. */
  readonly #waiting = new Map<string, Set<T>>();
  readonly #working = new Map<string, number>();
  #size = 0;

  /** `mostOfParty` is how many places one party may have at the same time. */
  constructor(most: number, mostOfParty = most) {
    this.#most = most;
    this.#mostOfParty = mostOfParty;
  }

  add(party: string, item: T): void {
    const items = this.#waiting.get(party);
    if (items) items.add(item);
    else this.#waiting.set(party, new Set([item]));
  }

  /** Takes a place for the item whose turn it is; the result has what gives it back. */
  take(): { readonly item: T; readonly leave: () => void } | undefined {
    if (this.#size >= this.#most) return undefined;
    for (const [party, items] of this.#waiting) {
      const own = this.#working.get(party) ?? 0;
      if (own >= this.#mostOfParty) continue;
      const item = items.values().next().value as T;
      items.delete(item);
      this.#waiting.delete(party);
      if (items.size > 0) this.#waiting.set(party, items);
      this.#size++;
      this.#working.set(party, own + 1);
      return { item, leave: () => this.#leave(party) };
    }
    return undefined;
  }

  #leave(party: string): void {
    this.#size--;
    const left = this.#working.get(party)! - 1;
    if (left > 0) this.#working.set(party, left);
    else this.#working.delete(party);
  }
}
