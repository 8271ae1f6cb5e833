import type { Content, ContentPart, ContentRow } from "../content.ts";
import type { StoreSnapshot } from "../engine/snapshot.ts";
import { snapshotOf } from "../json/content-snapshot.ts";
import type { Client } from "./connection.ts";
import { constant, fromColumn, identifier } from "./sql-text.ts";
import { tableName } from "./table-layout.ts";

/** Bytes that a batch should have. */
const BATCH = 1024 * 1024;

/** Begins a transaction that sees one moment and does not end by itself while its reader is slow. */
export async function beginReading(client: Client): Promise<void> {
  await client.query("begin transaction isolation level repeatable read, read only");
  await client.query("set local statement_timeout = 0");
  await client.query("set local idle_in_transaction_session_timeout = '10min'");
}

/** What a schema has at this moment, for a backup. The connection ends with it. */
export async function takeSnapshot(client: Client, schema: string): Promise<StoreSnapshot> {
  const end = () => client.end().catch(() => {});
  try {
    await beginReading(client);
    return snapshotOf(await contentOfDatabase(client, schema), end);
  } catch (error) {
    await end();
    throw error;
  }
}

/** What a schema has, read in the transaction of a client, one part at a time. */
export async function contentOfDatabase(client: Client, schema: string): Promise<Content> {
  const own = identifier(schema);
  const { rows: tables } = await client.query(`select name from ${own}._table order by name`);
  const { rows: logs } = await client.query(
    `with recursive l(log) as (select min(log) from ${own}._log
       union all select (select min(n.log) from ${own}._log n where n.log > l.log) from l where l.log is not null)
     select log from l where log is not null`,
  );
  return {
    parts: [
      ...tables.map(({ name }) => toTable(client, schema, name as string)),
      ...logs.map(({ log }) => toLog(client, schema, log as string)),
    ],
  };
}

function toTable(client: Client, schema: string, name: string): ContentPart {
  const query = `select id, null as number, _body as body from ${tableName(schema, name)} order by id`;
  return { name, isLog: false, rows: () => readRows(client, query) };
}

function toLog(client: Client, schema: string, column: string): ContentPart {
  const query = `select key as id, seq as number, body from ${identifier(schema)}._log
    where log = ${constant(column)} order by key, seq`;
  return { name: fromColumn(column), isLog: true, rows: () => readRows(client, query) };
}

async function* readRows(client: Client, query: string): AsyncGenerator<ContentRow[], void> {
  await client.query(`declare svc_rows no scroll cursor for ${query}`);
  try {
    for (let count = 10; ; ) {
      const { rows } = await client.query(`fetch ${count} from svc_rows`);
      if (rows.length === 0) return;
      const batch = rows.map(toRow);
      yield batch;
      const bytes = batch.reduce((sum, { body }) => sum + body.length, 0);
      count = Math.max(1, Math.min(1000, Math.floor((BATCH * batch.length) / bytes)));
    }
  } finally {
    // Where the connection is lost, its cursor is.
    await client.query("close svc_rows").catch(() => {});
  }
}

function toRow({ id, number, body }: Record<string, unknown>): ContentRow {
  const row = { id: fromColumn(id as string), body: body as string };
  return number === null ? row : { ...row, number: number as number };
}
