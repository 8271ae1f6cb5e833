import type { UnstorageStorage } from "../../storage/open-storage.ts";
import { CONTENTS } from "./additions.ts";

/** Runs a statement, which may be repeated where its answer is lost. */
type Statement = (text: string, values: readonly unknown[]) => Promise<Record<string, unknown>[]>;

/** The contents of files in a table of their own, chunk by chunk: for a database without a bucket beside it. */
export class PostgresContents implements UnstorageStorage {
  readonly #table: string;
  readonly #run: Statement;

  /** `schema` is quoted. */
  constructor(schema: string, run: Statement) {
    this.#table = `${schema}.${CONTENTS}`;
    this.#run = run;
  }

  async getItemRaw(key: string): Promise<unknown> {
    const [row] = await this.#run(`select data from ${this.#table} where key = $1`, [key]);
    return row?.data ?? null;
  }

  async setItemRaw(key: string, value: Uint8Array): Promise<void> {
    // A database that acknowledges what is not on its disk must not do so here.
    await this.#run(
      `insert into ${this.#table} (key, data)
       select $1, $2::bytea from (select case when current_setting('synchronous_commit') = 'off'
         then set_config('synchronous_commit', 'on', true) end as set) s
       on conflict (key) do update set data = excluded.data`,
      [key, Buffer.from(value.buffer, value.byteOffset, value.byteLength)],
    );
  }

  async removeItem(key: string): Promise<void> {
    await this.#run(`delete from ${this.#table} where key = $1`, [key]);
  }

  async getKeys(base = ""): Promise<string[]> {
    const rows = await this.#run(`select key from ${this.#table} where starts_with(key, $1) order by key`, [
      base,
    ]);
    return rows.map(({ key }) => key as string);
  }

  getMount(): object {
    return {};
  }
}
