import { setTimeout as delay } from "node:timers/promises";
import { OptionsError } from "../../base/check-options.ts";
import { additions, hasAdditions } from "./additions.ts";
import { CommitFunction } from "./commit-sql.ts";
import type { Client, Result } from "./connection.ts";
import { HourTallies } from "./hour-tallies.ts";
import { base } from "./migrations/0001-base.ts";
import { counts } from "./migrations/0002-counts.ts";
import type { Migration } from "./migrations/migration.ts";
import { hashOf, identifier } from "./sql-text.ts";
import { indexesOf, statisticsOf } from "./table-indexes.ts";
import type { TableLayout } from "./table-layout.ts";

export const MIGRATIONS: readonly Migration[] = [base, counts];

/** One at a time changes tables, in all schemas of a database: an extension is the database's. */
const LOCK = Number.parseInt(hashOf("agent-control-service: migrations"), 16);

/** The code of a lock that was not given in time. */
const LOCKED = "55P03";
/** Milliseconds that a change of tables waits for a lock, as all who come later wait behind it, and until it tries again. */
const WAIT = 1000;
const PAUSE = 2000;
const TRIES = 60;

/** What a database is like. */
export interface Server {
  /** Such as "15.14". */
  readonly version: string;
  /** Whether it can turn text into lower case as JavaScript does. */
  readonly hasUnicode: boolean;
  /** Whether it acknowledges what is not on a disk. */
  readonly isLazy: boolean;
}

/** Reads what the database is like, and refuses one that this store cannot use. */
export async function inspect(client: Client): Promise<Server> {
  const { rows } = await client.query(
    `select current_setting('server_version') as version, current_setting('server_version_num')::int as number,
       current_setting('server_encoding') as encoding,
       current_setting('synchronous_commit') = 'off' as lazy,
       exists (select 1 from pg_collation where collname = 'und-x-icu') as unicode`,
  );
  const { version, number, encoding, unicode, lazy } = rows[0] as {
    version: string;
    number: number;
    encoding: string;
    unicode: boolean;
    lazy: boolean;
  };
  if (number < 140_000)
    throw new OptionsError(`The database is Postgres ${version}: the store needs version 14 or later`);
  if (encoding !== "UTF8") {
    throw new OptionsError(`The database has encoding ${encoding}: the store needs one with encoding UTF8`);
  }
  return { version: version.split(" ")[0]!, hasUnicode: unicode, isLazy: lazy };
}

/**
 * Makes the tables, or brings them to the version of this code. Refuses a database that newer code has changed. Returns
 * the tables whose index values must be computed again.
 */
export async function migrate(
  client: Client,
  schema: string,
  layouts: readonly TableLayout[],
  migrations: readonly Migration[] = MIGRATIONS,
): Promise<TableLayout[]> {
  for (let tries = 1; ; tries++) {
    if (await isCurrent(client, schema, layouts, migrations)) return [];
    try {
      return await change(client, schema, layouts, migrations);
    } catch (error) {
      if ((error as { code?: string }).code !== LOCKED || tries === TRIES) throw error;
      await delay(PAUSE);
    }
  }
}

async function change(
  client: Client,
  schema: string,
  layouts: readonly TableLayout[],
  migrations: readonly Migration[],
): Promise<TableLayout[]> {
  const own = identifier(schema);
  await client.query("begin");
  try {
    await client.query("set local lock_timeout = 0");
    await client.query({ text: "select pg_advisory_xact_lock($1)", values: [LOCK] });
    await client.query(`set local lock_timeout = ${WAIT}`);
    if (!(await hasSchema(client, schema))) await client.query(`create schema ${own}`);
    await client.query(
      `create table if not exists ${own}._migration (number int primary key, at timestamptz not null default now())`,
    );
    const done = await numberOf(client, schema, migrations);
    for (const { number, sql } of migrations.slice(done)) {
      await client.query(sql(own));
      await client.query({ text: `insert into ${own}._migration (number) values ($1)`, values: [number] });
    }
    await client.query(additions(own));
    const trigrams = await findTrigrams(client);
    const versions = await versionsOf(client, own);
    const changed = layouts.filter(({ name, version }) => versions.get(name) !== version);
    for (const layout of changed) {
      const columns = await columnsOf(client, layout);
      await client.query(layout.definition(columns));
      if (columns.size === 0) await client.query(indexing(layout, trigrams));
      await count(client, layout);
      await client.query({
        text: `insert into ${own}._table (name, version) values ($1, $2) on conflict (name) do update set version = $2`,
        values: [layout.name, layout.version],
      });
    }
    for (const tallies of talliesOf(layouts))
      if (!(await hasFunction(client, schema, tallies.function))) await client.query(tallies.sql);
    if (layouts.length > 0) await client.query(new CommitFunction(own, layouts).sql);
    await client.query("commit");
    return changed.filter(({ name }) => versions.has(name));
  } catch (error) {
    await client.query("rollback").catch(() => {});
    throw error;
  }
}

/** Gives a new table its indexes. One that has rows gets them while the service runs. */
function indexing(layout: TableLayout, trigrams: string | undefined): string {
  const indexes = indexesOf(layout, trigrams).map(({ sql }) => `create index ${sql};`);
  return [...indexes, ...statisticsOf(layout).map(({ sql }) => `create statistics ${sql};`)].join("\n");
}

/** The columns of a table, quoted; none where it does not exist. */
async function columnsOf(client: Client, { table }: TableLayout): Promise<Set<string>> {
  const text = `select attname as name from pg_attribute
    where attrelid = to_regclass($1) and attnum > 0 and not attisdropped`;
  const { rows } = await client.query({ text, values: [table] });
  return new Set(rows.map(({ name }) => identifier(name as string)));
}

/** Has the database keep the counts of a table, where it does not: only that stops writes while it counts. */
async function count(client: Client, layout: TableLayout): Promise<void> {
  const { body, sql } = layout.counting();
  const text = `select p.prosrc as body from pg_trigger t join pg_proc p on p.oid = t.tgfoid
    where t.tgrelid = to_regclass($1) and t.tgname = 'count_insert'`;
  const { rows } = await client.query({ text, values: [layout.table] });
  if ((rows[0]?.body ?? "") !== body) await client.query(sql);
}

/** Looks without a lock: each start but the first finds everything as it should be. */
async function isCurrent(
  client: Client,
  schema: string,
  layouts: readonly TableLayout[],
  migrations: readonly Migration[],
): Promise<boolean> {
  const { rows } = await client.query({
    text: "select to_regclass($1) is not null as made",
    values: [`${identifier(schema)}._migration`],
  });
  if (rows[0]!.made !== true) return false;
  if ((await numberOf(client, schema, migrations)) < migrations.length) return false;
  if (!(await hasAdditions(client, schema))) return false;
  const versions = await versionsOf(client, identifier(schema));
  if (layouts.some(({ name, version }) => versions.get(name) !== version)) return false;
  const { name } = new CommitFunction(identifier(schema), layouts);
  for (const one of [name, ...talliesOf(layouts).map((tallies) => tallies.function)])
    if (!(await hasFunction(client, schema, one))) return false;
  return true;
}

function talliesOf(layouts: readonly TableLayout[]): HourTallies[] {
  return layouts.filter(({ spec }) => spec.tallies).map((layout) => new HourTallies(layout));
}

async function hasFunction(client: Client, schema: string, name: string): Promise<boolean> {
  const text = "select 1 from pg_proc where proname = $1 and pronamespace = $2::regnamespace";
  return (await client.query({ text, values: [name, identifier(schema)] })).rows.length > 0;
}

/** Whether a schema has the tables of a store. Refuses one that newer code has changed. */
export async function isMade(client: Client, schema: string): Promise<boolean> {
  const { rows } = await client.query({
    text: "select to_regclass($1) is not null as made",
    values: [`${identifier(schema)}._migration`],
  });
  return rows[0]!.made === true && (await numberOf(client, schema, MIGRATIONS)) > 0;
}

async function hasSchema(client: Client, schema: string): Promise<boolean> {
  const query = { text: "select 1 from pg_namespace where nspname = $1", values: [schema] };
  return (await client.query(query)).rows.length > 0;
}

/** The number of the last migration that was made. */
async function numberOf(client: Client, schema: string, migrations: readonly Migration[]): Promise<number> {
  const { rows } = await client.query(
    `select coalesce(max(number), 0)::int as number from ${identifier(schema)}._migration`,
  );
  const number = rows[0]!.number as number;
  if (number <= migrations.length) return number;
  throw new OptionsError(
    `The database (schema ${schema}) was changed by a newer version of agent-control-service: its tables have version ${number}, this version knows ${migrations.length}. Start the newer version`,
  );
}

async function versionsOf(client: Client, own: string): Promise<Map<string, string>> {
  const { rows } = await client.query(`select name, version from ${own}._table`);
  return new Map(rows.map((row) => [row.name as string, row.version as string]));
}

/** The schema of the extension for searches, quoted. */
export async function trigramsOf(
  read: (text: string) => Promise<Result["rows"]>,
): Promise<string | undefined> {
  const [found] = await read(
    "select n.nspname as schema from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'",
  );
  return found && identifier(found.schema as string);
}

/** The same; it is made where it is missing and may be made. */
async function findTrigrams(client: Client): Promise<string | undefined> {
  const read = async (text: string) => (await client.query(text)).rows;
  const known = await trigramsOf(read);
  if (known !== undefined) return known;
  await client.query("savepoint trigrams");
  try {
    await client.query("create extension pg_trgm");
    return await trigramsOf(read);
  } catch {
    // Not installed, or not for this user: searches read all texts.
    await client.query("rollback to savepoint trigrams");
    return undefined;
  }
}
