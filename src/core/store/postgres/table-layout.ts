import { toValue } from "../engine/column.ts";
import type { IndexRecord } from "../engine/table-index.ts";
import { spanClassSql } from "../span-class.ts";
import type { Entity, IndexValue, TableSpec } from "../store.ts";
import { constant, hashOf, identifier, nameOf, toColumn, toKeyColumn } from "./sql-text.ts";

/** Characters of a text that indexes hold: an entry of an index has a maximum length. */
const INDEXED = 256;

/** Number of the way in which tables are kept: a change of it brings all of them up to date. */
const LAYOUT = 2;

/** Percentage of a page that new rows fill, of tables whose rows change: the rest is for their next versions. */
const FILLED = 85;

/** The setting that says which rows of the counts a writer adds to. */
export const SLOT = "agent_control_service.slot";

/** What triggers of a table fire after, and the rows that they are given. */
export const CHANGES = [
  ["insert", "referencing new table as added"],
  ["update", "referencing old table as gone new table as added"],
  ["delete", "referencing old table as gone"],
  ["truncate", ""],
] as const;

/** `false` and `true` among numbers: below all of them, as `compareValues` orders them. */
const FALSE = Number.NEGATIVE_INFINITY;
const TRUE = -Number.MAX_VALUE;
/** What is stored of the number that means `true`. */
const LOWEST = -1.7976931348623155e308;

/** The two SQL expressions of an index field: its text, and its number; both `null` where the value is. */
export interface FieldSql {
  readonly text: string;
  readonly number: string;
  /** The start of the text, as indexes have it; missing where the field has no index. */
  readonly start?: string;
  /** Whether an index has all rows in order of start and number. */
  readonly isSorted?: boolean;
}

/** The table that has the entities of a table of the store: quoted, with its schema. */
export function tableName(schema: string, name: string): string {
  return `${identifier(schema)}.${identifier(name)}`;
}

/** One row of a table as a statement gets it, in JSON. */
export type Row = Readonly<Record<string, unknown>>;

/**
 * How a table of the store is kept in Postgres: columns for `facets` and `sorted`, one JSON column for the other index
 * fields, and the entity as the text that `JSON.stringify` made of it.
 */
export class TableLayout {
  readonly spec: TableSpec;
  readonly name: string;
  /** Quoted, with its schema. */
  readonly table: string;
  /** The table of the texts that searches find, where it has any. */
  readonly texts: string;
  /** Functions in the database, quoted, with their schema: `put` does what `insert` and `change` do together. */
  readonly check: string;
  readonly put: string;
  readonly insert: string;
  readonly change: string;
  readonly remove: string;
  /** Facets of which the database keeps counts. */
  readonly counted: readonly string[];
  /** Names the version of the index values and their columns. */
  readonly version: string;
  /** The tables that conditions of this one can be about. */
  readonly related: ReadonlyMap<string, TableLayout>;
  readonly #schema: string;
  readonly #columns: readonly string[];
  /** Index fields without a column that were seen in an entity. */
  readonly #others = new Set<string>();

  constructor(spec: TableSpec, schema: string, related: ReadonlyMap<string, TableLayout> = new Map()) {
    this.related = related;
    const sparse = spec.sparse ?? [];
    const [hidden] = [spec.name, ...spec.facets, ...spec.sorted, ...sparse].filter((name) =>
      name.startsWith("_"),
    );
    if (hidden !== undefined)
      throw new TypeError(
        `Table ${spec.name}: a name cannot begin with "_" in a Postgres store: "${hidden}"`,
      );
    this.spec = spec;
    this.name = spec.name;
    this.#schema = identifier(schema);
    this.table = tableName(schema, spec.name);
    this.texts = this.own(`${spec.name}:texts`);
    this.#columns = [...new Set([...spec.facets, ...spec.sorted, ...sparse])]
      .filter((field) => field !== "id")
      .sort();
    this.counted = [...(spec.counted ?? [])].sort();
    const shape = hashOf(
      JSON.stringify([LAYOUT, this.#columns, [...spec.sorted].sort(), [...sparse].sort(), this.counted]),
    );
    this.version = `${spec.version}.${shape}`;
    this.check = this.own(`check:${spec.name}`);
    this.put = this.own(`put:${spec.name}:${shape}`);
    this.insert = this.own(`insert:${spec.name}:${shape}`);
    this.change = this.own(`change:${spec.name}:${shape}`);
    this.remove = this.own(`remove:${spec.name}:${LAYOUT}`);
  }

  /** A name in the schema of the store, quoted. */
  own(name: string): string {
    return `${this.#schema}.${identifier(name)}`;
  }

  isFacet(field: string): boolean {
    return this.spec.facets.includes(field);
  }

  /** Whether a field is known without reading entities. */
  knows(field: string): boolean {
    return field === "id" || this.#columns.includes(field) || this.#others.has(field);
  }

  /** Remembers the index fields of an entity that have no column. */
  learn(fields: Iterable<string>): void {
    for (const field of fields) this.#others.add(field);
  }

  /** The fields that have columns. */
  get fields(): readonly string[] {
    return this.#columns;
  }

  sqlOf(field: string): FieldSql {
    if (field === "id") return { text: "id", number: "null::float8", start: "id" };
    if (this.#columns.includes(field)) {
      const text = identifier(field);
      const isSorted = this.spec.sorted.includes(field) || this.isSparse(field);
      return { text, number: identifier(`${field}#`), start: `left(${text}, ${INDEXED})`, isSorted };
    }
    const span = this.spec.spans?.[field];
    if (span !== undefined) {
      const [end, start] = span.map((one) => this.sqlOf(one).number);
      return { text: `null::text collate "C"`, number: `(${end} - ${start})` };
    }
    const value = `_rest->>${constant(field)}`;
    const type = `jsonb_typeof(_rest->${constant(field)})`;
    return {
      text: `(case ${type} when 'string' then ${value} end collate "C")`,
      number: `(case ${type} when 'number' then (${value})::float8 when 'boolean' then case ${value} when 'true' then ${TRUE}::float8 else '-Infinity'::float8 end end)`,
    };
  }

  /** What entities are counted by: the value of a facet, or the class of a span. */
  countedSqlOf(field: string): Pick<FieldSql, "text" | "number"> {
    const { text, number } = this.sqlOf(field);
    return { text, number: this.isSpan(field) ? spanClassSql(number) : number };
  }

  /** Whether a field is the difference of two others. */
  isSpan(field: string): boolean {
    return this.spec.spans?.[field] !== undefined;
  }

  /** Whether a field is `null` for most, and otherwise a number. */
  isSparse(field: string): boolean {
    return this.spec.sparse?.includes(field) === true && !this.spec.sorted.includes(field);
  }

  /** The columns of the counts by which a counted facet can be filtered and counted. */
  countSqlOf(field: string): FieldSql {
    const at = 2 * this.counted.indexOf(field) + 1;
    return { text: `key[${at}]`, number: `key[${at + 1}]::float8` };
  }

  /** Where the counts are, quoted, with its schema. */
  get counts(): string {
    return `${this.#schema}._count`;
  }

  /**
   * Makes the table, or adds what this version has in addition. What differs between two versions of an entity is
   * before its body, and the body is last: where both are on one page, Postgres logs only what is between their common
   * beginning and their common end. That needs room on the page.
   */
  definition(known: ReadonlySet<string>): string {
    const fields = this.#columns.map((field) => this.sqlOf(field));
    const columns: [name: string, type: string][] = [
      ...fields.map(({ number }): [string, string] => [number, "double precision"]),
      ...fields.map(({ text }): [string, string] => [text, 'text collate "C"']),
    ];
    const isNew = known.size === 0;
    const make = `create table ${this.table} (
        id text collate "C" primary key, _ver bigint not null, _epoch bigint, _v text not null,
        ${columns.map((column) => `${column.join(" ")},`).join("\n")}
        _rest jsonb not null, _body text not null)${this.spec.entity ? ` with (fillfactor = ${FILLED})` : ""};`;
    // Even where the column exists, `alter table` would wait until nobody reads the table, and all others for it.
    const added = columns.filter(([name]) => !known.has(name));
    return [
      ...(isNew
        ? [make]
        : added.map((column) => `alter table ${this.table} add column ${column.join(" ")};`)),
      this.#textTable(known.has(identifier("_text"))),
    ].join("\n");
  }

  /** Texts are in a table of their own: most changes of an entity leave them as they are, and a search reads no more. */
  #textTable(isInside: boolean): string {
    const make = this.spec.text
      ? `create table if not exists ${this.texts} (id text collate "C" primary key, text text collate "C" not null);`
      : "";
    if (!isInside) return make;
    // The first layout had them in the table.
    const copy = `insert into ${this.texts} (id, text) select id, _text from ${this.table} on conflict do nothing;`;
    return `${make} ${this.spec.text ? copy : ""} alter table ${this.table} drop column _text;`;
  }

  /** The functions by which groups check and write. */
  functions(): string {
    const fields = this.#columns.map((field) => this.sqlOf(field));
    const columns = ["_epoch", "_rest", "_body", ...fields.flatMap(({ text, number }) => [text, number])];
    const types = ["bigint", "jsonb", "text", ...fields.flatMap(() => ["text", "float8"])];
    const names = ["id", "_ver", "_v", ...columns];
    const selected = `select r.id, $3 as _ver, $4 as _v, ${columns.map((column) => `r.${column}`).join(", ")}
          from json_to_recordset($1) as r(_u int, id text, ${columns.map((column, at) => `${column} ${types[at]}`).join(", ")})
          where $2[r._u] = 0`;
    const set = (from: string) =>
      names
        .slice(1)
        .map((column) => `${column} = ${from}.${column}`)
        .join(", ");
    const putText = `
        insert into ${this.texts} as t (id, text)
          select r.id, r._text from json_to_recordset($1) as r(_u int, id text, _text text)
            left join ${this.texts} o on o.id = r.id collate "C"
            where $2[r._u] = 0 and o.text is distinct from r._text collate "C"
          on conflict (id) do update set text = excluded.text;`;
    const removeText = `
        delete from ${this.texts} t using json_to_recordset($1) as r(_u int, id text)
          where t.id = r.id collate "C" and $2[r._u] = 0;`;
    return `
      create or replace function ${this.check}(json) returns setof int language plpgsql as $$ begin
        return query select r._u from json_to_recordset($1) as r(_u int, id text, _ver bigint)
          left join ${this.table} t on t.id = r.id collate "C" where t._ver is distinct from r._ver;
      end $$;
      create or replace function ${this.put}(json, int[], bigint, text) returns void language plpgsql as $$ begin
        insert into ${this.table} as t (${names.join(", ")}) ${selected}
          on conflict (id) do update set ${set("excluded")};${this.spec.text ? putText : ""}
      end $$;
      create or replace function ${this.insert}(json, int[], bigint, text) returns void language plpgsql as $$ begin
        insert into ${this.table} as t (${names.join(", ")}) ${selected};${this.spec.text ? putText : ""}
      end $$;
      create or replace function ${this.change}(json, int[], bigint, text) returns void language plpgsql as $$ begin
        update ${this.table} as t set ${set("r")} from (${selected}) r
          where t.id = r.id collate "C";${this.spec.text ? putText : ""}
      end $$;
      create or replace function ${this.remove}(json, int[]) returns void language plpgsql as $$ begin
        delete from ${this.table} t using json_to_recordset($1) as r(_u int, id text)
          where t.id = r.id collate "C" and $2[r._u] = 0;${this.spec.text ? removeText : ""}
      end $$;`;
  }

  /**
   * Keeps how many entities have which values of the counted facets, whatever changes the table. Each writer adds to rows
   * of its own, so that none waits for another: a count is the sum of all. `body` is that of the function that counts.
   */
  counting(): { readonly body: string; readonly sql: string } {
    const count = this.own(`count:${this.name}`);
    const name = constant(this.name);
    const key = `array[${this.counted
      .map((field) => this.sqlOf(field))
      .flatMap(({ text, number }) => [text, `${number}::text`])
      .join(", ")}]`;
    const changes = (parts: string[]) => `
          insert into ${this.counts} as c (name, slot, key, n)
            select ${name}, own_slot, d.key, sum(d.n) from (${parts.join(" union all ")}) d
            group by d.key having sum(d.n) <> 0 order by d.key
          on conflict (name, slot, key) do update set n = c.n + excluded.n;`;
    const [added, gone] = [`select ${key}, 1 from added`, `select ${key}, -1 from gone`];
    const as = (first: string) => first.replace(/, (-?1) from/, " as key, $1 as n from");
    if (this.counted.length === 0) {
      const drops = CHANGES.map(([on]) => `drop trigger if exists count_${on} on ${this.table};`);
      return { body: "", sql: `${drops.join(" ")} delete from ${this.counts} where name = ${name};` };
    }
    const body = `
      declare own_slot int := coalesce(nullif(current_setting('${SLOT}', true), '')::int, 0);
      begin
        if tg_op = 'INSERT' then ${changes([as(added)])}
        elsif tg_op = 'UPDATE' then ${changes([as(added), gone])}
        elsif tg_op = 'DELETE' then ${changes([as(gone)])}
        else delete from ${this.counts} where name = ${name};
        end if;
        return null;
      end `;
    const makes = CHANGES.map(
      ([on, tables]) =>
        `create or replace trigger count_${on} after ${on} on ${this.table} ${tables} for each statement execute function ${count}();`,
    );
    const sql = `
      lock table ${this.table} in share row exclusive mode;
      delete from ${this.counts} where name = ${name};
      create or replace function ${count}() returns trigger language plpgsql as $$${body}$$;
      insert into ${this.counts} (name, slot, key, n) select ${name}, 0, ${key}, count(*) from ${this.table} group by 3;
      ${makes.join("\n")}`;
    return { body, sql };
  }

  /** Index values and searchable text of an entity. */
  recordOf(entity: Entity): IndexRecord {
    return { values: this.spec.index(entity), text: this.spec.text?.(entity) ?? "" };
  }

  /** The columns of an entity, without its version. */
  rowOf(entity: { id: string; body: string; epoch: number | null }, { values, text }: IndexRecord): Row {
    const row: Record<string, unknown> = {
      id: toKeyColumn(entity.id),
      _epoch: entity.epoch,
      ...(this.spec.text && { _text: toColumn(text.toLowerCase()) }),
      _body: entity.body,
    };
    const rest: Record<string, unknown> = {};
    for (const field of Object.keys(values)) {
      const value = toValue(values[field]);
      if (field === "id") continue;
      if (!this.#columns.includes(field)) {
        if (!this.#others.has(field)) this.learn([field]);
        Object.defineProperty(rest, field, {
          value: typeof value === "string" ? toColumn(value) : value,
          enumerable: true,
        });
      } else if (typeof value === "string") row[nameOf(field)] = toColumn(value);
      else row[nameOf(`${field}#`)] = numberOf(value);
    }
    row._rest = rest;
    return row;
  }
}

/** A value that is not text as the column of numbers has it. */
export function numberOf(value: Exclude<IndexValue, string>): number | string | null {
  if (value === null) return null;
  // JSON has no infinities.
  if (typeof value === "boolean") return value ? TRUE : String(FALSE);
  return value === TRUE ? LOWEST : value;
}

/** The value that two columns have. */
export function valueIn(text: string | null, number: number | null): string | number | boolean | null {
  if (text !== null) return text;
  if (number === FALSE) return false;
  return number === TRUE ? true : number;
}

/** The lowest number that is not a boolean. */
export const LOWEST_NUMBER = LOWEST;
/** Characters of a text that indexes hold. */
export const INDEXED_LENGTH = INDEXED;
