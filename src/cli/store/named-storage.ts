import { option } from "../../core/base/option.ts";
import { openStorage, type UnstorageStorage } from "../../core/storage/open-storage.ts";
import type { StorageDriver } from "../../core/storage/storage-driver.ts";
import { storageFromUrl } from "../../core/storage/storage-url.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";

/** An option that names a storage. */
export const storageFlag = (what: string) =>
  option.text(
    `${what}: s3://bucket/prefix?region=…, gs://bucket/prefix, azblob://account/container/prefix or file:///folder`,
    "url",
  );

/** The storage that an option names; its credentials are in the environment. */
export function openNamed(url: string, context: Pick<CliContext, "env">): UnstorageStorage {
  return openStorage(openNamedDriver(url, context));
}

/** Its driver: the only one that can create objects atomically. */
export function openNamedDriver(url: string, { env }: Pick<CliContext, "env">): StorageDriver {
  try {
    return storageFromUrl(url, { env });
  } catch (error) {
    throw error instanceof TypeError ? new UsageError(error.message) : error;
  }
}
