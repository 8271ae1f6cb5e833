import type { Client } from "./connection.ts";
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
  `;
}

/** Whether a schema has all of them. */
export async function hasAdditions(client: Client, schema: string): Promise<boolean> {
  const values = [LIVES, CONTENTS].map((name) => `${identifier(schema)}.${name}`);
  const text = "select to_regclass($1) is not null and to_regclass($2) is not null as made";
  const { rows } = await client.query({ text, values });
  return rows[0]!.made === true;
}
