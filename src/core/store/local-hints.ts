import type { Hint, Hints } from "./store.ts";

/** Hints between those who have a store open in one process. */
export class LocalHints implements Hints {
  readonly #listeners = new Set<(hint: Hint | "all") => void>();

  tell(topic: string, ids: readonly string[]): void {
    if (this.#listeners.size === 0 || ids.length === 0) return;
    // Not within the caller's work: a listener may write.
    setImmediate(() => {
      for (const listener of [...this.#listeners]) listener({ topic, ids });
    });
  }

  on(listener: (hint: Hint | "all") => void): () => void {
    // The same function may be added twice.
    const own = (hint: Hint | "all") => listener(hint);
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  }
}
