export type { KeyMark } from "./core/models/own-rows.ts";
export type { StoreSnapshot } from "./core/store/engine/snapshot.ts";
export type {
  Condition,
  Entity,
  Hint,
  Hints,
  IndexValue,
  ListQuery,
  Lives,
  Log,
  LogEntry,
  Page,
  Position,
  Store,
  StoreFactory,
  StoreHealth,
  StoreStats,
  Table,
  TableSpec,
  Transaction,
} from "./core/store/store.ts";
export { FencedError, StoreConflictError, StoreMissingError } from "./core/store/store.ts";
export type * from "./core/store/stored-types.ts";
export type { StoreDriver, StoreDriverOptions } from "./core/store/unstorage-driver.ts";
export { storeDriver } from "./core/store/unstorage-driver.ts";
