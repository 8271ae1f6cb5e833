import type { Joins, StoreLogger } from "../store.ts";
import type { DatabaseReads } from "./database-reads.ts";
import { constant, fromColumn } from "./sql-text.ts";
import type { TableLayout } from "./table-layout.ts";

/** Entities that are indexed again at a time. */
const BATCH = 200;

interface IndexValuesParts {
  readonly layouts: ReadonlyMap<string, TableLayout>;
  /** Quoted. */
  readonly schema: string;
  readonly reads: DatabaseReads;
  readonly log: StoreLogger;
  /** Writes an entity with its index values computed again. */
  readonly rewrite: (layout: TableLayout, id: string) => Promise<void>;
}

/** Brings the index values of what code of other versions has written up to date. */
export class IndexValues {
  readonly #parts: IndexValuesParts;

  constructor(parts: IndexValuesParts) {
    this.#parts = parts;
  }

  /** All that are of another version. */
  update(): Promise<void> {
    return this.#update(differs);
  }

  /** Those that older code has written meanwhile, whose instances may still run. */
  updateOlder(): Promise<void> {
    return this.#update((layout) => isOlder(layout, this.#parts.schema), "soon");
  }

  async #update(condition: (layout: TableLayout) => string, joins?: Joins): Promise<void> {
    for (const layout of await this.#outdated(condition, joins))
      await this.#indexAgain(layout, condition(layout));
  }

  /** Tables with entities whose index values are of another version. */
  async #outdated(condition: (layout: TableLayout) => string, joins?: Joins): Promise<TableLayout[]> {
    const all = [...this.#parts.layouts.values()];
    const tests = all.map((layout) => `exists (select 1 from ${layout.table} where ${condition(layout)})`);
    const text = `select array[${tests.join(", ")}]::boolean[] as outdated`;
    const [row] = await this.#parts.reads.poll(joins, text, []);
    return all.filter((_, at) => (row!.outdated as boolean[])[at]);
  }

  /** Computes the index values of entities that were stored with those of another version. */
  async #indexAgain(layout: TableLayout, condition: string): Promise<void> {
    let count = 0;
    for (let last = ""; ; ) {
      const rows = await this.#parts.reads.query(
        `select id from ${layout.table} where ${condition} and id > $1 order by id limit ${BATCH}`,
        [last],
      );
      if (rows.length === 0) break;
      last = rows.at(-1)!.id as string;
      await Promise.all(rows.map(({ id }) => this.#parts.rewrite(layout, fromColumn(id as string))));
      count += rows.length;
    }
    if (count > 0)
      this.#parts.log.info("index values were computed again", { table: layout.name, entities: count });
  }
}

/** That the index values of a row are of another version. */
function differs({ version }: TableLayout): string {
  return `_v <> ${constant(version)}`;
}

/**
 * The same of an older version, or of this one with other columns while nobody has changed the columns since: two
 * instances never undo what the other one does.
 */
function isOlder(layout: TableLayout, schema: string): string {
  const number = "split_part(_v, '.', 1)::int";
  const isCurrent = `exists (select 1 from ${schema}._table t where t.name = ${constant(layout.name)} and t.version = ${constant(layout.version)})`;
  return `${differs(layout)} and (${number} < ${layout.spec.version} or (${number} = ${layout.spec.version} and ${isCurrent}))`;
}
