import { option } from "../../core/base/option.ts";
import { describeStorageUrl } from "../../core/storage/storage-url.ts";
import { BucketPlace } from "../../core/store/bucket/bucket-place.ts";
import type { Place } from "../../core/store/move.ts";
import { DatabasePlace } from "../../core/store/postgres/database-place.ts";
import type { CliContext } from "../context.ts";
import { databaseSchemaOf, databaseUrlOf, FOLDER_FLAGS, readVariable } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { openNamedDriver } from "./named-storage.ts";

/** The options of commands that work on a data folder, or on the database or storage that the variables of a service name. */
export const STORE_FLAGS = {
  ...FOLDER_FLAGS,
  schema: option.text(
    "schema of the database (default: SERVICE_DATABASE_SCHEMA, or agent_control_service)",
    "name",
  ),
};

interface StoreFlags {
  readonly dataDir?: string | undefined;
  readonly schema?: string | undefined;
}

/**
 * Runs `work` with the database in `SERVICE_DATABASE_URL` or the storage in `SERVICE_STORAGE_URL`; `undefined` where the
 * command is about a folder.
 */
export async function withRemote<T>(
  flags: StoreFlags,
  context: CliContext,
  work: (place: Place) => Promise<T>,
): Promise<T | undefined> {
  const place = remoteOf(flags, context);
  if (place === undefined) return undefined;
  await place.lock();
  try {
    return await work(place);
  } finally {
    await place.release();
  }
}

/** Where the service of this environment keeps its data, unless that is a folder or the command names one. */
export function remoteOf(flags: StoreFlags, context: CliContext): Place | undefined {
  const url = databaseUrlOf(flags, context);
  if (url !== undefined) return databasePlace(url, databaseSchemaOf(flags, context), context);
  const storage = flags.dataDir === undefined ? readVariable("SERVICE_STORAGE_URL", context) : undefined;
  return storage === undefined ? undefined : storagePlace(storage, context);
}

/** The store in a schema of the database that a URL names. */
export function databasePlace(url: string, schema: string | undefined, context: CliContext): DatabasePlace {
  return new DatabasePlace({ url, schema, keys: encryptionKeysOf(context) });
}

/** The store in the storage that a URL names. */
export function storagePlace(url: string, context: CliContext): Place {
  return new BucketPlace({ name: describeStorageUrl(url), storage: openNamedDriver(url, context) });
}
