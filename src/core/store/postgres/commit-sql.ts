import { constant, hashOf, identifier } from "./sql-text.ts";
import { INDEXED_LENGTH, SLOT, type TableLayout } from "./table-layout.ts";

/** What a group has to do with the rows of a part. */
type PartKind =
  | ("fence" | "check" | "remove" | "insert" | "change")
  /** Which ids have a facet's value: of values that are text, or not. */
  | ("text" | "other")
  /** Which units it is built on of the group before. */
  | "after"
  | ("logs" | "clear" | "append");

interface Part {
  readonly kind: PartKind;
  /** The table, and the field of a facet. */
  readonly of: readonly string[];
  readonly sql: string;
}

/** Number of the slots in which writers count: as many can commit without waiting for each other. */
const SLOTS = 16;

/**
 * The function that writes one group of transactions: units of one or more transactions that are written together or
 * not at all. It is made for the tables of a process, so that the server keeps the plan of each of its statements.
 *
 * It is one statement for the client. Inside, each statement sees what was committed before it began, so the order is:
 * the writer's turn, locks, then what must hold, then the writes. Everything that a unit has read is locked (shared)
 * and everything that it writes (exclusive) before any of it is compared: two groups of which one writes what the other
 * has read or writes are one after the other. Locks are taken in the order of their numbers by everyone.
 *
 * What a group has to do is in parts, of which it has few: their numbers are in the order in which they are done, and a
 * part is found by halves, as each comparison costs the server as much time as a small statement.
 */
export class CommitFunction {
  /** Its name, without schema and quotes. */
  readonly name: string;
  readonly #schema: string;
  readonly #layouts: readonly TableLayout[];
  readonly #numbers = new Map<string, number>();

  /** `schema` is quoted. */
  constructor(schema: string, layouts: Iterable<TableLayout>) {
    this.#schema = schema;
    this.#layouts = [...layouts].sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const [at, { kind, of }] of this.#parts().entries()) this.#numbers.set(keyOf(kind, of), at);
    this.name = `_commit:${hashOf(this.#calls() + this.#body())}`;
  }

  /** The number of a part. Its rows are those of a table, and of a facet's values. */
  numberOf(kind: PartKind, ...of: readonly string[]): number {
    return this.#numbers.get(keyOf(kind, of))!;
  }

  /** Makes it, and what it calls. */
  get sql(): string {
    return `${this.#calls()}
    create or replace function ${this.#schema}.${identifier(this.name)}(
      writer bigint, turn bigint, version bigint, wait text, units int, locks bigint[], modes boolean[], work json
    ) returns text language plpgsql as $$${this.#body()}$$`;
  }

  #calls(): string {
    return this.#layouts.map((layout) => layout.functions()).join("\n");
  }

  /** All that a group may have to do, in the order of the numbers. */
  #parts(): Part[] {
    const own = this.#schema;
    const all = this.#layouts;
    const facets = all.flatMap((layout) => layout.spec.facets.map((field) => ({ layout, field })));
    const fail = (query: string) =>
      `for unit in ${query} loop if failed[unit] = 0 then failed[unit] := 1; end if; end loop;`;
    const ofTables = (kind: PartKind, sqlOf: (layout: TableLayout) => string) =>
      all.map((layout): Part => ({ kind, of: [layout.name], sql: sqlOf(layout) }));
    const put = (kind: "insert" | "change", layout: TableLayout): Part => ({
      ...{ kind, of: [layout.name] },
      sql: `perform ${layout[kind]}(rows, failed, version, ${constant(layout.version)});`,
    });
    return [
      {
        kind: "after",
        of: [],
        sql: fail(`select r._u from json_to_recordset(rows) as r(_u int, before int)
          where case when previous like '{%' then (previous::int[])[r.before] end is distinct from 0`),
      },
      // The fence: the job has this id and is in this run.
      ...ofTables(
        "fence",
        ({ table }) => `
        for unit in select r._u from json_to_recordset(rows) as r(_u int, id text, epoch bigint)
          left join ${table} t on t.id = r.id collate "C" and t._epoch = r.epoch where t.id is null
        loop failed[unit] := 2; end loop;`,
      ),
      // What was read is unchanged: entities by version, absent ones by their absence, facets by their ids, logs by length.
      ...ofTables("check", ({ check }) => fail(`select * from ${check}(rows)`)),
      {
        kind: "logs",
        of: [],
        sql: fail(`select r._u from json_to_recordset(rows) as r(_u int, log text, key text, last int)
          where r.last <> coalesce((select max(l.seq) from ${own}._log l where l.log = r.log collate "C" and l.key = r.key collate "C"), 0)`),
      },
      ...facets.flatMap(({ layout, field }): Part[] => {
        const { text, number } = layout.sqlOf(field);
        const query = (condition: string) =>
          fail(`select r._u from json_to_recordset(rows) as r(_u int, text text, start text, number float8, ids text[]),
              lateral (select count(*) as found, count(*) filter (where t.id = any(r.ids)) as expected from ${layout.table} t
                where ${condition}) c
              where c.found <> cardinality(r.ids) or c.expected <> cardinality(r.ids)`);
        const isText = `left(t.${text}, ${INDEXED_LENGTH}) = r.start collate "C" and t.${text} = r.text collate "C"`;
        const isOther = `t.${text} is null and t.${number} is not distinct from r.number`;
        const of = [layout.name, field];
        return [
          { kind: "text", of, sql: query(isText) },
          { kind: "other", of, sql: query(isOther) },
        ];
      }),
      // Nothing is written before all is compared.
      ...ofTables("remove", ({ remove }) => `perform ${remove}(rows, failed);`),
      // Table by table: two groups that add to the same counts do so in one order, or each could wait for the other.
      ...all.flatMap((layout) => [put("insert", layout), put("change", layout)]),
      {
        kind: "clear",
        of: [],
        sql: `delete from ${own}._log l using json_to_recordset(rows) as r(_u int, log text, key text)
          where l.log = r.log collate "C" and l.key = r.key collate "C" and failed[r._u] = 0;`,
      },
      {
        kind: "append",
        of: [],
        sql: `insert into ${own}._log (log, key, seq, body)
          select r.log, r.key, r.seq, r.body
          from json_to_recordset(rows) as r(_u int, log text, key text, seq int, body text)
          where failed[r._u] = 0;`,
      },
    ];
  }

  #body(): string {
    const own = this.#schema;
    return `
    declare
      failed int[] := array_fill(0, array[units]);
      part int;
      rows json;
      done int := -1;
      unit int;
      previous text;
    begin
      if current_setting('transaction_isolation') not in ('read committed', 'serializable') then
        raise exception 'the isolation level of this database must be "read committed" or "serializable"' using errcode = 'SV002';
      end if;
      -- What is acknowledged must be on a disk, whatever the role or the database has set.
      if current_setting('synchronous_commit') = 'off' then
        perform set_config('synchronous_commit', 'on', true);
      end if;
      -- Plans are kept: none may read a whole table because it was small.
      perform set_config('lock_timeout', wait, true), set_config('${SLOT}', (writer % ${SLOTS})::text, true),
        set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
        set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true);
      select split_part(coalesce(t.result, ''), ' ', 1) into previous from ${own}._writer t where t.id = writer and t.seq = turn - 1;
      if not found then
        raise exception 'this is not the turn of the writer' using errcode = 'SV001';
      end if;
      perform case when l.mode then pg_advisory_xact_lock(l.key)::text else pg_advisory_xact_lock_shared(l.key)::text end
        from unnest(locks, modes) as l(key, mode);
      for part, rows in select e.key::int, e.value from json_each(work) e loop
        if part <= done then
          raise exception 'the parts of a group are out of order' using errcode = 'SV004';
        end if;
        done := part;
        ${byHalves(this.#parts())}
      end loop;
      -- Nothing of it is written if the turn was settled as void meanwhile. The answer of the group before may be lost, too.
      update ${own}._writer t set seq = turn, result = failed::text || ' ' || previous, seen_at = now()
        where t.id = writer and t.seq = turn - 1;
      if not found then
        raise exception 'this is no longer the turn of the writer' using errcode = 'SV001';
      end if;
      return failed::text;
    end `;
  }
}

function keyOf(kind: PartKind, of: readonly string[]): string {
  return [kind, ...of].join("\0");
}

/** Has the part with the number `part` done. */
function byHalves(parts: readonly Part[], first = 0): string {
  if (parts.length === 1) return parts[0]!.sql;
  const half = parts.length >> 1;
  return `if part < ${first + half} then ${byHalves(parts.slice(0, half), first)}
    else ${byHalves(parts.slice(half), first + half)} end if;`;
}
