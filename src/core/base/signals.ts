import { getOrMake } from "./get-or-make.ts";
import { PassingMap } from "./passing-map.ts";

/** Lets callers wait for what happens next to something, by its key. */
export class Signals<T = void> {
  readonly #waiting = new PassingMap<string, Set<(value?: T) => void>>();

  /** Resolves when the key is next signaled; `cancel` resolves it without a value. */
  next(key: string): { readonly ended: Promise<T | undefined>; cancel(): void } {
    const waiting = getOrMake(this.#waiting, key, () => new Set());
    let settle: (value?: T) => void = () => {};
    const ended = new Promise<T | undefined>((resolve) => {
      settle = resolve;
    });
    waiting.add(settle);
    const cancel = (): void => {
      settle();
      waiting.delete(settle);
      if (waiting.size === 0 && this.#waiting.get(key) === waiting) this.#waiting.delete(key);
    };
    return { ended, cancel };
  }

  /** Whether anybody waits for a key. */
  has(key: string): boolean {
    return this.#waiting.has(key);
  }

  /** The keys that somebody waits for. */
  keys(): string[] {
    return [...this.#waiting.keys()];
  }

  signal(key: string, value?: T): void {
    for (const settle of this.#waiting.get(key) ?? []) settle(value);
  }
}
