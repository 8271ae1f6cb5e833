import type { Client } from "./connection.ts";
import { HourTallies, TALLIED } from "./hour-tallies.ts";
import { identifier } from "./sql-text.ts";

/** The table of signs of life, whose lock nothing else takes. */
export const LIVES = "_life";

/** The table of the contents of files. */
export const CONTENTS = "_content";

/** Tables that a store has besides: code that does not know them works beside them, so they are no migration. */
export function additions(schema: string): string {
  return `
    create table if not exists ${schema}.${LIVES} (
      id text collate "C" primary key, seen_at timestamptz not null) with (fillfactor = 50);
    create table if not exists ${schema}.${CONTENTS} (
      key text collate "C" primary key, data bytea not null);
    alter table ${schema}.${CONTENTS} alter column data set storage external;
    ${HourTallies.tables(schema)}
  `;
}

/** Whether a schema has all of them. */
export async function hasAdditions(client: Client, schema: string): Promise<boolean> {
  for (const name of [LIVES, CONTENTS, TALLIED]) if (!(await hasAddition(client, schema, name))) return false;
  return true;
}

/** Whether a schema has one of them: earlier versions have made fewer. */
export async function hasAddition(client: Client, schema: string, name: string): Promise<boolean> {
  const values = [`${identifier(schema)}.${name}`];
  const { rows } = await client.query({ text: "select to_regclass($1) is not null as made", values });
  return rows[0]!.made === true;
}
