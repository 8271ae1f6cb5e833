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
  /** Number of ids by lane. */
  readonly #lanes = new Map<string, number>();
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

  /** Number of messages of a lane that are yet to be removed. */
  sizeOf(lane: string): number {
    return this.#lanes.get(lane) ?? 0;
  }

  add(id: string, lane: string): void {
    if (!this.#ids.has(id)) this.#count(lane, 1);
    this.#ids.set(id, lane);
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
      this.#count(this.#ids.get(id)!, -1);
      this.#ids.delete(id);
    }
  }

  #count(lane: string, by: number): void {
    const size = this.sizeOf(lane) + by;
    if (size > 0) this.#lanes.set(lane, size);
    else this.#lanes.delete(lane);
  }
}
