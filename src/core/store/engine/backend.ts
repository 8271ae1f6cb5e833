import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { PassingMap } from "../../base/passing-map.ts";
import type { IndexValue, StoreHealth, TableSpec } from "../store.ts";
import type { Body } from "./body.ts";
import type { StoreSnapshot } from "./snapshot.ts";
import type { IndexRecord, TableIndex } from "./table-index.ts";

/** A table in the store: the index of what is committed, and the writes that are not yet on disk. */
export interface StoreTable {
  readonly name: string;
  readonly spec: TableSpec;
  readonly index: TableIndex;
  /** The newest write of each entity that was passed to the backend and is not yet durable. */
  readonly pending: PassingMap<string, EntityChange>;
}

/** A log in the store. */
export interface StoreLog {
  readonly name: string;
  /** The newest write of each key that is not yet durable, and the number of the last entry after it. */
  readonly pending: PassingMap<string, LogChange>;
}

export interface PutChange {
  readonly kind: "put";
  readonly table: StoreTable;
  readonly id: string;
  readonly body: Body;
  readonly record: IndexRecord;
  /** The record of the version that it was made from, if that is the previous one and known. */
  readonly since: IndexRecord | undefined;
  /** The slot that the entity had when it was staged. */
  readonly slot: number | undefined;
  /** Whether it was inserted; else it changes an existing one. */
  readonly isNew: boolean;
}

export interface DeleteChange {
  readonly kind: "delete";
  readonly table: StoreTable;
  readonly id: string;
}

export interface AppendChange {
  readonly kind: "append";
  readonly log: StoreLog;
  readonly key: string;
  readonly last: number;
  readonly text: string;
}

export interface ClearChange {
  readonly kind: "clear";
  readonly log: StoreLog;
  readonly key: string;
  readonly last: 0;
}

export type EntityChange = PutChange | DeleteChange;
export type LogChange = AppendChange | ClearChange;
export type Change = EntityChange | LogChange;

/** Numbers of log entries, both included. */
export interface EntryRange {
  readonly from: number;
  readonly to: number;
}

/** Keeps bodies and log entries, and makes changes durable: the part that differs between stores. */
export interface Backend {
  /** For display. */
  readonly database: string;
  /** A committed entity, synchronously: other writers wait for it. */
  body(table: StoreTable, slot: number): Body;
  /** A committed entity without blocking; synchronous if it is in memory. */
  bodyOf(table: StoreTable, slot: number): MaybePromise<Body>;
  /** Committed entities as they are now, even if they change before the promise resolves. */
  bodies(table: StoreTable, slots: readonly number[]): Promise<Body[]>;
  /** Number of a key's last committed entry. */
  lastOf(log: StoreLog, key: string): number;
  /** What `read` makes of the JSON of a key's entries, from number `from` to number `to`, both included. */
  entries<T>(log: StoreLog, key: string, range: EntryRange, read: (text: string) => T): Promise<T[]>;
  /**
   * Makes changes durable, then visible in the index, then calls `done`. On failure `done` gets the error,
   * nothing is changed, and all commits queued after it fail too, as they may depend on it.
   */
  commit(changes: readonly Change[], done: (error?: Error) => void): void;
  /** Its files as they are now; missing if it has none. */
  snapshot?(): Promise<StoreSnapshot>;
  /** Why nothing can be stored at the moment, so that it is not tried; missing if that is not known before. */
  refusal?(): Error | undefined;
  health(): StoreHealth;
  bytes(): number | undefined;
  details(): Readonly<Record<string, IndexValue>>;
  close(): Promise<void>;
}
