import { setTimeout as delay } from "node:timers/promises";
import type { StoreLogger } from "../store.ts";
import { type Client, type Connections, isStarting } from "./connection.ts";
import type { Server } from "./migrate.ts";
import { isClearText } from "./postgres-options.ts";

/** Milliseconds that a start waits for a database which is about to start. */
const STARTING = 8000;

/** Waits for a database that is about to start, as one does that starts together with the service. */
export async function connectFirst(connections: Connections, log: StoreLogger): Promise<Client> {
  const until = performance.now() + STARTING;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await connections.primary();
    } catch (error) {
      if (!isStarting(error) || performance.now() > until) throw error;
      if (isFirst)
        log.warn("the database does not answer yet: the start waits for it", { seconds: STARTING / 1000 });
      await delay(250);
    }
  }
}

/** What people should know of a database that works. */
export function warningsOf(
  url: string,
  { isLazy, isSearchSlow }: Pick<Server, "isLazy"> & { isSearchSlow: boolean },
): string[] {
  return [
    ...(isClearText(url)
      ? [
          "The connection to the database is not encrypted, and the database is on another host: add sslmode=verify-full to its URL, where the network is not your own",
        ]
      : []),
    ...(isLazy
      ? [
          "The database has synchronous_commit = off for this user: the service turns it on for what it writes, as acknowledged writes must not be lost",
        ]
      : []),
    ...(isSearchSlow
      ? [
          "The database lacks the extension pg_trgm, which this user may not create: searches read all texts. Have an administrator run: create extension pg_trgm",
        ]
      : []),
  ];
}
