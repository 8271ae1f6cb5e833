import { conditionOf, Parameters } from "./query-sql.ts";
import { constant, hashOf, identifier, nameOf } from "./sql-text.ts";
import type { FieldSql, TableLayout } from "./table-layout.ts";

/** An index, and what follows `create index`; or what is known about values, and what follows `create statistics`. */
export interface TableIndex {
  readonly name: string;
  readonly sql: string;
}

/** The indexes that a table has besides its key. Another definition has another name. */
export function indexesOf(layout: TableLayout, trigrams: string | undefined): TableIndex[] {
  const { spec } = layout;
  const fields = layout.fields.map((field) => ({ field, sql: layout.sqlOf(field) }));
  const index = (name: string, on: string, table = layout.table): TableIndex => {
    const own = nameOf(`${layout.name}:${name}`);
    return { name: own, sql: `${identifier(own)} on ${table} ${on}` };
  };
  const facets = fields.filter(({ field }) => layout.isFacet(field));
  const age = spec.sorted.includes("created_at") ? layout.sqlOf("created_at") : undefined;
  // In the order of lists, so that a page of those with one value is read from the index alone.
  const byAge = age === undefined ? "" : `, ${age.start} nulls first, ${age.number} nulls first`;
  const order = ({ start, number }: FieldSql) => `(${start} nulls first, ${number} nulls first)`;
  return [
    ...fields
      .filter(({ sql }) => sql.isSorted)
      .map(({ field, sql }) =>
        layout.isSparse(field)
          ? index(`${field}:few`, `${order(sql)} where ${sql.number} is not null`)
          : index(`${field}:sorted`, order(sql)),
      ),
    ...facets
      .filter(({ sql }) => !sql.isSorted)
      .map(({ field, sql }) => index(`${field}:age`, `(${sql.start}${byAge}) where ${sql.text} is not null`)),
    ...(spec.polled ?? []).map((where) => {
      const few = conditionOf(layout, { where }, { parameters: new Constants(), lower: (text) => text });
      return index(`polled.${hashOf(few)}`, `(${age?.number ?? "id"}) where ${few}`);
    }),
    // Finds rows of another version without reading all of them.
    index(layout.version, `(id) where _v <> ${constant(layout.version)}`),
    ...(spec.text && trigrams !== undefined
      ? [index("texts:parts", `using gin (text ${trigrams}.gin_trgm_ops)`, layout.texts)]
      : []),
  ];
}

/**
 * What the database is to know about the values of a table. It takes nothing from indexes that do not have all rows, and
 * would assume that one of 200 rows has a value: of a list that most meet, it would read and sort all.
 */
export function statisticsOf(layout: TableLayout): TableIndex[] {
  // Tables that people list and search.
  if (!layout.spec.entity && !layout.spec.text) return [];
  return layout.fields
    .filter((field) => layout.isFacet(field) || layout.isSparse(field))
    .map((field) => {
      const name = nameOf(`${layout.name}:${field}`);
      const { start } = layout.sqlOf(field);
      return { name, sql: `${layout.own(name)} on (${start}) from ${layout.table}` };
    });
}

/** Values as they are written into a statement. */
class Constants extends Parameters {
  override add(value: unknown, type: string): string {
    const one = (part: unknown) => constant(String(part));
    const text = Array.isArray(value) ? `array[${value.map(one).join(", ")}]` : one(value);
    return `${text}::${type}`;
  }
}
