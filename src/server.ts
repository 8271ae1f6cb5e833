import { resolveOptions, type ServerOptions } from "./core/service/options.ts";
import { createService, type Service } from "./core/service/service.ts";
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
  return createService({
    options: resolved,
    plugins: [docs(), events(), telemetry(), resolved.admin && admin()],
    openStore: resolved.store ?? storeFor(resolved.databaseUrl),
  });
}

/** The store of those who have not passed one: in a database where there is its URL, else in the data folder. */
function storeFor(url: string | undefined): StoreFactory {
  if (url === undefined) return openJsonStore;
  return async (context) => {
    const { openPostgresStore } = await import("./core/store/postgres/postgres-store.ts");
    return openPostgresStore(context, { url });
  };
}
