export type * from "./core/store/store.ts";
export { StoreConflictError, StoreMissingError } from "./core/store/store.ts";
export type { StoreDriver, StoreDriverOptions } from "./core/store/unstorage-driver.ts";
export { storeDriver } from "./core/store/unstorage-driver.ts";
