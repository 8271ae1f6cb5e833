import { andThen } from "../../base/maybe-promise.ts";
import { toJson } from "../json-value.ts";
import type {
  Entity,
  IndexValue,
  Log,
  LogName,
  Logs,
  Store,
  StoreFactory,
  Table,
  TableName,
  Tables,
  Transaction,
  TransactionOptions,
} from "../store.ts";
import { markOf, refuseUnknownKeys } from "./key-marks.ts";
import type { Keyring } from "./keyring.ts";
import { isSealed, openEntry, type Sealed, SealedTable, sealEntry } from "./sealed-row.ts";

/**
 * Opens stores whose entities and entries are sealed before the store gets them, and opened when it gives them back. A store
 * that was sealed with a key that is missing is refused. Without any key nothing is sealed, and a store that nobody else
 * has open is given out as it is.
 */
export function sealStore(open: StoreFactory, keys: Keyring): StoreFactory {
  return async (context) => {
    const tables = new Map(context.tables.map((spec) => [spec.name, new SealedTable(spec, keys)]));
    const store = await open({ ...context, tables: [...tables.values()].map(({ spec }) => spec) });
    try {
      await refuseUnknownKeys(store, keys);
      if (keys.isEmpty && !store.isShared) return store;
      const sealed = new SealedStore(store, tables, keys);
      await sealed.mark().catch((error: unknown) => {
        // A store that cannot be written to can still be read. Each write notes the key first.
        context.log.warn("the key that the store is encrypted with could not be noted yet", { error });
      });
      return sealed;
    } catch (error) {
      await store.close().catch(() => {});
      throw error;
    }
  };
}

/** A store whose content only those who have the keys can read. */
class SealedStore implements Store {
  readonly #store: Store;
  readonly #tables: ReadonlyMap<string, SealedTable<Entity>>;
  readonly #keys: Keyring;
  readonly #faces = new Map<string, Table<Entity>>();
  /** Whether the store has noted that it has values of the first key. */
  #isMarked: boolean;

  constructor(store: Store, tables: ReadonlyMap<string, SealedTable<Entity>>, keys: Keyring) {
    this.#store = store;
    this.#tables = tables;
    this.#keys = keys;
    this.#isMarked = keys.sealsWith === undefined;
  }

  /** Notes the key that seals, so that no start without it takes the store for an empty or damaged one. */
  async mark(): Promise<void> {
    if (this.#isMarked) return;
    const mark = markOf(this.#keys.sealsWith!);
    await this.#store.transaction(async (tx) => {
      if ((await tx.get("KeyMark", mark.id)) === undefined) await tx.insert("KeyMark", mark);
    });
    this.#isMarked = true;
  }

  table<K extends TableName>(name: K): Table<Tables[K]> {
    const known = this.#faces.get(name) ?? this.#open(name);
    this.#faces.set(name, known);
    return known as unknown as Table<Tables[K]>;
  }

  log<K extends LogName>(name: K): Log<Logs[K]> {
    const log = this.#store.log(name);
    return {
      append: (key, entry) => this.transaction((tx) => tx.append(name, key, entry)),
      read: async (key, range) => {
        const entries = await log.read(key, range);
        return entries.map(({ seq, entry }) => ({ seq, entry: this.#entryOf(name, key, seq, entry) }));
      },
      last: (key) => log.last(key),
    };
  }

  async transaction<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T> {
    if (!this.#isMarked) await this.mark();
    return this.#store.transaction(
      (tx) => work(new SealedTransaction(tx, (name) => this.#tableOf(name), this.#keys)),
      options,
    );
  }

  get isShared() {
    return this.#store.isShared === true;
  }

  get relates() {
    return this.#store.relates === true;
  }

  get hints() {
    return this.#store.hints;
  }

  get lives() {
    return this.#store.lives;
  }

  get contents() {
    return this.#store.contents;
  }

  get time() {
    return this.#store.time;
  }

  now() {
    return this.#store.now();
  }

  get showMarks() {
    return this.#store.showMarks?.bind(this.#store);
  }

  get snapshot() {
    return this.#store.snapshot?.bind(this.#store);
  }

  health() {
    return this.#store.health();
  }

  stats() {
    return this.#store.stats();
  }

  close() {
    return this.#store.close();
  }

  #open(name: string): Table<Entity> {
    const sealed = this.#tableOf(name);
    const table = this.#store.table(name as TableName) as unknown as Table<Entity>;
    return {
      get: async (id) => {
        const stored = await table.get(id);
        return stored && sealed.open(stored);
      },
      peek: (id) => andThen(table.peek(id), (stored) => stored && sealed.view(stored)),
      list: async (query) => {
        sealed.refuseSearch(query);
        const { items, ...page } = await table.list(query);
        return { items: items.map((stored) => sealed.open(stored)), ...page };
      },
      ids: async (query) => {
        sealed.refuseSearch(query);
        return table.ids(query);
      },
      countBy: async (field, query) => {
        sealed.refuseSearch(query);
        return table.countBy(field, query);
      },
      sumBy: async (field, number, query) => {
        sealed.refuseSearch(query);
        return table.sumBy(field, number, query);
      },
      insert: async (entity) => {
        if (!this.#isMarked) await this.mark();
        await table.insert(sealed.seal(entity));
      },
      change: async (id, fn) => {
        if (!this.#isMarked) await this.mark();
        return changeSealed(sealed, (change) => table.change(id, change), fn);
      },
      remove: (id) => table.remove(id),
    };
  }

  #entryOf<E>(log: string, key: string, seq: number, stored: E): E {
    return isEntry(stored) ? (JSON.parse(openEntry(this.#keys, log, key, seq, stored)) as E) : stored;
  }

  #tableOf(name: string): SealedTable<Entity> {
    const table = this.#tables.get(name);
    if (table === undefined) throw new TypeError(`The store has no table "${name}"`);
    return table;
  }
}

/** A transaction that seals what is written, and opens what is read. */
class SealedTransaction implements Transaction {
  readonly #tx: Transaction;
  readonly #tableOf: (name: string) => SealedTable<Entity>;
  readonly #keys: Keyring;

  constructor(tx: Transaction, tableOf: (name: string) => SealedTable<Entity>, keys: Keyring) {
    this.#tx = tx;
    this.#tableOf = tableOf;
    this.#keys = keys;
  }

  async get<K extends TableName>(table: K, id: string): Promise<Tables[K] | undefined> {
    const stored = await this.#tx.get(table, id);
    return stored && (this.#tableOf(table).open(stored) as unknown as Tables[K]);
  }

  ids<K extends TableName>(table: K, field: string, value: IndexValue): Promise<string[]> {
    return this.#tx.ids(table, field, value);
  }

  async insert<K extends TableName>(table: K, entity: Tables[K]): Promise<void> {
    return this.#tx.insert(table, this.#tableOf(table).seal(entity) as unknown as Tables[K]);
  }

  async change<K extends TableName>(
    table: K,
    id: string,
    fn: (current: Tables[K]) => Tables[K] | undefined,
  ): Promise<Tables[K]> {
    const change = (make: (stored: Entity) => Entity | undefined) =>
      this.#tx.change(table, id, make as never) as unknown as Promise<Entity>;
    return (await changeSealed(this.#tableOf(table), change, fn as never)) as unknown as Tables[K];
  }

  remove<K extends TableName>(table: K, id: string): Promise<boolean> {
    return this.#tx.remove(table, id);
  }

  last<K extends LogName>(log: K, key: string): Promise<number> {
    return this.#tx.last(log, key);
  }

  async append<K extends LogName>(log: K, key: string, entry: Logs[K], json?: string): Promise<number> {
    if (this.#keys.sealsWith === undefined) return this.#tx.append(log, key, entry, json);
    const text = json ?? toJson(entry, `An entry of log ${log} "${key}"`);
    const seq = (await this.#tx.last(log, key)) + 1;
    return this.#tx.append(log, key, sealEntry(this.#keys, log, key, seq, text) as unknown as Logs[K]);
  }

  clear<K extends LogName>(log: K, key: string): Promise<void> {
    return this.#tx.clear(log, key);
  }
}

/** Changes an entity in a store of sealed ones. `fn` may be called again; its last result counts. */
async function changeSealed(
  table: SealedTable<Entity>,
  change: (make: (stored: Entity) => Entity | undefined) => Promise<Entity>,
  fn: (current: Entity) => Entity | undefined,
): Promise<Entity> {
  let made: Entity | undefined;
  const stored = await change((before) => {
    made = fn(table.open(before));
    return made && table.seal(made);
  });
  return made ?? table.open(stored);
}

function isEntry(entry: unknown): entry is Sealed {
  return typeof entry === "object" && entry !== null && isSealed(entry);
}
