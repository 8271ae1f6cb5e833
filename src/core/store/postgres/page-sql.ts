import type { Condition, IndexValue, ListQuery, Position } from "../store.ts";
import { afterOf, orderOf, type Parameters, sortedBy } from "./query-sql.ts";
import { toColumn } from "./sql-text.ts";
import { type FieldSql, INDEXED_LENGTH, numberOf, type TableLayout } from "./table-layout.ts";

interface PageParts {
  /** The condition of the query, without `after`. */
  readonly where: string;
  readonly sort: string;
  readonly parameters: Parameters;
}

/** A part of an order whose entities are next to each other in one index. */
interface Stretch {
  readonly condition: string;
  readonly order: string;
}

/** The kinds of values, in their order. */
const KINDS = ["null", "number", "text"] as const;
type Kind = (typeof KINDS)[number];

/**
 * A page of a query as table expressions, of which the last one is `p`: `body` and `id`, what the query is sorted by as
 * `text` and `number`, and the place as `n`. Each stretch of an index is read only as far as those before it do not fill
 * the page.
 */
export function pageSql(
  layout: TableLayout,
  query: ListQuery,
  { where, sort, parameters }: PageParts,
): string {
  const { live, after, skip = 0, limit } = query;
  const parts = { live, parameters };
  const order = orderOf(layout, sort, parts);
  const { text, number } = sortedBy(layout, sort, parts);
  const read = (stretch: Stretch, limits: string) =>
    `select _body as body, id, ${text} as text, ${number} as number, row_number() over (order by ${stretch.order}) as n
     from ${layout.table} where (${where}) and (${stretch.condition}) order by ${stretch.order} ${limits}`;
  const isLimited = limit !== undefined && Number.isFinite(limit);
  const stretches = isLimited && skip === 0 ? stretchesOf(layout, sort, query, parameters) : undefined;
  if (stretches === undefined) {
    const condition = after ? afterOf(layout, sort, { ...parts, after }) : "true";
    return `p as (${read({ condition, order }, limitsOf(query, parameters))})`;
  }
  const [only] = stretches;
  if (stretches.length === 1) return `p as (${read(only!, limitsOf(query, parameters))})`;
  const most = parameters.add(limit, "bigint");
  const found = stretches.map((stretch, at) => {
    const before = stretches.slice(0, at).map((_, nth) => ` - (select count(*) from s${nth})`);
    // The inner limit is a number that the planner knows.
    const some = `select * from (${read(stretch, `limit ${most}`)}) a order by n limit greatest(${most}${before.join("")}, 0)`;
    return `s${at} as materialized (${some})`;
  });
  const all = stretches.map((_, at) => `select ${at} as part, * from s${at}`).join(" union all ");
  return `${found.join(", ")},
    p as (select body, id, text, number, row_number() over (order by part, n) as n from (${all}) a)`;
}

/** How many entities a query is about, as SQL. */
export function limitsOf({ limit, skip }: ListQuery, parameters: Parameters): string {
  const most =
    limit === undefined || limit === Number.POSITIVE_INFINITY
      ? ""
      : `limit ${parameters.add(limit, "bigint")}`;
  return skip ? `${most} offset ${parameters.add(skip, "bigint")}` : most;
}

/**
 * The stretches in which an index has the page of a query, in their order: nothing where no index has it, or where one has
 * all of it. Each condition is a range of the index and little else, as the planner must see how many rows it has.
 */
function stretchesOf(
  layout: TableLayout,
  sort: string,
  { where = {}, live, after }: ListQuery,
  parameters: Parameters,
): Stretch[] | undefined {
  const isDescending = sort.startsWith("-");
  const field = sort.replace(/^-/, "");
  const stored = layout.sqlOf(field);
  const { number } = sortedBy(layout, sort, { live, parameters });
  if (field === "id" || !stored.isSorted || number !== stored.number) return undefined;
  const isSparse = !layout.spec.sorted.includes(field);
  if (after === undefined && !isSparse) return undefined;
  const order = orderOf(layout, sort);
  const stretches: Record<Kind, Stretch> = {
    // An index that is sparse has only numbers.
    null: {
      condition: isSparse ? `${number} is null` : `${stored.start} is null and ${number} is null`,
      order: "id",
    },
    number: {
      // What the query says already would make the entities seem rarer to the planner.
      condition: isNumbers(where[field]) ? "true" : `${stored.start} is null and ${number} is not null`,
      order,
    },
    text: { condition: `${stored.start} is not null`, order },
  };
  const isThere = (kind: Kind) => (kind === "null" ? !isRange(where[field]) : kind === "number" || !isSparse);
  const kinds = isDescending ? KINDS.toReversed() : KINDS;
  if (after === undefined) return kinds.filter(isThere).map((kind) => stretches[kind]);
  const own = kindOf(after.value, isSparse);
  const later = kinds.slice(kinds.indexOf(own) + 1).filter(isThere);
  const condition = behindOf(stored, after, {
    kind: own,
    inNull: stretches.null.condition,
    isDescending,
    parameters,
  });
  return [{ ...stretches[own], condition }, ...later.map((kind) => stretches[kind])];
}

function kindOf(value: IndexValue, isSparse: boolean): Kind {
  if (value === null) return "null";
  if (typeof value !== "string") return "number";
  return isSparse ? "null" : "text";
}

/** What follows a position in the stretch that it is in. */
function behindOf(
  { start, text, number }: FieldSql,
  after: Position,
  {
    kind,
    inNull,
    isDescending,
    parameters,
  }: {
    readonly kind: Kind;
    readonly inNull: string;
    readonly isDescending: boolean;
    readonly parameters: Parameters;
  },
): string {
  const id = `id > ${parameters.add(toColumn(after.id), "text")}`;
  if (kind === "null") return `${inNull} and ${id}`;
  const sign = isDescending ? "<" : ">";
  if (kind === "number") {
    const known = parameters.add(numberOf(after.value as number | boolean), "float8");
    return `${start} is null and ${number} ${sign}= ${known} and (${number} ${sign} ${known} or ${id})`;
  }
  const units = [...toColumn(after.value as string)];
  const known = parameters.add(units.slice(0, INDEXED_LENGTH).join(""), "text");
  const within = `${start} ${sign}= ${known} and (${start} ${sign} ${known}`;
  // What is shorter than the start is all of it.
  if (units.length < INDEXED_LENGTH) return `${within} or ${id})`;
  const whole = parameters.add(units.join(""), "text");
  return `${within} or ${text} ${sign} ${whole} or (${text} = ${whole} and ${id}))`;
}

/** Whether a condition leaves no entity without a value. */
function isRange(condition: Condition | undefined): condition is Range {
  if (condition === null || typeof condition !== "object" || Array.isArray(condition)) return false;
  return "gte" in condition || "lt" in condition;
}

/** Whether a condition leaves only numbers. */
function isNumbers(condition: Condition | undefined): boolean {
  return isRange(condition) && typeof (condition.gte ?? condition.lt) === "number";
}

interface Range {
  readonly gte?: number | string;
  readonly lt?: number | string;
}
