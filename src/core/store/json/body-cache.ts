import type { Body } from "../body.ts";

/** The bodies used last, up to a number of characters. */
export class BodyCache {
  readonly #limit: number;
  readonly #bodies = new Map<number, Body>();
  #length = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(slot: number): Body | undefined {
    const body = this.#bodies.get(slot);
    if (body === undefined) return undefined;
    this.#bodies.delete(slot);
    this.#bodies.set(slot, body);
    return body;
  }

  set(slot: number, body: Body): void {
    this.delete(slot);
    // One huge body would push everything else out.
    if (body.length > this.#limit / 8) return;
    this.#bodies.set(slot, body);
    this.#length += body.length;
    if (this.#length <= this.#limit) return;
    for (const [oldest] of this.#bodies) {
      this.delete(oldest);
      if (this.#length <= this.#limit) return;
    }
  }

  delete(slot: number): void {
    const body = this.#bodies.get(slot);
    if (body === undefined) return;
    this.#bodies.delete(slot);
    this.#length -= body.length;
  }
}
