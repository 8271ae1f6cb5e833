import { checkPostgresOptions, type PostgresOptions } from "./core/store/postgres/postgres-options.ts";
import { openPostgresStore } from "./core/store/postgres/postgres-store.ts";
import type { StoreFactory } from "./core/store/store.ts";

export type { PostgresOptions } from "./core/store/postgres/postgres-options.ts";

/**
 * A store in a Postgres database, version 14 or later, which several instances of a service can have open at the same
 * time. Needs the package `pg`. Opening it rejects where the database cannot be reached, cannot be used, or was changed
 * by a newer version of this package.
 *
 * @example
 * createServer({ agents, store: postgres({ url: process.env.DATABASE_URL! }) });
 */
export function postgres(options: PostgresOptions): StoreFactory {
  checkPostgresOptions(options);
  return (context) => openPostgresStore(context, options);
}
