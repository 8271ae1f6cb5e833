import type { Content, ContentRow } from "../content.ts";
import { storageError } from "../storage-error.ts";
import { hasAddition, LIVES } from "./additions.ts";
import type { Client } from "./connection.ts";
import { epochOf } from "./group.ts";
import { identifier, toColumn, toKeyColumn } from "./sql-text.ts";
import { type Row, TableLayout, tableName } from "./table-layout.ts";

/** The most of a statement. */
const BATCH = { rows: 1000, bytes: 4 * 1024 * 1024 };
/** Instances that were not seen for so long are dead, as `Membership` has it. */
const DEAD = "15 s";

/** The layout of a table that nobody has described: the first start that knows it computes its index values. */
export function plainLayout(name: string, schema: string): TableLayout {
  const spec = { name, version: 0, entity: false, index: () => ({}), facets: [], sorted: [] };
  return new TableLayout(spec, schema);
}

/** Names of the tables and logs of a schema that have rows; rows of instances that are dead do not count. */
export async function contentNames(client: Client, schema: string): Promise<string[]> {
  const own = identifier(schema);
  const { rows } = await client.query(`select name from ${own}._table order by name`);
  const found: string[] = [];
  for (const { name } of rows) {
    const where = name === "Instance" ? `where ${await aliveIn(client, schema)}` : "";
    const query = `select exists (select 1 from ${tableName(schema, name as string)} ${where}) as filled`;
    if ((await client.query(query)).rows[0]!.filled === true) found.push(name as string);
  }
  const { rows: logs } = await client.query(`select exists (select 1 from ${own}._log) as filled`);
  return logs[0]!.filled === true ? [...found, "logs"] : found;
}

/** The condition of rows of instances that are alive. Earlier versions have their signs of life in the row alone. */
async function aliveIn(client: Client, schema: string): Promise<string> {
  const since = `clock_timestamp() - interval '${DEAD}'`;
  const own = `(_body::json->>'seen_at')::timestamptz > ${since}`;
  if (!(await hasAddition(client, schema, LIVES))) return own;
  const lives = `${identifier(schema)}.${LIVES}`;
  return `(${own} or id in (select l.id from ${lives} l where l.seen_at > ${since}))`;
}

/** Rejects if an instance is alive that has the schema open. */
export async function refuseLiving(client: Client, schema: string, place: string): Promise<void> {
  const made = {
    text: "select to_regclass($1) is not null as made",
    values: [tableName(schema, "Instance")],
  };
  if ((await client.query(made)).rows[0]!.made !== true) return;
  const { rows } = await client.query(
    `select distinct _body::json->>'host' as host from ${tableName(schema, "Instance")} where ${await aliveIn(client, schema)}`,
  );
  if (rows.length === 0) return;
  throw storageError(
    `${place} is in use by ${rows.length === 1 ? "an instance" : "instances"} on ${rows.map(({ host }) => host).join(", ")}`,
    `Stop all instances first. One that was killed counts as alive for ${DEAD}.`,
  );
}

/** Writes a content into the empty tables of a schema, in the transaction of a client. */
export async function fillDatabase(
  client: Client,
  schema: string,
  { content, layouts }: { content: Content; layouts: ReadonlyMap<string, TableLayout> },
): Promise<void> {
  const own = identifier(schema);
  await client.query(`delete from ${tableName(schema, "Instance")}`);
  const { rows } = await client.query(`insert into ${own}._writer default values returning id::text`);
  const version = (BigInt(rows[0]!.id as string) * 2n ** 40n).toString();
  for (const { name, isLog, rows: read } of content.parts) {
    const layout = layouts.get(name);
    const put = async (batch: readonly ContentRow[]) => {
      if (isLog) {
        const text = `insert into ${own}._log (log, key, seq, body)
          select $1, r.key, r.seq, r.body from json_to_recordset($2) as r(key text, seq int, body text)`;
        await client.query({ text, values: [toColumn(name), JSON.stringify(batch.map(toEntry))] });
      } else if (layout !== undefined) {
        const rows = JSON.stringify(batch.map((row) => toEntity(layout, row)));
        const text = `select ${layout.put}($1, array[0], $2, $3)`;
        await client.query({ text, values: [rows, version, layout.version] });
      } else throw new Error(`The table "${name}" is new since the content was listed`);
    };
    let batch: ContentRow[] = [];
    let bytes = 0;
    for await (const some of read()) {
      for (const row of some) {
        batch.push(row);
        bytes += row.body.length;
        if (batch.length < BATCH.rows && bytes < BATCH.bytes) continue;
        await put(batch);
        batch = [];
        bytes = 0;
      }
    }
    if (batch.length > 0) await put(batch);
  }
}

function toEntry({ id, number, body }: ContentRow): Row {
  return { key: toKeyColumn(id), seq: number, body };
}

function toEntity(layout: TableLayout, { id, body }: ContentRow): Row {
  const entity = JSON.parse(body) as { id: string; run_count?: unknown };
  const row = layout.rowOf({ id, body, epoch: epochOf(entity) }, layout.recordOf(entity));
  return { _u: 1, ...row };
}
