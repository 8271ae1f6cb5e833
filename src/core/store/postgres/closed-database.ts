import { describeMark, type Mark } from "../closed.ts";
import { CLOSED, type Client } from "./connection.ts";
import { identifier } from "./sql-text.ts";

/** Why nobody may write to a schema, if so. */
export async function readMark(client: Client, schema: string): Promise<Mark | undefined> {
  const own = identifier(schema);
  const made = { text: "select to_regclass($1) is not null as made", values: [`${own}._moved`] };
  if ((await client.query(made)).rows[0]!.made !== true) return undefined;
  const [row] = (await client.query(`select mark from ${own}._moved`)).rows;
  return row && (JSON.parse(row.mark as string) as Mark);
}

/** Waits until no group is being written; none is until the end of the transaction. */
export async function lockWriters(client: Client, schema: string): Promise<void> {
  await client.query("set local lock_timeout = '30s'");
  await client.query(`lock table ${identifier(schema)}._writer in share row exclusive mode`);
}

/**
 * Makes a schema refuse every write, also those of processes that have it open: each group of writes takes a turn in
 * the row of its writer. Only asking for a lost answer is allowed, which ends as `void`. Without a mark, writes are
 * allowed again. The writers must be locked.
 */
export async function setMark(client: Client, schema: string, mark: Mark | undefined): Promise<void> {
  const own = identifier(schema);
  await client.query(`
    create table if not exists ${own}._moved (mark text not null, message text not null, detail text not null);
    delete from ${own}._moved;
    drop trigger if exists closed_insert on ${own}._writer;
    drop trigger if exists closed_update on ${own}._writer;`);
  if (mark === undefined) return;
  const { message, detail } = describeMark(mark);
  await client.query({
    text: `insert into ${own}._moved values ($1, $2, $3)`,
    values: [JSON.stringify(mark), message, detail],
  });
  await client.query(`
    create or replace function ${own}._refuse() returns trigger language plpgsql as $$
    declare why record;
    begin
      select * into why from ${own}._moved;
      raise exception using message = why.message, detail = why.detail, errcode = '${CLOSED}';
    end $$;
    create trigger closed_insert before insert on ${own}._writer for each row execute function ${own}._refuse();
    create trigger closed_update before update on ${own}._writer for each row
      when (new.result is distinct from 'void') execute function ${own}._refuse();`);
}
