import { Body } from "../engine/body.ts";
import type { ListQuery, LogEntry, Page, Position } from "../store.ts";
import type { DatabaseReads } from "./database-reads.ts";
import type { Loader } from "./loader.ts";
import { limitsOf, pageSql } from "./page-sql.ts";
import {
  conditionOf,
  countConditionOf,
  fieldsOf,
  type Lower,
  orderOf,
  Parameters,
  searchOf,
  sortedBy,
  sortOf,
} from "./query-sql.ts";
import { fromColumn } from "./sql-text.ts";
import { type TableLayout, valueIn } from "./table-layout.ts";
import type { TalliedTables } from "./tallied-tables.ts";

/** Entities that a search finds first, and a query then by their ids: with more, it walks through all in order. */
const FEW = 5000;

interface QueriesParts {
  readonly reads: DatabaseReads;
  readonly loader: Loader;
  readonly tallied: TalliedTables;
  readonly lower: Lower;
  /** Throws once the store is closed. */
  readonly checkOpen: () => void;
}

/** Lists, counts and logs, as the database has them. */
export class Queries {
  readonly #parts: QueriesParts;
  /** Number of entities and entries that were read. */
  read = 0;

  constructor(parts: QueriesParts) {
    this.#parts = parts;
  }

  async list<T>(layout: TableLayout, asked: ListQuery): Promise<Page<T>> {
    this.#parts.checkOpen();
    await this.#checkFields(layout, asked);
    const query = await this.#searchFirst(layout, asked);
    const parameters = new Parameters();
    const where = conditionOf(layout, query, { parameters, lower: this.#parts.lower });
    const sort = sortOf(layout, query.sort);
    const { limit = 50, skip = 0 } = query;
    // One more than the page has tells whether it is the last one.
    const most = limit === 0 ? 0 : limit + 1;
    const page = pageSql(layout, { ...query, limit: most }, { where, sort, parameters });
    const total = query.uncounted
      ? `select ${parameters.add(skip, "float8")} + count(*) from p`
      : this.#pageTotalSql(layout, query, { most, skip, parameters });
    // All is seen at one moment.
    const rows = await this.#parts.reads.poll(
      query.joins,
      `with ${page}
       select c.total, p.body, p.id, p.text, p.number
       from (select (${total})::float8 as total) c left join p on true order by p.n`,
      parameters.values,
    );
    const found = rows.filter(({ body }) => body !== null).slice(0, limit);
    const items = found.map(({ body }) => Body.from(body as string).copy<T>());
    this.read += items.length;
    const last = rows.length > limit ? found.at(-1) : undefined;
    return { items, total: rows[0]!.total as number, ...(last && { next: positionOf(last) }) };
  }

  /** A query by the ids of what it searches for, where these are few: no plan is worse, and they are found once. */
  async #searchFirst(layout: TableLayout, query: ListQuery): Promise<ListQuery> {
    const { search, ...rest } = query;
    if (!search || !layout.spec.text || query.where?.id !== undefined) return query;
    const parameters = new Parameters();
    // Planned for all of them: a plan for the first ones could be to read the whole table.
    const rows = await this.#parts.reads.query(
      `with found as materialized (select id from ${layout.texts} where ${searchOf(search, parameters)})
       select id from found limit ${FEW + 1}`,
      parameters.values,
    );
    if (rows.length > FEW) return query;
    return { ...rest, where: { ...query.where, id: rows.map(({ id }) => fromColumn(id as string)) } };
  }

  /** How many entities a query has. Where its first page is not full, there is nothing to count. */
  #pageTotalSql(
    layout: TableLayout,
    query: ListQuery,
    { most, skip, parameters }: { most: number; skip: number; parameters: Parameters },
  ): string {
    const count = this.countSql(layout, query, parameters);
    if (query.after) return count;
    const full = parameters.add(most === Number.POSITIVE_INFINITY ? null : most, "float8");
    const first = parameters.add(skip, "float8");
    const found = "(select count(*) from p)";
    return `select case when ${found} between case ${first} when 0 then 0 else 1 end and coalesce(${full} - 1, 'Infinity')
      then ${found} + ${first} else (${count}) end::float8`;
  }

  /** How many entities a query has. */
  countSql(layout: TableLayout, query: ListQuery, parameters: Parameters): string {
    const parts = { parameters, lower: this.#parts.lower };
    const kept = countConditionOf(layout, query, parts);
    if (kept !== undefined) return `select coalesce(sum(n), 0)::float8 from ${layout.counts} where ${kept}`;
    const tallied = this.#parts.tallied.sql(layout, undefined, query, parameters);
    if (tallied !== undefined) return `select coalesce(sum(n), 0)::float8 from (${tallied}) t`;
    const isSearchAlone =
      query.search && layout.spec.text && fieldsOf({ where: query.where ?? {} }).length === 0;
    return isSearchAlone
      ? `select count(*) from ${layout.texts} where ${searchOf(query.search!, parameters)}`
      : `select count(*) from ${layout.table} where ${conditionOf(layout, query, parts)}`;
  }

  async ids(layout: TableLayout, query: ListQuery): Promise<string[]> {
    this.#parts.checkOpen();
    await this.#checkFields(layout, query);
    const parameters = new Parameters();
    const where = conditionOf(layout, query, { parameters, lower: this.#parts.lower });
    const order = orderOf(layout, sortOf(layout, query.sort), { live: query.live, parameters });
    const rows = await this.#parts.reads.poll(
      query.joins,
      `select id from ${layout.table} where ${where} order by ${order} ${limitsOf(query, parameters)}`,
      parameters.values,
    );
    return rows.map(({ id }) => fromColumn(id as string));
  }

  /** How many entities have each value of a facet, or the sums of a number of theirs. */
  async byFacet(
    layout: TableLayout,
    field: string,
    asked: ListQuery,
    summed?: string,
  ): Promise<Record<string, number>> {
    this.#parts.checkOpen();
    if (!layout.isFacet(field) && (summed !== undefined || !layout.isSpan(field)))
      throw new TypeError(`Table ${layout.name} has no facet "${field}"`);
    await this.#checkFields(layout, { ...asked, sort: summed });
    const query = await this.#searchFirst(layout, asked);
    const parameters = new Parameters();
    const parts = { parameters, lower: this.#parts.lower };
    const mayBeKept = summed === undefined;
    const kept =
      mayBeKept && layout.counted.includes(field) ? countConditionOf(layout, query, parts) : undefined;
    const tallied =
      mayBeKept && kept === undefined ? this.#parts.tallied.sql(layout, field, query, parameters) : undefined;
    const { text, number } =
      kept !== undefined
        ? layout.countSqlOf(field)
        : tallied === undefined
          ? layout.countedSqlOf(field)
          : { text: "text", number: "number" };
    const sumOrCount = () =>
      summed === undefined ? "count(*)" : `sum(${sortedBy(layout, summed, { ...query, parameters }).number})`;
    const [count, table, where] =
      kept !== undefined
        ? ["sum(n)", layout.counts, kept]
        : tallied === undefined
          ? [sumOrCount(), layout.table, conditionOf(layout, query, parts)]
          : ["sum(n)", `(${tallied}) t`, "true"];
    const rows = await this.#parts.reads.poll(
      query.joins,
      `select ${text} as text, ${number} as number, ${count}::float8 as count from ${table}
       where ${where} group by 1, 2 having ${count} <> 0`,
      parameters.values,
    );
    const counts = rows.map((row): [string, number] => {
      const {
        text: own,
        number: value,
        count,
      } = row as {
        text: string | null;
        number: number | null;
        count: number;
      };
      return [String(valueIn(own === null ? null : fromColumn(own), value)), count];
    });
    return Object.fromEntries(counts);
  }

  async readLog<E>(
    log: string,
    key: string,
    { after = 0, limit = Number.POSITIVE_INFINITY }: { after?: number; limit?: number },
  ): Promise<LogEntry<E>[]> {
    this.#parts.checkOpen();
    const most = limit === Number.POSITIVE_INFINITY ? null : limit;
    const rows = await this.#parts.loader.entries(log, { id: key, after: Math.max(after, 0), limit: most });
    this.read += rows.length;
    return rows.map(({ seq, body }) => ({ seq, entry: JSON.parse(body) as E }));
  }

  /** Refuses fields that no entity has. They are known from the first entity on. */
  async #checkFields(layout: TableLayout, query: ListQuery): Promise<void> {
    // What is asked again and again is asked by the service itself.
    if (query.joins !== undefined) return;
    const unknown = () => fieldsOf(query).filter((field) => !layout.knows(field));
    if (unknown().length === 0) return;
    const rows = await this.#parts.reads.query(`select _rest as rest from ${layout.table} limit 1`, []);
    if (rows.length === 0) return;
    layout.learn(Object.keys(rows[0]!.rest as object));
    const [field] = unknown();
    if (field !== undefined) throw new TypeError(`Table ${layout.name} has no index field "${field}"`);
  }
}

/** The place of a row in the order that it was found in. */
function positionOf({ id, text, number }: Record<string, unknown>): Position {
  const value = valueIn(text === null ? null : fromColumn(text as string), number as number | null);
  return { id: fromColumn(id as string), value };
}
