import { type ResolvedOptions, resolveOptions, type ServerOptions } from "./core/service/options.ts";
import { createService, type Service } from "./core/service/service.ts";
import { Standby } from "./core/store/bucket/standby.ts";
import { hasOpenStore } from "./core/store/json/folder-place.ts";
import { openJsonStore } from "./core/store/json/json-store.ts";
import type { StoreFactory } from "./core/store/store.ts";
import { admin } from "./plugins/admin/index.ts";
import { docs } from "./plugins/docs/index.ts";
import { events } from "./plugins/events/plugin.ts";
import { telemetry } from "./plugins/telemetry/plugin.ts";

/**
 * Makes a service that hosts agents.
 *
 * @example
 * export default createServer({ agents: [auditor] });
 */
export function createServer(options: ServerOptions): Service {
  const resolved = resolveOptions(options);
  const { storage } = resolved;
  const standby = storage === undefined ? undefined : new Standby();
  return createService({
    options: resolved,
    plugins: [docs(), events(), telemetry(), resolved.admin && admin()],
    openStore:
      resolved.store ??
      (storage !== undefined ? storeIn({ ...resolved, storage }, standby) : storeFor(resolved)),
    standby,
  });
}

/** The store whose journal is in a storage. */
function storeIn(
  {
    storage,
    durability,
  }: Pick<ResolvedOptions, "durability"> & { storage: NonNullable<ResolvedOptions["storage"]> },
  standby: Standby | undefined,
): StoreFactory {
  return async (context) => {
    if (durability === "bucket" && hasOpenStore(context.dataDir)) {
      context.log.warn(
        "The data folder has a store that is not the one in the storage: its jobs are not used. Remove it",
        { folder: context.dataDir },
      );
    }
    const { bucketStore } = await import("./core/store/bucket/bucket-store.ts");
    const { storageFromVariable } = await import("./core/storage/storage-url.ts");
    // The store itself repeats what fails, and says meanwhile what is wrong.
    const driver =
      typeof storage === "string"
        ? storageFromVariable("SERVICE_STORAGE_URL", storage, { patience: 2000 })
        : storage;
    return bucketStore(driver, { standby, durability })(context);
  };
}

/** The store of those who have not passed one: in a database where there is its URL, else in the data folder. */
function storeFor({
  databaseUrl: url,
  databaseSchema: schema,
}: Pick<ResolvedOptions, "databaseUrl" | "databaseSchema">): StoreFactory {
  if (url === undefined) return openJsonStore;
  return async (context) => {
    if (hasOpenStore(context.dataDir)) {
      context.log.warn(
        "The data folder has a store that was not moved to the database in SERVICE_DATABASE_URL: its jobs are not used. Move it with `svc store move`, or remove it",
        { folder: context.dataDir },
      );
    }
    const { openPostgresStore } = await import("./core/store/postgres/postgres-store.ts");
    return openPostgresStore(context, { url, ...(schema !== undefined && { schema }) });
  };
}
