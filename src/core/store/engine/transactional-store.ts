import { getOrMake } from "../../base/get-or-make.ts";
import { andThen, type MaybePromise } from "../../base/maybe-promise.ts";
import { PassingMap } from "../../base/passing-map.ts";
import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { LocalHints } from "../local-hints.ts";
import { countByValue, findSlots, sumByValue } from "../query.ts";
import { closedError, storageError } from "../storage-error.ts";
import {
  type Entity,
  FencedError,
  type Hints,
  type IndexValue,
  type ListQuery,
  type Log,
  type LogEntry,
  type LogName,
  type Logs,
  type Page,
  type Store,
  type StoreHealth,
  type StoreStats,
  type Table,
  type TableName,
  type TableSpec,
  type Tables,
  type Transaction,
  type TransactionOptions,
} from "../store.ts";
import type { Backend, Change, StoreLog, StoreTable } from "./backend.ts";
import type { StoreSnapshot } from "./snapshot.ts";
import { Stage } from "./stage.ts";
import { TableIndex } from "./table-index.ts";
import { Turns } from "./turns.ts";

/** Makes the tables of a store from their specifications. */
export function createStoreTables(specs: readonly TableSpec[]): Map<string, StoreTable> {
  const tables = new Map<string, StoreTable>();
  for (const spec of specs) {
    if (tables.has(spec.name)) throw new TypeError(`There are two tables with the name "${spec.name}"`);
    if (!Number.isSafeInteger(spec.version) || spec.version < 1)
      throw new TypeError(`Table "${spec.name}" needs a version: a whole number of at least 1`);
    tables.set(spec.name, { name: spec.name, spec, index: new TableIndex(spec), pending: new PassingMap() });
  }
  return tables;
}

/**
 * The store's contract over a backend: isolation, conflicts, numbering of log entries and queries.
 * Readers see what is durable; writers see, besides, what is on its way there, and share its fate.
 */
export class TransactionalStore implements Store {
  readonly hints: Hints = new LocalHints();
  readonly contents: UnstorageStorage | undefined;
  readonly #backend: Backend;
  readonly #tables: ReadonlyMap<string, StoreTable>;
  readonly #logs = new Map<string, StoreLog>();
  readonly #turns: Turns;
  /** What `table` gives out, by name. */
  readonly #faces = new Map<string, Table<Entity>>();
  #underWay = 0;
  #whenIdle: (() => void) | undefined;
  #lastCommit: Promise<unknown> = Promise.resolve();
  #closed: Promise<void> | undefined;
  /** Counts failed commits: a transaction that saw what has since failed must fail too. */
  #failures = 0;
  #reads = 0;
  #writes = 0;

  constructor(options: {
    backend: Backend;
    tables: ReadonlyMap<string, StoreTable>;
    /** Keeps the contents of files. */
    contents?: UnstorageStorage | undefined;
    /** Milliseconds that a transaction may hold up others. @default 30000 */
    patience?: number;
  }) {
    this.#backend = options.backend;
    this.#tables = options.tables;
    this.contents = options.contents;
    this.#turns = new Turns(options.patience ?? 30_000);
  }

  table<K extends TableName>(name: K): Table<Tables[K]> {
    const known = this.#faces.get(name);
    if (known) return known as unknown as Table<Tables[K]>;
    const make = () => this.#openTable<Tables[K]>(this.#tableOf(name)) as unknown as Table<Entity>;
    return getOrMake(this.#faces, name, make) as unknown as Table<Tables[K]>;
  }

  #openTable<T extends Entity>(table: StoreTable): Table<T> {
    return {
      get: (id) => this.#get<T>(table, id),
      peek: (id) => this.#peek<T>(table, id),
      list: (query) => this.#list<T>(table, query ?? {}),
      ids: (query) => this.#ids(table, query ?? {}),
      countBy: (field, query) =>
        this.#byFacet(table, field, () => countByValue(table.index, field, query ?? {})),
      sumBy: (field, number, query) =>
        this.#byFacet(table, field, () => sumByValue(table.index, { field, number }, query ?? {})),
      insert: (entity) => this.#single((stage) => stage.insert(table, entity)),
      change: (id, fn) => this.#single((stage) => stage.change<T>(table, id, fn)),
      remove: (id) => this.#single((stage) => stage.remove(table, id)),
    };
  }

  log<K extends LogName>(name: K): Log<Logs[K]> {
    const log = this.#logOf(name);
    return {
      append: (key, entry) => this.#single((stage) => stage.append(log, key, entry)),
      read: (key, range) => this.#read<Logs[K]>(log, key, range ?? {}),
      last: async (key) => this.#open(this.#backend.lastOf(log, key)),
    };
  }

  async transaction<T>(
    work: (tx: Transaction) => Promise<T>,
    { fence }: TransactionOptions = {},
  ): Promise<T> {
    this.#open(undefined);
    const refusal = this.#backend.refusal?.();
    if (refusal !== undefined) throw refusal;
    let abort: (error: Error) => void = () => {};
    const turn = this.#turns.take((error) => abort(error));
    if (turn) await turn;
    const stage = new Stage(this.#backend);
    const tx = new StagedTransaction(stage, this.#tableOf, this.#logOf);
    const failures = this.#failures;
    try {
      // Nobody else writes before its end: what holds now holds at the commit.
      if (fence && stage.epochOf(this.#tableOf(fence.table ?? "Job"), fence.job) !== fence.epoch)
        throw new FencedError(fence);
      const value = await new Promise<T>((resolve, reject) => {
        abort = reject;
        work(tx).then(resolve, reject);
      });
      tx.isOver = true;
      if (stage.sawPending && failures !== this.#failures) throw builtOnFailure();
      return this.#settle(stage, value);
    } catch (error) {
      tx.isOver = true;
      if (stage.sawPending) await this.#lastCommit;
      throw error;
    } finally {
      this.#turns.release();
    }
  }

  async now(): Promise<Date> {
    return new Date();
  }

  get snapshot(): (() => Promise<StoreSnapshot>) | undefined {
    const backend = this.#backend;
    return backend.snapshot && (() => this.#open(backend).snapshot!());
  }

  health(): StoreHealth {
    return this.#closed === undefined
      ? this.#backend.health()
      : { writable: false, error: "The store is closed" };
  }

  async stats(): Promise<StoreStats> {
    const entities = [...this.#tables.values()].filter((table) => table.spec.entity);
    const bytes = this.#backend.bytes();
    return {
      database: this.#backend.database,
      tables: Object.fromEntries(entities.map((table) => [table.name, table.index.size])),
      ...(bytes === undefined ? {} : { bytes }),
      reads: this.#reads,
      writes: this.#writes,
      details: this.#backend.details(),
    };
  }

  close(): Promise<void> {
    this.#closed ??= this.#finish();
    return this.#closed;
  }

  async #finish(): Promise<void> {
    await this.#turns.idle();
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    await this.#backend.close();
  }

  async #get<T>(table: StoreTable, id: string): Promise<T | undefined> {
    this.#open(undefined);
    const slot = table.index.slotOf(id);
    if (slot === undefined) return undefined;
    this.#reads++;
    return (await this.#backend.bodyOf(table, slot)).copy<T>();
  }

  #peek<T>(table: StoreTable, id: string): MaybePromise<T | undefined> {
    this.#open(undefined);
    const slot = table.index.slotOf(id);
    if (slot === undefined) return undefined;
    this.#reads++;
    return andThen(this.#backend.bodyOf(table, slot), (body) => body.view<T>());
  }

  async #list<T>(table: StoreTable, query: ListQuery): Promise<Page<T>> {
    this.#open(undefined);
    const { reading, ...page } = await findSlots(table.index, query, ({ slots, total, next }) => {
      this.#reads += slots.length;
      return { total, ...(next && { next }), reading: this.#backend.bodies(table, slots) };
    });
    return { items: (await reading).map((body) => body.copy<T>()), ...page };
  }

  async #ids(table: StoreTable, query: ListQuery): Promise<string[]> {
    this.#open(undefined);
    return findSlots(table.index, { limit: Number.POSITIVE_INFINITY, ...query }, ({ slots }) =>
      slots.map((slot) => table.index.idOf(slot)!),
    );
  }

  async #byFacet<T>(table: StoreTable, field: string, read: () => Promise<T>): Promise<T> {
    this.#open(undefined);
    if (table.index.facet(field) === undefined && !table.index.spec.spans?.[field]) {
      throw new TypeError(`Table ${table.name} has no facet "${field}"`);
    }
    return read();
  }

  async #read<E>(
    log: StoreLog,
    key: string,
    range: { after?: number; limit?: number },
  ): Promise<LogEntry<E>[]> {
    this.#open(undefined);
    const from = Math.max(range.after ?? 0, 0) + 1;
    const to = Math.min(this.#backend.lastOf(log, key), from - 1 + (range.limit ?? Number.POSITIVE_INFINITY));
    if (to < from) return [];
    this.#reads += to - from + 1;
    const entries = await this.#backend.entries(log, key, { from, to }, (text) => JSON.parse(text) as E);
    return entries.map((entry, at) => ({ seq: from + at, entry }));
  }

  /** Stages a write without waiting where nobody has the turn, so that a lone writer pays for no detour. */
  #single<T>(work: (stage: Stage) => T): Promise<T> {
    if (this.#closed !== undefined) return Promise.reject(closedError());
    const refusal = this.#backend.refusal?.();
    if (refusal !== undefined) return Promise.reject(refusal);
    return this.#turns.isIdle ? this.#stageAndSettle(work) : this.#singleInTurn(work);
  }

  async #singleInTurn<T>(work: (stage: Stage) => T): Promise<T> {
    await this.#turns.take(() => {});
    try {
      return this.#stageAndSettle(work);
    } finally {
      this.#turns.release();
    }
  }

  #stageAndSettle<T>(work: (stage: Stage) => T): Promise<T> {
    const stage = new Stage(this.#backend);
    try {
      return this.#settle(stage, work(stage));
    } catch (error) {
      if (!stage.sawPending) return Promise.reject(error);
      // A refusal because of a write that is not yet durable is final only once the write is durable.
      return this.#lastCommit.then(() => Promise.reject(error));
    }
  }

  /** Commits what was staged; resolves with `value` once that, and all it was built on, is durable. */
  #settle<T>(stage: Stage, value: T): Promise<T> {
    if (stage.changes.length === 0) {
      return stage.sawPending ? this.#lastCommit.then(() => value) : Promise.resolve(value);
    }
    this.#writes += stage.changes.length;
    return this.#commit(stage.changes, value);
  }

  #commit<T>(changes: readonly Change[], value: T): Promise<T> {
    remember(changes);
    this.#underWay++;
    const commit = new Promise<T>((resolve, reject) => {
      this.#backend.commit(changes, (error) => {
        if (--this.#underWay === 0) this.#whenIdle?.();
        if (error === undefined) {
          forget(changes);
          resolve(value);
          return;
        }
        this.#forgetAll();
        reject(error);
      });
    });
    this.#lastCommit = commit;
    return commit;
  }

  /** Drops all that is not durable: every commit under way fails together with the first. */
  #forgetAll(): void {
    this.#failures++;
    for (const table of this.#tables.values()) table.pending.clear();
    for (const log of this.#logs.values()) log.pending.clear();
  }

  readonly #tableOf = (name: string): StoreTable => {
    const table = this.#tables.get(name);
    if (table === undefined) throw new TypeError(`The store has no table "${name}"`);
    return table;
  };

  readonly #logOf = (name: string): StoreLog => {
    const known = this.#logs.get(name);
    if (known !== undefined) return known;
    if (this.#tables.has(name)) throw new TypeError(`"${name}" is a table, not a log`);
    const log: StoreLog = { name, pending: new PassingMap() };
    this.#logs.set(name, log);
    return log;
  };

  #open<T>(value: T): T {
    if (this.#closed !== undefined) throw closedError();
    return value;
  }
}

/** A transaction over its stage: each call has had its effect there when its promise is returned. */
class StagedTransaction implements Transaction {
  readonly #stage: Stage;
  readonly #tableOf: (name: string) => StoreTable;
  readonly #logOf: (name: string) => StoreLog;
  isOver = false;

  constructor(stage: Stage, tableOf: (name: string) => StoreTable, logOf: (name: string) => StoreLog) {
    this.#stage = stage;
    this.#tableOf = tableOf;
    this.#logOf = logOf;
  }

  async get<K extends TableName>(table: K, id: string): Promise<Tables[K] | undefined> {
    return this.#open.get<Tables[K] & Entity>(this.#tableOf(table), id);
  }

  async ids(table: TableName, field: string, value: IndexValue): Promise<string[]> {
    return this.#open.ids(this.#tableOf(table), field, value);
  }

  async insert<K extends TableName>(table: K, entity: Tables[K]): Promise<void> {
    this.#open.insert(this.#tableOf(table), entity as Entity);
  }

  async change<K extends TableName>(
    table: K,
    id: string,
    fn: (current: Tables[K]) => Tables[K] | undefined,
  ): Promise<Tables[K]> {
    return this.#open.change<Tables[K] & Entity>(this.#tableOf(table), id, fn as never);
  }

  async remove(table: TableName, id: string): Promise<boolean> {
    return this.#open.remove(this.#tableOf(table), id);
  }

  async last(log: LogName, key: string): Promise<number> {
    return this.#open.last(this.#logOf(log), key);
  }

  async append<K extends LogName>(log: K, key: string, entry: Logs[K], json?: string): Promise<number> {
    return this.#open.append(this.#logOf(log), key, entry, json);
  }

  async clear(log: LogName, key: string): Promise<void> {
    this.#open.clear(this.#logOf(log), key);
  }

  get #open(): Stage {
    if (!this.isOver) return this.#stage;
    throw new TypeError("The transaction has ended: await all of its calls inside it");
  }
}

function remember(changes: readonly Change[]): void {
  for (const change of changes) {
    if (change.kind === "put" || change.kind === "delete") change.table.pending.set(change.id, change);
    else change.log.pending.set(change.key, change);
  }
}

function forget(changes: readonly Change[]): void {
  for (const change of changes) {
    if (change.kind === "put" || change.kind === "delete") change.table.pending.deleteIf(change.id, change);
    else change.log.pending.deleteIf(change.key, change);
  }
}

function builtOnFailure(): Error {
  return storageError("A write that this one depends on could not be stored", "Retry: nothing was changed.");
}
