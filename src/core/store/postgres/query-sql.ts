import type { Condition, IndexValue, ListQuery, LiveValues, Position } from "../store.ts";
import { constant, toColumn, toPattern } from "./sql-text.ts";
import { type FieldSql, INDEXED_LENGTH, LOWEST_NUMBER, numberOf, type TableLayout } from "./table-layout.ts";

/** Parameters of a statement, numbered as they are added. */
export class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown, type: string): string {
    return `$${this.values.push(value)}::${type}`;
  }
}

/** How a database turns text into lower case. */
export type Lower = (expression: string) => string;

/** The condition that the entities of a query meet, as SQL. */
export function conditionOf(
  layout: TableLayout,
  query: Pick<ListQuery, "where" | "search" | "live">,
  { parameters, lower }: { parameters: Parameters; lower: Lower },
): string {
  const parts: string[] = [];
  for (const [field, condition] of Object.entries(query.where ?? {})) {
    if (condition === undefined) continue;
    const sql = laidOver(layout, field, query.live, parameters);
    if (isRelated(condition))
      parts.push(relatedCondition(layout, sql, condition.idIn, { parameters, lower }));
    else parts.push(fieldCondition(sql, condition, parameters, lower));
  }
  const needle = query.search?.toLowerCase() ?? "";
  if (needle !== "") {
    const found = () => `id in (select id from ${layout.texts} where ${searchOf(needle, parameters)})`;
    parts.push(layout.spec.text ? found() : "false");
  }
  return parts.length === 0 ? "true" : parts.map((part) => `(${part})`).join(" and ");
}

type Related = Extract<Condition, { readonly idIn: unknown }>;

function isRelated(condition: Condition): condition is Related {
  return typeof condition === "object" && condition !== null && "idIn" in condition;
}

/** By the start of the text, which is all of an id, and which indexes have. */
function relatedCondition(
  layout: TableLayout,
  { text, start = text }: FieldSql,
  { table, where }: Related["idIn"],
  parts: { parameters: Parameters; lower: Lower },
): string {
  const other = layout.related.get(table);
  if (other === undefined) throw new TypeError(`Table ${layout.name} knows no table "${table}"`);
  return `${start} in (select id from ${other.table} where ${conditionOf(other, { where }, parts)})`;
}

/** The condition that a text has a part. */
export function searchOf(part: string, parameters: Parameters): string {
  return `text like ${parameters.add(toPattern(part.toLowerCase()), "text")}`;
}

/** The condition on the counts that the database keeps; nothing where they do not say how many entities a query has. */
export function countConditionOf(
  layout: TableLayout,
  { where = {}, search }: Pick<ListQuery, "where" | "search">,
  { parameters, lower }: { parameters: Parameters; lower: Lower },
): string | undefined {
  const fields = Object.entries(where).filter(([, condition]) => condition !== undefined);
  if (search || layout.counted.length === 0 || fields.some(([field]) => !layout.counted.includes(field)))
    return undefined;
  const parts = fields.map(([field, condition]) =>
    fieldCondition(layout.countSqlOf(field), condition!, parameters, lower),
  );
  return [`name = ${constant(layout.name)}`, ...parts].map((part) => `(${part})`).join(" and ");
}

/** The order of a query, as SQL: `null`, booleans, numbers, text; ties by id, ascending. */
export function orderOf(
  layout: TableLayout,
  sort: string,
  { live, parameters }: { readonly live?: LiveValues | undefined; readonly parameters?: Parameters } = {},
): string {
  const isDescending = sort.startsWith("-");
  const field = isDescending ? sort.slice(1) : sort;
  const direction = isDescending ? " desc nulls last" : " nulls first";
  if (field === "id") return isDescending ? "id desc" : "id";
  const { text, number, start } = parameters
    ? laidOver(layout, field, live, parameters)
    : layout.sqlOf(field);
  const keys = start === undefined ? [text, number] : [start, number, text];
  return `${keys.map((key) => key + direction).join(", ")}, id`;
}

/** What a query is sorted by, as SQL. */
export function sortedBy(
  layout: TableLayout,
  sort: string,
  { live, parameters }: { readonly live?: LiveValues | undefined; readonly parameters: Parameters },
): Pick<FieldSql, "text" | "number"> {
  const field = sort.replace(/^-/, "");
  if (field === "id") return { text: "id", number: "null::float8" };
  return laidOver(layout, field, live, parameters);
}

/** The condition that an entity follows a position in the order of a query: see `orderOf`. */
export function afterOf(
  layout: TableLayout,
  sort: string,
  {
    after,
    live,
    parameters,
  }: {
    readonly after: Position;
    readonly live?: LiveValues | undefined;
    readonly parameters: Parameters;
  },
): string {
  const isDescending = sort.startsWith("-");
  const field = isDescending ? sort.slice(1) : sort;
  const id = parameters.add(toColumn(after.id), "text");
  if (field === "id") return `id ${isDescending ? "<" : ">"} ${id}`;
  const { text, number, start } = laidOver(layout, field, live, parameters);
  const { value } = after;
  const inText = typeof value === "string" ? toColumn(value) : null;
  const inNumber = typeof value === "string" ? null : numberOf(value);
  const keys: [string, string | number | null, string][] = [
    [number, inNumber, "float8"],
    [text, inText, "text"],
  ];
  if (start === undefined) keys.reverse();
  else keys.unshift([start, inText && [...inText].slice(0, INDEXED_LENGTH).join(""), "text"]);
  const equal: string[] = [];
  const cases: string[] = [];
  for (const [key, known, type] of keys) {
    const given = parameters.add(known, type);
    const behind = isDescending ? `${key} < ${given} or ${key} is null` : `${key} > ${given}`;
    // `null` comes first, or last where the order is reversed.
    const ofNull = isDescending ? "false" : `${key} is not null`;
    cases.push([...equal, `(${known === null ? ofNull : behind})`].join(" and "));
    equal.push(`${key} is not distinct from ${given}`);
  }
  cases.push([...equal, `id > ${id}`].join(" and "));
  return cases.map((one) => `(${one})`).join(" or ");
}

/** A field with its live values laid over the stored ones. */
function laidOver(
  layout: TableLayout,
  field: string,
  live: LiveValues | undefined,
  parameters: Parameters,
): FieldSql {
  const stored = layout.sqlOf(field);
  const own = live?.values?.[field];
  if (own && own.size > 0) {
    const values = parameters.add(JSON.stringify(Object.fromEntries(own)), "jsonb");
    return { ...stored, number: `coalesce((${values}->>id)::float8, ${stored.number})` };
  }
  const { elapsed } = live ?? {};
  if (elapsed?.field !== field) return stored;
  const isOpen = `${layout.sqlOf("status").text} ${equals(elapsed.status, parameters)}`;
  const since = layout.sqlOf(elapsed.since).number;
  const time = `${parameters.add(elapsed.now, "float8")} - ${since}`;
  return { ...stored, number: `(case when ${isOpen} then ${time} else ${stored.number} end)` };
}

/** The index field that a query is ordered by, with its sign. */
export function sortOf(layout: TableLayout, sort: string | undefined): string {
  return sort ?? (layout.knows("created_at") ? "-created_at" : "id");
}

/** The fields that a query names. */
export function fieldsOf({ where, sort }: ListQuery): string[] {
  const fields = Object.entries(where ?? {}).flatMap(([field, condition]) =>
    condition === undefined ? [] : [field],
  );
  return sort === undefined ? fields : [...fields, sort.replace(/^-/, "")];
}

/** The condition on a field. */
export function fieldCondition(
  sql: FieldSql,
  condition: Condition,
  parameters: Parameters,
  lower: Lower,
): string {
  if (isList(condition)) return anyOf(sql, condition, parameters);
  if (condition === null || typeof condition !== "object") return anyOf(sql, [condition], parameters);
  if ("contains" in condition) {
    const part = parameters.add(toColumn(condition.contains.toLowerCase()), "text");
    return `${sql.text} is not null and strpos(${lower(sql.text)}, ${part}) > 0`;
  }
  if (isRelated(condition)) throw new TypeError("A condition on another table is not one on a value");
  const bounds = [
    bound(sql, ">=", condition.gte, parameters),
    bound(sql, "<", condition.lt, parameters),
  ].filter((one) => one !== undefined);
  return bounds.length === 0 ? "true" : bounds.join(" and ");
}

/** A condition that any of the values meets; `equalTo` of one value. */
function anyOf(sql: FieldSql, values: readonly IndexValue[], parameters: Parameters): string {
  const texts = values.filter((value) => typeof value === "string").map(toColumn);
  const numbers = values.filter((value) => value !== null && typeof value !== "string");
  const parts: string[] = [];
  if (texts.length > 0) parts.push(among(sql, texts, parameters));
  if (numbers.length > 0) {
    const list = parameters.add(
      numbers.map((value) =>
        typeof value === "number" && !Number.isFinite(value) ? Number.NaN : numberOf(value),
      ),
      "float8[]",
    );
    parts.push(`${sql.number} = any(${list})`);
  }
  if (values.includes(null)) parts.push(`${sql.text} is null and ${sql.number} is null`);
  return parts.length === 0 ? "false" : parts.map((part) => `(${part})`).join(" or ");
}

function among({ text, start }: FieldSql, texts: readonly string[], parameters: Parameters): string {
  if (start === undefined || start === text) return `${text} ${equals(texts, parameters)}`;
  const starts = texts.map((one) => [...one].slice(0, INDEXED_LENGTH).join(""));
  const found = `${start} ${equals(starts, parameters)}`;
  // What is shorter than the start is all of it. Two conditions would seem rarer to the planner than one.
  if (texts.every((one) => [...one].length < INDEXED_LENGTH)) return found;
  return `${found} and ${text} ${equals(texts, parameters)}`;
}

/** One value is a comparison of its own: then an index gives the entities in its order. */
function equals(texts: readonly string[], parameters: Parameters): string {
  if (texts.length === 1) return `= ${parameters.add(texts[0], "text")}`;
  return `= any(${parameters.add(texts, "text[]")})`;
}

function bound(
  sql: FieldSql,
  operator: ">=" | "<",
  limit: string | number | undefined,
  parameters: Parameters,
): string | undefined {
  if (limit === undefined) return undefined;
  if (typeof limit === "string") return `${sql.text} ${operator} ${parameters.add(toColumn(limit), "text")}`;
  if (Number.isNaN(limit)) return "false";
  // The index of a sorted field begins with the text.
  const isNumber = sql.isSorted ? `${sql.start} is null and ` : "";
  return `${isNumber}${sql.number} >= ${LOWEST_NUMBER} and ${sql.number} ${operator} ${parameters.add(limit, "float8")}`;
}

function isList(condition: Condition): condition is readonly IndexValue[] {
  return Array.isArray(condition);
}
