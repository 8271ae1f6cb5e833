import { setTimeout as delay } from "node:timers/promises";
import { delays } from "../../base/backoff.ts";
import type { StoreLogger } from "../store.ts";
import type { Client, Result } from "./connection.ts";
import { trigramsOf } from "./migrate.ts";
import { hashOf, identifier, nameOf } from "./sql-text.ts";
import { indexesOf, statisticsOf, type TableIndex } from "./table-indexes.ts";
import type { TableLayout } from "./table-layout.ts";

/** One at a time arranges the indexes of a database: two that do so wait for each other. */
const LOCK = Number.parseInt(hashOf("agent-control-service: indexes"), 16);
/** Indexes whose name has their definition: that of rows of another version, and those of what is looked for again and again. */
const DEFINED = /^(\d+|polled)\.[0-9a-f]{10}$/;
const AGAIN = delays({ first: 1000, most: 60_000 });

interface Parts {
  /** Of the tables, without quotes. */
  readonly schema: string;
  readonly layouts: readonly TableLayout[];
  readonly read: (text: string, values: readonly unknown[]) => Promise<Result["rows"]>;
  /** A connection of its own. */
  readonly connect: () => Promise<Client>;
  readonly log: StoreLogger;
  /** Ends it: what is not done then is done by the next start. */
  readonly signal: AbortSignal;
}

/** What is to be done: `broken` are those whose making was interrupted. */
interface Work {
  readonly missing: readonly TableIndex[];
  readonly broken: readonly string[];
  readonly needless: readonly string[];
  /** Tables about whose values the database is to know more. */
  readonly unknown: readonly { readonly table: string; readonly statistics: readonly TableIndex[] }[];
}

/**
 * Gives the tables the indexes of this version, and removes those that only earlier versions have made, once the new ones
 * are complete. Writes continue meanwhile, and indexes only make reads quicker: nobody waits for it.
 */
export async function arrangeIndexes(parts: Parts): Promise<void> {
  const { signal, log } = parts;
  for (let failures = 0; !signal.aborted; ) {
    try {
      const work = await findWork(parts);
      if (work === undefined || (await doWork(parts, work))) return;
    } catch (error) {
      if (signal.aborted) return;
      if (failures++ === 0)
        log.warn("the indexes of the database could not be arranged: lists are slower until they are", {
          reason: (error as Error).message,
        });
    }
    // Another instance does it, or what keeps it from being done must pass.
    await delay(AGAIN(failures), undefined, { signal, ref: false }).catch(() => {});
  }
}

/** Nothing where all is as it should be. */
async function findWork({ schema, layouts, read }: Parts): Promise<Work | undefined> {
  const trigrams = await trigramsOf((text) => read(text, []));
  const rows = await read(
    `select i.relname as name, x.indisvalid as valid, t.relname as table
     from pg_index x join pg_class i on i.oid = x.indexrelid join pg_class t on t.oid = x.indrelid
       join pg_namespace n on n.oid = t.relnamespace
     where n.nspname = $1 and not x.indisprimary`,
    [schema],
  );
  const known = new Map(rows.map(({ name, valid }) => [name as string, valid as boolean]));
  const wanted = layouts.flatMap((layout) => indexesOf(layout, trigrams));
  const names = new Set(wanted.map(({ name }) => name));
  const former = new Set(layouts.flatMap(formerOf));
  const tables = new Set(layouts.map(({ name }) => nameOf(name)));
  const isNeedless = ({ name, table }: Result["rows"][number]) =>
    !names.has(name as string) &&
    (former.has(name as string) ||
      (tables.has(table as string) && DEFINED.test((name as string).slice(`${table}:`.length))));
  const about = await read(
    `select s.stxname as name from pg_statistic_ext s join pg_namespace n on n.oid = s.stxnamespace where n.nspname = $1`,
    [schema],
  );
  const counted = new Set(about.map(({ name }) => name as string));
  const work = {
    missing: wanted.filter(({ name }) => known.get(name) !== true),
    broken: wanted.map(({ name }) => name).filter((name) => known.get(name) === false),
    needless: rows.filter(isNeedless).map(({ name }) => name as string),
    unknown: layouts
      .map((layout) => ({
        table: layout.table,
        statistics: statisticsOf(layout).filter(({ name }) => !counted.has(name)),
      }))
      .filter(({ statistics }) => statistics.length > 0),
  };
  return work.missing.length + work.needless.length + work.unknown.length === 0 ? undefined : work;
}

/** Names of the indexes that earlier versions have made. */
function formerOf(layout: TableLayout): string[] {
  return layout.fields.flatMap((field) =>
    ["", ":order", ":sparse", "#"].map((kind) => nameOf(`${layout.name}:${field}${kind}`)),
  );
}

/** Returns whether it was done; another instance may be doing it. */
async function doWork(parts: Parts, { missing, broken, needless, unknown }: Work): Promise<boolean> {
  const { schema, connect, log, signal } = parts;
  const open: Client[] = [];
  const end = () => void Promise.all(open.map((client) => client.end())).catch(() => {});
  signal.addEventListener("abort", end, { once: true });
  try {
    const opened = async () => {
      const client = await connect();
      open.push(client);
      return client;
    };
    const keeper = await opened();
    const client = await opened();
    // It may have ended while a connection was made.
    signal.throwIfAborted();
    // Held by a transaction, as a lock of a session would be lost behind PgBouncer. The making of an index waits for all that
    // have a view of the database: a statement with parameters would keep one.
    await keeper.query("begin isolation level read committed");
    const { rows } = await keeper.query(`select pg_try_advisory_xact_lock(${LOCK}) as mine`);
    if (rows[0]!.mine !== true) return false;
    const drop = (name: string) =>
      client.query(`drop index concurrently if exists ${identifier(schema)}.${identifier(name)}`);
    for (const name of broken) await drop(name);
    for (const { sql } of missing) await client.query(`create index concurrently if not exists ${sql}`);
    for (const name of needless) await drop(name);
    for (const { table, statistics } of unknown) {
      for (const { sql } of statistics) await client.query(`create statistics if not exists ${sql}`);
      await client.query(`analyze ${table}`);
    }
    log.info("the indexes of the database were arranged", {
      made: missing.length,
      removed: needless.length,
    });
    return true;
  } finally {
    signal.removeEventListener("abort", end);
    end();
  }
}
