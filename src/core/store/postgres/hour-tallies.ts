import { SPAN_DIGITS } from "../span-class.ts";
import type { Condition, ListQuery } from "../store.ts";
import type { Client } from "./connection.ts";
import { conditionOf, fieldCondition, type Lower, type Parameters } from "./query-sql.ts";
import { constant, hashOf, identifier, nameOf } from "./sql-text.ts";
import { CHANGES, type FieldSql, LOWEST_NUMBER, type TableLayout } from "./table-layout.ts";

/** The numbers of entities by hour, and until when they are known. */
export const TALLIES = "_tally";
export const TALLIED = "_tallied";

const HOUR = 3_600_000;
/** Milliseconds for which an hour that is over still counts as open: most of what ends in it is stored by then. */
const LATE = 600_000;
/** Milliseconds for which the end of an hour may wait for writers, as those who come later wait behind it. */
const WAIT = 1000;

type Tally = NonNullable<TableLayout["spec"]["tallies"]>[number];

/**
 * The numbers of a table's entities by hour. An hour is counted once, some minutes after its end; from then on, a trigger
 * adds each later change of its entities in the transaction that changes them, from any instance. So an entity costs nothing
 * where it is created and ends within the open hours, and the numbers are exact at each moment.
 *
 * Another definition has another name: code of another version keeps its own numbers beside these.
 */
export class HourTallies {
  /** Under which it is known until when hours are counted. */
  readonly name: string;
  /** Name of the function that adds changes, without schema and quotes. */
  readonly function: string;
  readonly #layout: TableLayout;
  readonly #tallies: readonly Tally[];
  readonly #lock: number;

  constructor(layout: TableLayout) {
    this.#layout = layout;
    this.#tallies = layout.spec.tallies ?? [];
    const definition = hashOf(JSON.stringify([this.#tallies, SPAN_DIGITS]));
    this.name = `${layout.name}:${definition}`;
    this.function = nameOf(`tally:${this.name}`);
    this.#lock = Number.parseInt(hashOf(`agent-control-service: ${layout.own(this.function)}`), 16);
  }

  /** The tables, in a schema that is quoted. */
  static tables(schema: string): string {
    return `
      create table if not exists ${schema}.${TALLIES} (
        name text collate "C", hour double precision, key text[] collate "C", n bigint not null, primary key (name, hour, key));
      create index if not exists "${TALLIES}:none" on ${schema}.${TALLIES} (name) where n = 0;
      create table if not exists ${schema}.${TALLIED} (name text collate "C" primary key, until double precision not null);`;
  }

  /** Makes the triggers, which do nothing as long as no hour is counted. */
  get sql(): string {
    const layout = this.#layout;
    const own = layout.own(this.function);
    const cells = this.#tallies.map((tally, at) => {
      const { number } = layout.sqlOf(tally.by);
      const rows = (from: string, n: number) =>
        `select ${hourOf(number)} as hour, ${this.#keyOf(tally)} as key, ${n} as n from ${from} where ${number} >= 0 and ${number} < counted`;
      return (parts: readonly [string, number][]) => `
        insert into ${layout.own(TALLIES)} as c (name, hour, key, n)
          select ${constant(this.#cellsOf(at))}, d.hour, d.key, sum(d.n)
          from (${parts.map(([from, n]) => rows(from, n)).join(" union all ")}) d
          group by d.hour, d.key having sum(d.n) <> 0 order by d.hour, d.key
        on conflict (name, hour, key) do update set n = c.n + excluded.n;`;
    });
    const change = (...parts: readonly [string, number][]) => {
      const isOld = parts.map(
        ([from]) =>
          `exists (select 1 from ${from} where ${this.#times.map((number) => `(${number} >= 0 and ${number} < counted)`).join(" or ")})`,
      );
      return `if ${isOld.join(" or ")} then ${cells.map((make) => make(parts)).join("\n")} end if;`;
    };
    const names = this.#tallies.map((_, at) => constant(this.#cellsOf(at)));
    return `
      create or replace function ${own}() returns trigger language plpgsql as $$
      declare counted double precision;
      begin
        -- An hour is counted while nobody who has changed the table is about to commit.
        perform pg_advisory_xact_lock_shared(${this.#lock});
        select t.until into counted from ${layout.own(TALLIED)} t where t.name = ${constant(this.name)};
        if counted is null then return null; end if;
        if tg_op = 'INSERT' then ${change(["added", 1])}
        elsif tg_op = 'UPDATE' then ${change(["added", 1], ["gone", -1])}
        elsif tg_op = 'DELETE' then ${change(["gone", -1])}
        else delete from ${layout.own(TALLIES)} where name in (${names.join(", ")});
        end if;
        return null;
      end $$;
      ${CHANGES.map(
        ([on, tables]) =>
          `create or replace trigger ${identifier(nameOf(`${this.function}:${on}`))} after ${on} on ${layout.table} ${tables} for each statement execute function ${own}();`,
      ).join("\n")}`;
  }

  /** What reads until when hours are counted, `null` if none is, and whether the table has any entity. */
  get stateSql(): string {
    return `select s.until, s.until is not null or exists (select from ${this.#layout.table}) as any
      from (select (${this.untilSql}) as until) s`;
  }

  /** What reads until when hours are counted: nothing if none is. */
  get untilSql(): string {
    return `select t.until from ${this.#layout.own(TALLIED)} t where t.name = ${constant(this.name)}`;
  }

  /** The end of the last hour that may be counted, milliseconds since the epoch. */
  static due(now: number): number {
    return Math.floor((now - LATE) / HOUR) * HOUR;
  }

  /**
   * Counts the next hour that has entities, before `due`; those without any are passed over. Returns until when hours are
   * counted then, or nothing if the table has no entities yet. Of several that do so at the same time, each does another hour.
   */
  async count(client: Client, due: number): Promise<number | undefined> {
    const layout = this.#layout;
    await client.query("begin");
    try {
      await client.query(`set local lock_timeout = ${WAIT}`);
      await client.query("set local jit = off");
      await client.query(`select pg_advisory_xact_lock(${this.#lock})`);
      const until = (await client.query(this.untilSql)).rows[0]?.until as number | undefined;
      const firsts = this.#tallies.map(({ by }) => {
        const { number, start } = layout.sqlOf(by);
        return `(select ${number} from ${layout.table} where ${this.#from(by, until ?? 0)}
          order by ${start} nulls first, ${number} nulls first limit 1)`;
      });
      const { rows } = await client.query(`select least(${firsts.join(", ")}) as first`);
      const first = rows[0]!.first as number | null;
      if (first === null && until === undefined) {
        await client.query("commit");
        return undefined;
      }
      const hour = first === null ? due : Math.floor(first / HOUR) * HOUR;
      const next = Math.max(Math.min(hour + HOUR, due), until ?? 0);
      if (next > (until ?? 0)) await this.#add(client, until ?? 0, next);
      await client.query("commit");
      return next;
    } catch (error) {
      await client.query("rollback").catch(() => {});
      throw error;
    }
  }

  async #add(client: Client, from: number, to: number): Promise<void> {
    const layout = this.#layout;
    const names: string[] = [];
    for (const [at, tally] of this.#tallies.entries()) {
      const { number } = layout.sqlOf(tally.by);
      const name = constant(this.#cellsOf(at));
      names.push(name);
      await client.query(
        `insert into ${layout.own(TALLIES)} as c (name, hour, key, n)
         select ${name}, ${hourOf(number)}, ${this.#keyOf(tally)}, count(*) from ${layout.table}
         where ${this.#from(tally.by, from)} and ${number} < ${to} group by 2, 3
         on conflict (name, hour, key) do update set n = c.n + excluded.n`,
      );
    }
    await client.query(`delete from ${layout.own(TALLIES)} where n = 0 and name in (${names.join(", ")})`);
    await client.query(
      `insert into ${layout.own(TALLIED)} (name, until) values (${constant(this.name)}, ${to})
       on conflict (name) do update set until = excluded.until`,
    );
  }

  /**
   * A table of the numbers of a query, by the value of a field where one is given: `text`, `number` and `n`, with several
   * rows for a value. Hours that are counted `until` a time come from their numbers, what is before and after them in the
   * query from the entities. Nothing where that does not say what the query finds.
   */
  read(
    { where = {}, search, live }: ListQuery,
    {
      field,
      until,
      parameters,
      lower,
    }: {
      readonly field: string | undefined;
      readonly until: number | undefined;
      readonly parameters: Parameters;
      readonly lower: Lower;
    },
  ): string | undefined {
    if (search || until === undefined) return undefined;
    const asked = Object.entries(where).filter(
      (entry): entry is [string, Condition] => entry[1] !== undefined,
    );
    const known = (tally: Tally) =>
      [...(field === undefined ? [] : [field]), ...asked.map(([name]) => name)].every(
        (name) => name === tally.by || tally.fields.includes(name),
      );
    const [at, tally] =
      [...this.#tallies.entries()]
        .filter(([, one]) => known(one) && (field === undefined || one.fields.includes(field)))
        .sort(([, a], [, b]) => a.fields.length - b.fields.length)[0] ?? [];
    if (tally === undefined || asked.some(([name]) => (live?.values?.[name]?.size ?? 0) > 0))
      return undefined;
    const range = rangeOf(where[tally.by], until);
    if (range === undefined) return undefined;
    const others = asked.filter(([name]) => name !== tally.by);
    // The numbers of a span are those of its classes: what a condition asks of it is not known of them.
    if (others.some(([name]) => this.#layout.spec.spans?.[name])) return undefined;
    const { from, to } = range;
    const conditions = others.map(([name, condition]) =>
      fieldCondition(this.#cellSql(tally, name), condition, parameters, lower),
    );
    const value = (sql: Pick<FieldSql, "text" | "number">) => `${sql.text} as text, ${sql.number} as number`;
    const none = { text: `null::text`, number: "null::float8" };
    // A server that has taken the place of another one may not have all that this process has seen.
    const isCounted = `exists (select 1 from ${this.#layout.own(TALLIED)} t where t.name = ${constant(this.name)} and t.until >= ${parameters.add(to, "float8")})`;
    const hours = [
      isCounted,
      `name = ${constant(this.#cellsOf(at!))}`,
      `hour >= ${parameters.add(from, "float8")} and hour < ${parameters.add(to, "float8")}`,
      ...conditions,
    ];
    const rowsOf = (limits: Limits, isWanted = "true") => {
      const query = { where: { ...where, [tally.by]: limits }, live };
      const condition = conditionOf(this.#layout, query, { parameters, lower });
      const of = field === undefined ? none : this.#layout.countedSqlOf(field);
      return `select ${value(of)}, count(*) as n from ${this.#layout.table} where ${isWanted} and ${condition} group by 1, 2`;
    };
    const rows = [
      ...range.rest.map((limits) => rowsOf(limits)),
      rowsOf({ gte: from, lt: to }, `not ${isCounted}`),
    ];
    const cells = `select ${value(field === undefined ? none : this.#cellSql(tally, field))}, n
      from ${this.#layout.own(TALLIES)} where ${hours.map((one) => `(${one})`).join(" and ")}`;
    return [cells, ...rows].join(" union all ");
  }

  /** The columns of times, each once. */
  get #times(): string[] {
    return [...new Set(this.#tallies.map(({ by }) => this.#layout.sqlOf(by).number))];
  }

  #cellsOf(at: number): string {
    return `${this.name}:${at}`;
  }

  #keyOf({ fields }: Tally): string {
    const parts = fields.map((field) => this.#layout.countedSqlOf(field));
    return `array[${parts.flatMap(({ text, number }) => [text, `${number}::text`]).join(", ")}]`;
  }

  #cellSql({ fields }: Tally, field: string): Pick<FieldSql, "text" | "number"> {
    const at = 2 * fields.indexOf(field) + 1;
    return { text: `key[${at}]`, number: `key[${at + 1}]::float8` };
  }

  /** The condition that a time is not before another one, as the index of times has it. */
  #from(by: string, time: number): string {
    const { start, number } = this.#layout.sqlOf(by);
    const isSorted = start === undefined ? "" : `${start} is null and `;
    return `${isSorted}${number} is not null and ${number} >= ${Math.max(time, LOWEST_NUMBER)}`;
  }
}

function hourOf(number: string): string {
  return `floor(${number} / ${HOUR}) * ${HOUR}`;
}

interface Range {
  /** Full hours, all of them counted. */
  readonly from: number;
  readonly to: number;
  /** What the query has before and after them. */
  readonly rest: readonly Limits[];
}

interface Limits {
  readonly gte: number;
  readonly lt?: number;
}

/** The hours of a condition on a time that are counted; nothing if there are none, or if it is another condition. */
function rangeOf(condition: Condition | undefined, until: number): Range | undefined {
  if (condition === null || typeof condition !== "object" || !("gte" in condition || "lt" in condition))
    return undefined;
  const { gte = 0, lt = Number.MAX_SAFE_INTEGER } = condition;
  if (typeof gte !== "number" || typeof lt !== "number" || !(gte >= 0) || Number.isNaN(lt)) return undefined;
  // What was before 1970 is in no hour.
  if (condition.gte === undefined) return undefined;
  const from = Math.ceil(gte / HOUR) * HOUR;
  const to = Math.min(until, Math.floor(lt / HOUR) * HOUR);
  if (!(to > from)) return undefined;
  const before = gte < from ? [{ gte, lt: from }] : [];
  const after = to < lt ? [{ gte: to, ...(condition.lt !== undefined && { lt }) }] : [];
  return { from, to, rest: [...before, ...after] };
}
