import type { Logger } from "../base/log.ts";
import type { MaybePromise } from "../base/maybe-promise.ts";
import type { KeyMark } from "../models/own-rows.ts";
import type { UnstorageStorage } from "../storage/open-storage.ts";
import type { StoreSnapshot } from "./engine/snapshot.ts";
import type { LogName, Logs, TableName, Tables } from "./stored-types.ts";

export type { LogName, Logs, TableName, Tables } from "./stored-types.ts";

/** The fields of every stored entity. */
export interface Entity {
  readonly id: string;
}

/** A value that a table can filter and sort by. Timestamps are milliseconds since the epoch. */
export type IndexValue = string | number | boolean | null;

/** Describes a table: which of an entity's values can be queried. */
export interface TableSpec<T extends Entity = Entity> {
  readonly name: string;
  /**
   * A whole number from 1. Raise it with every change by which `index` or `text`, or a function that they
   * call, gives other values: stored values of another version are recomputed from the entities at the next
   * start.
   */
  readonly version: number;
  /** Whether it counts as an entity table in statistics and is included in exports. */
  readonly entity: boolean;
  /** The values `where` filters and `sort` orders by. */
  index(entity: T): Readonly<Record<string, IndexValue>>;
  /** Fields of `index` that are queried by equality: answered without scanning every entity. */
  readonly facets: readonly string[];
  /** Fields of `index` that lists are ordered by: kept in order. */
  readonly sorted: readonly string[];
  /** Facets whose values are few, and whose numbers of entities are often asked for: a store may keep count. */
  readonly counted?: readonly string[];
  /** Fields of `index` that are `null` for most, else a number, and queried by range: a store may index those. */
  readonly sparse?: readonly string[];
  /** Fields of `index` that are the difference of two sparse or sorted ones, the later first; `null` where one of these is. */
  readonly spans?: Readonly<Record<string, readonly [end: string, start: string]>>;
  /**
   * Fields by which entities are counted over a time: `by` is a sparse or sorted field with times, and queries have a range
   * of it besides conditions on the facets among `fields`. A store may keep the numbers of each hour.
   */
  readonly tallies?: readonly { readonly by: string; readonly fields: readonly string[] }[];
  /** Conditions that few entities meet, and that are asked for again and again: a store may find those without the others. */
  readonly polled?: readonly Readonly<Record<string, Condition>>[];
  /** The text that `search` matches, case-insensitively. */
  text?(entity: T): string;
  /**
   * What stays readable in an encrypted store besides what `index` gives: `true` for whole rows. With `"name"`, searches
   * compare the id and the index value `name` there; without, they are refused.
   * @default false
   */
  readonly readable?: boolean | "name";
}

/** One condition on an index value; an array means any of its values. */
export type Condition =
  | IndexValue
  | readonly IndexValue[]
  | { readonly contains: string }
  | {
      /**
       * The ids of the entities of another table that meet conditions; the values are ids of at most 255 characters. Only of
       * a store that `relates` tables.
       */
      readonly idIn: {
        readonly table: TableName;
        readonly where: Readonly<Record<string, Condition | undefined>>;
      };
    }
  | { readonly gte?: number | string; readonly lt?: number | string };

export interface ListQuery {
  /** Conditions by index field; all must hold. `contains` is case-insensitive. */
  readonly where?: Readonly<Record<string, Condition | undefined>>;
  /** A part of the entity's text, case-insensitive. */
  readonly search?: string;
  /**
   * A sorted index field; a leading `-` means descending. Ties are ordered by id, ascending. @default
   * "-created_at" if the table has it, else "id"
   */
  readonly sort?: string;
  /** @default 50 */
  readonly limit?: number;
  /** Entities that are skipped: of those after `after`, or of all. @default 0 */
  readonly skip?: number;
  /** Where the page before this one ended, in the same order: no entity is repeated or skipped while others come and go. */
  readonly after?: Position | undefined;
  /** Newer values than those of the index: `where` and `sort` are about these. */
  readonly live?: LiveValues;
  /** Of a read that is made again and again: see `Joins`. */
  readonly joins?: Joins;
  /** Whether nobody needs `total`: a store may give the number of entities so far, and counts nothing. */
  readonly uncounted?: boolean;
}

/**
 * A read that may share a statement with others of its kind: `now` with those of this moment and those that wait, `soon`
 * waits for those, a second at most.
 */
export type Joins = "now" | "soon";

/** The place of an entity in an order: its value of the field that is sorted by, and its id. */
export interface Position {
  readonly value: IndexValue;
  readonly id: string;
}

/** Values of numeric index fields that are not stored yet. Neither facets nor sorted fields have any. */
export interface LiveValues {
  /** By field and id. */
  readonly values?: Readonly<Record<string, ReadonlyMap<string, number>>>;
  /** A field that is the time since another one, in milliseconds, while the field `status` has one of these values. */
  readonly elapsed?: {
    readonly field: string;
    readonly since: string;
    readonly now: number;
    readonly status: readonly string[];
  };
}

export interface Page<T> {
  readonly items: T[];
  /** Number of entities that match, on all pages. */
  readonly total: number;
  /** Where this page ends: `after` of the next one. Absent on the last page. */
  readonly next?: Position | undefined;
}

/** Reads and single writes on one table. A write is on disk when its promise resolves. */
export interface Table<T extends Entity> {
  get(id: string): Promise<T | undefined>;
  /**
   * The result of `get` for read-only use: frozen, as other readers may share it, and synchronous if it is in
   * memory.
   */
  peek(id: string): MaybePromise<Readonly<T> | undefined>;
  list(query?: ListQuery): Promise<Page<T>>;
  /** The ids of what `list` would return, without reading it. @default all */
  ids(query?: ListQuery): Promise<string[]>;
  /**
   * Number of matching entities per value of a facet; of a field of `spans`, per value of two digits. @default all
   */
  countBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "live" | "joins">,
  ): Promise<Record<string, number>>;
  /**
   * The sums of a number in the index of the matching entities, per value of a facet. A value whose sum is 0 is absent.
   * @default all
   */
  sumBy(
    field: string,
    number: string,
    query?: Pick<ListQuery, "where" | "search" | "live" | "joins">,
  ): Promise<Record<string, number>>;
  /** Rejects with `StoreConflictError` if the id already exists. */
  insert(entity: T): Promise<void>;
  /**
   * Replaces an entity atomically: `fn` gets the newest version and returns the next one (or `undefined` to
   * leave it as it is). It may replace fields; their old values may be frozen, as versions share them. A store
   * may call `fn` again with a newer version; only its last result counts.
   * Resolves with the resulting entity; rejects with `StoreMissingError`.
   */
  change(id: string, fn: (current: T) => T | undefined): Promise<T>;
  /** Resolves with whether there was such an entity. */
  remove(id: string): Promise<boolean>;
}

/** An entry of a log, numbered from 1 within its key without gap or repeat. */
export interface LogEntry<E> {
  readonly seq: number;
  readonly entry: E;
}

/** Append-only sequences, one per key: cheap to extend, read in order. */
export interface Log<E> {
  /** Resolves with the entry's number once it is on disk. */
  append(key: string, entry: E): Promise<number>;
  /** Entries after number `after` (default 0), oldest first, at most `limit` (default all). */
  read(key: string, range?: { after?: number; limit?: number }): Promise<LogEntry<E>[]>;
  /** Number of the last entry, 0 where there is none. */
  last(key: string): Promise<number>;
}

/**
 * Several writes that become visible and durable together or not at all.
 * Reads see the transaction's own writes and everything committed before it.
 */
export interface Transaction {
  get<K extends TableName>(table: K, id: string): Promise<Tables[K] | undefined>;
  /**
   * Ids of the entities whose facet `field` has this value: oldest first if the table has `created_at`, ties
   * by id.
   */
  ids<K extends TableName>(table: K, field: string, value: IndexValue): Promise<string[]>;
  insert<K extends TableName>(table: K, entity: Tables[K]): Promise<void>;
  change<K extends TableName>(
    table: K,
    id: string,
    fn: (current: Tables[K]) => Tables[K] | undefined,
  ): Promise<Tables[K]>;
  remove<K extends TableName>(table: K, id: string): Promise<boolean>;
  /** Number of the last entry of a key, 0 where there is none. */
  last<K extends LogName>(log: K, key: string): Promise<number>;
  /** Adds an entry; resolves with the number it will have. `json` is the entry as JSON, where the caller has it. */
  append<K extends LogName>(log: K, key: string, entry: Logs[K], json?: string): Promise<number>;
  /** Removes all entries of a key. */
  clear<K extends LogName>(log: K, key: string): Promise<void>;
}

/**
 * A condition for a transaction: the job exists, and none of its runs has started after run number `epoch`. What
 * counts is the `run_count` of the job that was committed before the transaction.
 */
export interface Fence {
  /** Id of the job. */
  readonly job: string;
  /** The `run_count` that the job must have. */
  readonly epoch: number;
  /** Where the job is. @default "Job" */
  readonly table?: "Job" | "Probe" | undefined;
}

export interface TransactionOptions {
  readonly fence?: Fence | undefined;
}

/** Says that something may have changed: never what. */
export interface Hint {
  /** What the ids are of, such as `"job"`. */
  readonly topic: string;
  readonly ids: readonly string[];
}

/**
 * Tells all who have the store open that something may have changed, so that they need not ask so often. A hint
 * may get lost, and may come more than once, late, or before the change can be read.
 */
export interface Hints {
  /** Returns immediately. Call it once the change is stored. */
  tell(topic: string, ids: readonly string[]): void;
  /**
   * Calls `listener` with each hint, also with those of the same process; with `"all"` where hints may have been
   * lost: read everything again. The result removes it.
   */
  on(listener: (hint: Hint | "all") => void): () => void;
}

/** Signs of life of those who share a store: nothing else that is read or written holds them up. */
export interface Lives {
  /** Stores that one is alive, or rejects within seconds: whether it was stored does not matter. */
  renew(id: string): Promise<void>;
  /** The ids of those that were seen in the last so many milliseconds by the store's clock, and its time, milliseconds. */
  seen(within: number): Promise<{ readonly ids: ReadonlySet<string>; readonly now: number }>;
  /** Forgets one, and all that were not seen for so many milliseconds. */
  remove(id: string, older: number): Promise<void>;
}

export interface StoreHealth {
  readonly writable: boolean;
  /** What is wrong, and what to do, while not writable. */
  readonly error?: string;
  /** How far behind the storage is, of a store that acknowledges what is on its disk and ships it. */
  readonly shipping?: {
    /** Seconds since the oldest write that is not in the storage; 0 if all are. */
    readonly lag: number;
    /** Groups of writes that are not in the storage, and their bytes. */
    readonly groups: number;
    readonly bytes: number;
    /** Everything acknowledged until then is in the storage: ISO 8601; `null` if nothing was shipped yet. */
    readonly last_at: string | null;
    /** Why the storage takes nothing at the moment. */
    readonly error: string | null;
    /**
     * If this start restored the store from the storage: as of when, and whether what was acknowledged later may be missing.
     */
    readonly restored: { readonly as_of: string | null; readonly may_lack: boolean } | null;
    /** Folders in the data folder with writes that were not shipped before another instance took over. */
    readonly set_aside: readonly string[];
  };
}

/** How far a storage is behind the disk. */
export type ShippingHealth = NonNullable<StoreHealth["shipping"]>;

export interface StoreStats {
  /** Name of the implementation, for display. */
  readonly database: string;
  /** Number of entities in each entity table. */
  readonly tables: Readonly<Record<string, number>>;
  /** Bytes on disk, if it uses one. */
  readonly bytes?: number;
  /** Reads of entity bodies and log entries since the start. */
  readonly reads: number;
  readonly writes: number;
  /** Figures of the implementation, such as compactions. */
  readonly details?: Readonly<Record<string, string | number | boolean | null>>;
}

/**
 * Where entities and logs live. `storeContract` in `agent-control-service/testing` is its definition.
 * A failed write rejects with `ServiceError` of type `storage_error` and changes nothing.
 */
export interface Store {
  table<K extends TableName>(name: K): Table<Tables[K]>;
  log<K extends LogName>(name: K): Log<Logs[K]>;
  /**
   * Whether several processes may have it open at the same time, each with its own copy of the service. Where
   * this is absent, only one has it.
   */
  readonly isShared?: boolean;
  /** Whether conditions may be about the entities of another table: `idIn`. @default false */
  readonly relates?: boolean;
  /** Between all processes that have the store open. */
  readonly hints: Hints;
  /** Of a shared store; where it is absent, signs of life are written like everything else. */
  readonly lives?: Lives | undefined;
  /**
   * Keeps the contents of files, below the key `svc-files`; a write is lasting when it resolves. Where it is absent, they
   * are in the data folder.
   */
  readonly contents?: UnstorageStorage | undefined;
  /** The time by the store's clock, which is the same for all who have it open. */
  now(): Promise<Date>;
  /** The same as it is known without asking, milliseconds since the epoch; of a store that several share. */
  readonly time?: (() => number) | undefined;
  /**
   * Runs `work` with the writes collected in `tx` and commits them as one; rejects, with nothing written, if
   * `work` throws. `work` must await only `tx`: it blocks other writers. Where something that it has read was
   * changed meanwhile, a store may discard all that it did and run it again with another `tx`: only the last run
   * counts, so it must have no effect except on `tx`. Rejects with `FencedError`, with nothing written, unless its
   * fence holds at the commit.
   */
  transaction<T>(work: (tx: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /** Shows whose it is to those who have not opened it; of a store that only one has, and that others can take over. */
  showMarks?(marks: readonly KeyMark[]): Promise<void>;
  health(): StoreHealth;
  stats(): Promise<StoreStats>;
  /**
   * A consistent snapshot of the store's files, for backups while it is written to; missing if it has no
   * files.
   */
  snapshot?(): Promise<StoreSnapshot>;
  /** Waits for pending writes and releases the folder. */
  close(): Promise<void>;
}

/** Opens a store that holds the given tables. */
export type StoreFactory = (context: {
  readonly tables: readonly TableSpec[];
  readonly dataDir: string;
  readonly log: Pick<Logger, "info" | "warn" | "error">;
  /** Throws where a store that shows these marks must not be opened; called before another instance loses it. */
  readonly admit?: ((marks: readonly KeyMark[]) => Promise<void>) | undefined;
}) => Promise<Store>;

export type StoreLogger = Parameters<StoreFactory>[0]["log"];

/** The id of an inserted entity already exists. */
export class StoreConflictError extends Error {
  override readonly name = "StoreConflictError";
  constructor(table: string, id: string) {
    super(`${table} "${id}" already exists`);
  }
}

/** No entity with the id exists. */
export class StoreMissingError extends Error {
  override readonly name = "StoreMissingError";
  constructor(table: string, id: string) {
    super(`${table} "${id}" does not exist`);
  }
}

/** The job has another run by now, or was removed: nothing of the transaction is written. */
export class FencedError extends Error {
  override readonly name = "FencedError";
  constructor({ job, epoch }: Fence) {
    super(`Run ${epoch} of job "${job}" is no longer its current run`);
  }
}
