import { constant, hashOf, identifier, nameOf } from "./sql-text.ts";
import { INDEXED_LENGTH, SLOT, type TableLayout } from "./table-layout.ts";

/** Number of the slots in which writers count: as many can commit without waiting for each other. */
const SLOTS = 16;

/** What a commit's parameters call the rows of a table. */
export const Part = {
  fences: ({ name }: TableLayout) => nameOf(`fence:${name}`),
  checks: ({ name }: TableLayout) => nameOf(`check:${name}`),
  removes: ({ name }: TableLayout) => nameOf(`remove:${name}`),
  inserts: ({ name }: TableLayout) => nameOf(`insert:${name}`),
  changes: ({ name }: TableLayout) => nameOf(`change:${name}`),
  /** Name of the ids that have a facet's value: of values that are text, or not. */
  ids: ({ name }: TableLayout, field: string, isText: boolean) =>
    nameOf(`${isText ? "text" : "other"}:${name}:${field}`),
};

/**
 * The function that writes one group of transactions: units of one or more transactions that are written together or
 * not at all. It is made for the tables of a process, so that the server keeps the plan of each of its statements.
 *
 * It is one statement for the client. Inside, each statement sees what was committed before it began, so the order is:
 * the writer's turn, locks, then what must hold, then the writes. Everything that a unit has read is locked (shared)
 * and everything that it writes (exclusive) before any of it is compared: two groups of which one writes what the other
 * has read or writes are one after the other. Locks are taken in the order of their numbers by everyone.
 */
export class CommitFunction {
  /** Its name, without schema and quotes. */
  readonly name: string;
  readonly #schema: string;
  readonly #layouts: readonly TableLayout[];

  /** `schema` is quoted. */
  constructor(schema: string, layouts: Iterable<TableLayout>) {
    this.#schema = schema;
    this.#layouts = [...layouts].sort((a, b) => (a.name < b.name ? -1 : 1));
    this.name = `_commit:${hashOf(this.#calls() + this.#body())}`;
  }

  /** Makes it, and what it calls. */
  get sql(): string {
    return `${this.#calls()}
    create or replace function ${this.#schema}.${identifier(this.name)}(
      writer bigint, turn bigint, version bigint, wait text, units int, locks bigint[], modes boolean[],
      work json, puts json, entries json
    ) returns text language plpgsql as $$${this.#body()}$$`;
  }

  #calls(): string {
    return this.#layouts.map((layout) => layout.functions()).join("\n");
  }

  #body(): string {
    const own = this.#schema;
    const all = this.#layouts;
    const facets = all.flatMap((layout) => layout.spec.facets.map((field) => ({ layout, field })));
    const inWork = [
      ...all.flatMap((layout) => [Part.fences(layout), Part.checks(layout), Part.removes(layout)]),
      ...facets.flatMap(({ layout, field }) => [
        Part.ids(layout, field, true),
        Part.ids(layout, field, false),
      ]),
      ...["logs", "clears"],
    ];
    // What was read is unchanged by then, so it is known whether there is a row.
    const puts = all.flatMap((layout) => [
      { part: Part.inserts(layout), write: layout.insert, version: layout.version },
      { part: Part.changes(layout), write: layout.change, version: layout.version },
    ]);
    const columns = (names: readonly string[]) => names.map((name) => `${identifier(name)} json`).join(", ");
    const when = (of: string, part: string, then: (rows: string) => string) =>
      `if ${of}.${identifier(part)} is not null then ${then(`${of}.${identifier(part)}`)} end if;`;
    const fail = (query: string) =>
      `for unit in ${query} loop if failed[unit] = 0 then failed[unit] := 1; end if; end loop;`;
    return `
    declare
      failed int[] := array_fill(0, array[units]);
      w record;
      p record;
      unit int;
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
      perform 1 from ${own}._writer t where t.id = writer and t.seq = turn - 1;
      if not found then
        raise exception 'this is not the turn of the writer' using errcode = 'SV001';
      end if;
      perform case when l.mode then pg_advisory_xact_lock(l.key)::text else pg_advisory_xact_lock_shared(l.key)::text end
        from unnest(locks, modes) as l(key, mode);
      select * into w from json_to_record(work) as r(${columns(inWork)});

      -- The fence: the job has this id and is in this run.
      ${all
        .map((layout) =>
          when(
            "w",
            Part.fences(layout),
            (rows) => `
        for unit in select r._u from json_to_recordset(${rows}) as r(_u int, id text, epoch bigint)
          left join ${layout.table} t on t.id = r.id collate "C" and t._epoch = r.epoch where t.id is null
        loop failed[unit] := 2; end loop;`,
          ),
        )
        .join("\n")}
      -- What was read is unchanged: entities by version, absent ones by their absence, facets by their ids, logs by length.
      ${all
        .map((layout) =>
          when("w", Part.checks(layout), (rows) => fail(`select * from ${layout.check}(${rows})`)),
        )
        .join("\n")}
      ${when("w", "logs", (rows) =>
        fail(`select r._u from json_to_recordset(${rows}) as r(_u int, log text, key text, last int)
          where r.last <> coalesce((select max(l.seq) from ${own}._log l where l.log = r.log collate "C" and l.key = r.key collate "C"), 0)`),
      )}
      ${facets
        .map(({ layout, field }) => {
          const { text, number } = layout.sqlOf(field);
          const query = (condition: string) => (rows: string) =>
            fail(`select r._u from json_to_recordset(${rows}) as r(_u int, text text, start text, number float8, ids text[]),
              lateral (select count(*) as found, count(*) filter (where t.id = any(r.ids)) as expected from ${layout.table} t
                where ${condition}) c
              where c.found <> cardinality(r.ids) or c.expected <> cardinality(r.ids)`);
          const isText = `left(t.${text}, ${INDEXED_LENGTH}) = r.start collate "C" and t.${text} = r.text collate "C"`;
          const isOther = `t.${text} is null and t.${number} is not distinct from r.number`;
          return `${when("w", Part.ids(layout, field, true), query(isText))}
            ${when("w", Part.ids(layout, field, false), query(isOther))}`;
        })
        .join("\n")}

      ${all
        .map((layout) =>
          when("w", Part.removes(layout), (rows) => `perform ${layout.remove}(${rows}, failed);`),
        )
        .join("\n")}
      select * into p from json_to_record(puts) as r(${columns(puts.map(({ part }) => part))});
      ${puts
        .map(({ part, write, version }) =>
          when("p", part, (rows) => `perform ${write}(${rows}, failed, version, ${constant(version)});`),
        )
        .join("\n")}
      ${when(
        "w",
        "clears",
        (rows) => `
        delete from ${own}._log l using json_to_recordset(${rows}) as r(_u int, log text, key text)
          where l.log = r.log collate "C" and l.key = r.key collate "C" and failed[r._u] = 0;`,
      )}
      if entries is not null then
        insert into ${own}._log (log, key, seq, body)
          select r.log, r.key, r.seq, r.body
          from json_to_recordset(entries) as r(_u int, log text, key text, seq int, body text)
          where failed[r._u] = 0;
      end if;
      -- Nothing of it is written if the turn was settled as void meanwhile.
      update ${own}._writer t set seq = turn, result = failed::text, seen_at = now()
        where t.id = writer and t.seq = turn - 1;
      if not found then
        raise exception 'this is no longer the turn of the writer' using errcode = 'SV001';
      end if;
      return failed::text;
    end `;
  }
}
