import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import type { Store, StoreFactory, Transaction } from "../../src/core/store/store.ts";

/** What writes inside a transaction. */
const WRITES = new Set(["insert", "change", "remove", "append", "clear"]);

export interface TappedStore {
  readonly open: StoreFactory;
  /** Writes of each transaction that was committed, such as `insert Job`. */
  readonly committed: (readonly string[])[];
  /** Called before each write of a transaction; what it throws, the transaction throws. */
  refuse: ((write: string) => void) | undefined;
}

/** A store in memory that shows which writes are stored together. It is the same one each time that it is opened. */
export function tappedStore(): TappedStore {
  let kept: Promise<Store> | undefined;
  const tapped: TappedStore = {
    committed: [],
    refuse: undefined,
    async open(context) {
      kept ??= Promise.resolve(createMemoryStore(context));
      const store = await kept;
      const transaction: Store["transaction"] = async (work, options) => {
        let writes: string[] = [];
        const result = await store.transaction((tx) => {
          writes = [];
          return work(tap(tx, writes));
        }, options);
        tapped.committed.push(writes);
        return result;
      };
      return Object.assign(Object.create(store) as Store, {
        ...{ table: store.table.bind(store), log: store.log.bind(store), hints: store.hints },
        ...{ close: async () => {}, health: () => store.health(), stats: () => store.stats() },
        ...{ now: () => store.now(), transaction },
      });
    },
  };
  const tap = (tx: Transaction, writes: string[]): Transaction =>
    new Proxy(tx, {
      get(target, name) {
        const value = Reflect.get(target, name) as unknown;
        if (typeof value !== "function") return value;
        if (!WRITES.has(String(name))) return value.bind(target);
        return async (place: string, ...rest: unknown[]) => {
          const write = `${String(name)} ${place}`;
          tapped.refuse?.(write);
          writes.push(write);
          return value.call(target, place, ...rest);
        };
      },
    });
  return tapped;
}
