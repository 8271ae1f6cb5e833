export { azureDriver } from "./core/storage/azure.ts";
export { fileDriver } from "./core/storage/file.ts";
export type { FileIdentity, FileSystem, StoreIo } from "./core/storage/file-io.ts";
export { gcsDriver } from "./core/storage/gcs.ts";
export type { UnstorageStorage } from "./core/storage/open-storage.ts";
export { s3Driver } from "./core/storage/s3.ts";
export type {
  AppendableFiles,
  AppendingStorageDriver,
  CreatingStorageDriver,
  OwnStorageDriver,
  StorageDriver,
} from "./core/storage/storage-driver.ts";
export { StorageFailure, type StorageFailureReason } from "./core/storage/storage-failure.ts";
export { storageFromUrl } from "./core/storage/storage-url.ts";
