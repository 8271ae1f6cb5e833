import type { Client } from "./connection.ts";
import { identifier } from "./sql-text.ts";

/** The table of signs of life, whose lock nothing else takes. */
export const LIVES = "_life";

/** Tables that a store has besides: code that does not know them works beside them, so they are no migration. */
export function additions(schema: string): string {
  return `
    create table if not exists ${schema}.${LIVES} (
      id text collate "C" primary key, seen_at timestamptz not null) with (fillfactor = 50);
  `;
}

/** Whether a schema has all of them. */
export async function hasAdditions(client: Client, schema: string): Promise<boolean> {
  const values = [`${identifier(schema)}.${LIVES}`];
  const { rows } = await client.query({ text: "select to_regclass($1) is not null as made", values });
  return rows[0]!.made === true;
}
