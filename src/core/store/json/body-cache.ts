import type { Body } from "../engine/body.ts";

interface Kept {
  body: Body;
  /** Whether it was requested since it was kept, or since it was last spared. */
  isUsed: boolean;
}

/**
 * Recently used bodies, up to a number of characters. The oldest is evicted first; one that was used is
 * spared once.
 */
export class BodyCache {
  readonly #limit: number;
  readonly #bodies = new Map<number, Kept>();
  /** From the oldest on: a new one would pass the places of all that were evicted, each time. */
  #oldest = this.#bodies.entries();
  #length = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(slot: number): Body | undefined {
    const kept = this.#bodies.get(slot);
    if (kept === undefined) return undefined;
    kept.isUsed = true;
    return kept.body;
  }

  set(slot: number, body: Body): void {
    // One huge body would evict everything else.
    if (body.length > this.#limit / 8) {
      this.delete(slot);
      return;
    }
    const kept = this.#bodies.get(slot);
    this.#length += body.length - (kept?.body.length ?? 0);
    if (kept === undefined) this.#bodies.set(slot, { body, isUsed: false });
    else kept.body = body;
    if (this.#length > this.#limit) this.#makeRoom();
  }

  delete(slot: number): void {
    const kept = this.#bodies.get(slot);
    if (kept === undefined) return;
    this.#bodies.delete(slot);
    this.#length -= kept.body.length;
  }

  #makeRoom(): void {
    while (this.#length > this.#limit) {
      const next = this.#oldest.next();
      if (next.done) {
        // What was kept since it ended.
        this.#oldest = this.#bodies.entries();
        continue;
      }
      const [slot, kept] = next.value;
      this.delete(slot);
      if (!kept.isUsed) continue;
      kept.isUsed = false;
      this.#bodies.set(slot, kept);
      this.#length += kept.body.length;
    }
  }
}
