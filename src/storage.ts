export type { Environment } from "./core/storage/aws-credentials.ts";
export { type AzureOptions, azureDriver } from "./core/storage/azure.ts";
export type { AzureCredentials } from "./core/storage/azure-credentials.ts";
export type { CallLimits, CallTools } from "./core/storage/call.ts";
export { type FileOptions, fileDriver } from "./core/storage/file.ts";
export type { FileIdentity, FileSystem, StoreIo } from "./core/storage/file-io.ts";
export { type GcsOptions, gcsDriver } from "./core/storage/gcs.ts";
export type { GoogleToken } from "./core/storage/google-token.ts";
export type { StorageLike, UnstorageStorage } from "./core/storage/open-storage.ts";
export { type S3Options, s3Driver } from "./core/storage/s3.ts";
export type { AwsCredentials } from "./core/storage/sign-v4.ts";
export type {
  AppendableFiles,
  AppendingStorageDriver,
  CreatingStorageDriver,
  OwnStorageDriver,
  StorageDriver,
} from "./core/storage/storage-driver.ts";
export {
  StorageFailure,
  type StorageFailureOptions,
  type StorageFailureReason,
} from "./core/storage/storage-failure.ts";
export { type StorageUrlOptions, storageFromUrl } from "./core/storage/storage-url.ts";
