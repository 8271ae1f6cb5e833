import type { StreamSource } from "../../../core/http/live-streams.ts";

/**
 * The queue of a stream's reader: a bounded number of texts. If they arrive faster than they are read, they
 * are replaced by one text that says so.
 */
export class Mailbox {
  readonly #bound: number;
  readonly #overflow: (dropped: number) => string;
  readonly #onEnd: () => void;
  #texts: string[] = [];
  #dropped = 0;
  #wake: (() => void) | undefined;
  #onTaken: (() => void)[] = [];

  constructor(parts: { bound: number; overflow: (dropped: number) => string; onEnd: () => void }) {
    this.#bound = parts.bound;
    this.#overflow = parts.overflow;
    this.#onEnd = parts.onEnd;
  }

  /** Resolves once the reader has taken what has arrived. */
  async taken(): Promise<void> {
    if (this.#texts.length === 0) return;
    await new Promise<void>((resolve) => {
      this.#onTaken.push(resolve);
    });
  }

  put(text: string): void {
    if (this.#texts.length >= this.#bound) {
      this.#dropped += this.#texts.length;
      this.#texts = [];
    }
    this.#texts.push(text);
    this.#wake?.();
  }

  /** Returns what has arrived, as one text, when the reader is ready for it. */
  readonly source: StreamSource = async (signal) => {
    if (this.#texts.length === 0) await this.#arrival(signal);
    if (signal.aborted) return undefined;
    const lost = this.#dropped > 0 ? this.#overflow(this.#dropped) : "";
    const text = lost + this.#texts.join("");
    this.#texts = [];
    this.#dropped = 0;
    for (const done of this.#onTaken.splice(0)) done();
    return text;
  };

  /** Ends the mailbox with its stream. */
  endWith(signal: AbortSignal): void {
    if (signal.aborted) this.#onEnd();
    else signal.addEventListener("abort", this.#onEnd, { once: true });
  }

  #arrival(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#wake = undefined;
        signal.removeEventListener("abort", done);
        resolve();
      };
      this.#wake = done;
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
