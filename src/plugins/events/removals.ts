import { getOrMake } from "../../core/base/get-or-make.ts";
import type { Logger } from "../../core/base/log.ts";
import type { Store } from "../../core/store/store.ts";

/** Removals in one transaction: few enough not to hold up an agent's writes. */
const BATCH = 200;
const RETRY = 1000;

/** Removes delivered messages from the store, many in one write. */
export class Removals {
  readonly #store: Store;
  readonly #log: Logger;
  /** Ids, with their lanes. */
  readonly #ids = new Map<string, string>();
  /** Ids by lane. */
  readonly #lanes = new Map<string, Set<string>>();
  #running: Promise<void> | undefined;

  constructor(store: Store, log: Logger) {
    this.#store = store;
    this.#log = log;
  }

  get size(): number {
    return this.#ids.size;
  }

  has(id: string): boolean {
    return this.#ids.has(id);
  }

  /** Messages of a lane that are yet to be removed now. */
  idsOf(lane: string): ReadonlySet<string> {
    return new Set(this.#lanes.get(lane));
  }

  add(id: string, lane: string): void {
    this.#ids.set(id, lane);
    getOrMake(this.#lanes, lane, () => new Set()).add(id);
    this.#running ??= this.#run();
  }

  /**
   * Resolves with whether everything added has been removed: a store that cannot write keeps it until it can.
   */
  async settle(): Promise<boolean> {
    while (this.#running) await this.#running;
    return this.#ids.size === 0;
  }

  async #run(): Promise<void> {
    // Other messages delivered in this turn are included.
    await new Promise((resolve) => setImmediate(resolve));
    try {
      while (this.#ids.size > 0) await this.#removeSome();
    } catch (error) {
      this.#log.warn("delivered messages could not be removed yet", { count: this.#ids.size, error });
      setTimeout(() => {
        if (this.#ids.size > 0) this.#running ??= this.#run();
      }, RETRY).unref();
    } finally {
      this.#running = undefined;
    }
  }

  async #removeSome(): Promise<void> {
    const some: string[] = [];
    for (const id of this.#ids.keys()) if (some.push(id) >= BATCH) break;
    await this.#store.transaction(async (tx) => {
      for (const id of some) await tx.remove("Outbox", id);
    });
    for (const id of some) {
      const lane = this.#ids.get(id)!;
      const ids = this.#lanes.get(lane)!;
      ids.delete(id);
      if (ids.size === 0) this.#lanes.delete(lane);
      this.#ids.delete(id);
    }
  }
}
