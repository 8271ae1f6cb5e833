import type { Store, Table, TableName, Tables, Transaction, TransactionOptions } from "../store.ts";

/** What a store throws away together with the writes of a first run. */
class Conflict extends Error {}

/**
 * The store, with each transaction and each change run twice: all that the first run does is discarded, as if what it
 * had read were changed before its commit. Shows whether work has an effect on anything except its transaction.
 */
export function failFirstCommits(store: Store): Store {
  return {
    table: (name) => runTwice(store.table(name)),
    log: (name) => store.log(name),
    hints: store.hints,
    ...(store.isShared && { isShared: true }),
    ...(store.relates && { relates: true }),
    now: () => store.now(),
    health: () => store.health(),
    stats: () => store.stats(),
    ...(store.snapshot && { snapshot: () => store.snapshot!() }),
    close: () => store.close(),
    async transaction<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T> {
      let isBegun = false;
      const discarded = store.transaction(async (tx) => {
        isBegun = true;
        // Its failure may come from what has changed since: it counts as little as its writes.
        await work(tx).catch(() => {});
        throw new Conflict();
      }, options);
      const error: unknown = await discarded.catch((reason: unknown) => reason);
      if (!isBegun && !(error instanceof Conflict)) throw error;
      return store.transaction(work, options);
    },
  };
}

function runTwice<K extends TableName>(table: Table<Tables[K]>): Table<Tables[K]> {
  return {
    get: (id) => table.get(id),
    peek: (id) => table.peek(id),
    list: (query) => table.list(query),
    ids: (query) => table.ids(query),
    countBy: (field, query) => table.countBy(field, query),
    sumBy: (field, number, query) => table.sumBy(field, number, query),
    insert: (entity) => table.insert(entity),
    remove: (id) => table.remove(id),
    async change(id, fn) {
      await table.change(id, (current) => {
        fn(current);
        return undefined;
      });
      return table.change(id, fn);
    },
  };
}
