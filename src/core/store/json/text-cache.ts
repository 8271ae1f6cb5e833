/** The texts used last, up to a number of characters. */
export class TextCache {
  readonly #limit: number;
  readonly #texts = new Map<number, string>();
  #length = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get(slot: number): string | undefined {
    const text = this.#texts.get(slot);
    if (text === undefined) return undefined;
    this.#texts.delete(slot);
    this.#texts.set(slot, text);
    return text;
  }

  set(slot: number, text: string): void {
    this.delete(slot);
    // One huge text would push everything else out.
    if (text.length > this.#limit / 8) return;
    this.#texts.set(slot, text);
    this.#length += text.length;
    if (this.#length <= this.#limit) return;
    for (const [oldest] of this.#texts) {
      this.delete(oldest);
      if (this.#length <= this.#limit) return;
    }
  }

  delete(slot: number): void {
    const text = this.#texts.get(slot);
    if (text === undefined) return;
    this.#texts.delete(slot);
    this.#length -= text.length;
  }
}
