import { PassingMap } from "./passing-map.ts";

/** Runs work with the same key one after another, in the order of the calls. */
export class KeyedMutex {
  readonly #last = new PassingMap<string, Promise<void>>();

  /** Calls `work` when nothing else is in progress for the key: immediately if that is so now. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const result = before ? before.then(work) : work();
    const leave = () => {
      this.#last.deleteIf(key, last);
    };
    const last = result.then(leave, leave);
    this.#last.set(key, last);
    return result;
  }
}
