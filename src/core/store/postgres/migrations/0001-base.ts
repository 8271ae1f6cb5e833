import type { Migration } from "./migration.ts";

/**
 * Tables that every store has, and the two functions that write.
 *
 * `_commit` is one group of transactions: units of one or more transactions that are written together or not at all.
 * It is one statement for the client. Inside, each statement sees what was committed before it began, so the order is:
 * the writer's turn, locks, then what must hold, then the writes. Everything that a unit has read is locked (shared)
 * and everything that it writes (exclusive) before any of it is compared: two groups of which one writes what the other
 * has read or writes are one after the other. Locks are taken in the order of their numbers by everyone.
 */
export const base: Migration = {
  number: 1,
  sql: (schema) => `
    create table ${schema}._table (name text primary key, version text not null);
    create table ${schema}._writer (
      id bigint generated always as identity primary key,
      seq bigint not null default 0,
      result text,
      seen_at timestamptz not null default now());
    create table ${schema}._log (
      log text collate "C", key text collate "C", seq int, body text not null, primary key (log, key, seq));

    create function ${schema}._check_ids(work json) returns setof int language plpgsql as $$
    declare one record;
    begin
      for one in select * from json_to_recordset(work) as r(target text, field text, field_number text, rows json) loop
        return query execute format(
          'select r._u from json_to_recordset($1) as r(_u int, text text, start text, ids text[]),
             lateral (select count(*) as found, count(*) filter (where t.id = any(r.ids)) as expected from %s t
               where left(t.%s, 256) = r.start collate "C" and t.%s = r.text collate "C") c
           where r.text is not null and (c.found <> cardinality(r.ids) or c.expected <> cardinality(r.ids))',
          one.target, one.field, one.field) using one.rows;
        if exists (select 1 from json_to_recordset(one.rows) as r(text text) where r.text is null) then
          return query execute format(
            'select r._u from json_to_recordset($1) as r(_u int, text text, number float8, ids text[]),
               lateral (select count(*) as found, count(*) filter (where t.id = any(r.ids)) as expected from %s t
                 where t.%s is null and t.%s is not distinct from r.number) c
             where r.text is null and (c.found <> cardinality(r.ids) or c.expected <> cardinality(r.ids))',
            one.target, one.field, one.field_number) using one.rows;
        end if;
      end loop;
    end $$;

    create function ${schema}._commit(
      writer bigint, turn bigint, version bigint, wait text, units int, locks bigint[], modes boolean[],
      work json, puts json, entries json
    ) returns text language plpgsql as $$
    declare
      failed int[] := array_fill(0, array[units]);
      one record;
      unit int;
    begin
      if current_setting('transaction_isolation') not in ('read committed', 'serializable') then
        raise exception 'the isolation level of this database must be "read committed" or "serializable"' using errcode = 'SV002';
      end if;
      perform set_config('lock_timeout', wait, true);
      perform 1 from ${schema}._writer w where w.id = writer and w.seq = turn - 1 for update;
      if not found then
        raise exception 'this is not the turn of the writer' using errcode = 'SV001';
      end if;
      perform case when l.mode then pg_advisory_xact_lock(l.key)::text else pg_advisory_xact_lock_shared(l.key)::text end
        from unnest(locks, modes) as l(key, mode);

      -- The fence: the job has this id and is in this run.
      for one in select r.target, r.rows from json_to_recordset(work->'fences') as r(target text, rows json) loop
        for unit in execute format(
          'select r._u from json_to_recordset($1) as r(_u int, id text, epoch bigint)
             left join %s t on t.id = r.id collate "C" and t._epoch = r.epoch where t.id is null', one.target) using one.rows
        loop
          failed[unit] := 2;
        end loop;
      end loop;
      -- What was read is unchanged: entities by version, absent ones by their absence, facets by their ids, logs by length.
      for one in select r.call, r.rows from json_to_recordset(work->'checks') as r(call text, rows json) loop
        for unit in execute format('select * from %s($1)', one.call) using one.rows loop
          if failed[unit] = 0 then failed[unit] := 1; end if;
        end loop;
      end loop;
      for unit in select r._u from json_to_recordset(work->'logs') as r(_u int, log text, key text, last int)
        where r.last <> coalesce((select max(l.seq) from ${schema}._log l where l.log = r.log collate "C" and l.key = r.key collate "C"), 0)
      loop
        if failed[unit] = 0 then failed[unit] := 1; end if;
      end loop;
      if work->'ids' is not null then
        for unit in select * from ${schema}._check_ids(work->'ids') loop
          if failed[unit] = 0 then failed[unit] := 1; end if;
        end loop;
      end if;

      for one in select r.call, r.rows from json_to_recordset(work->'removes') as r(call text, rows json) loop
        execute format('select %s($1, $2)', one.call) using one.rows, failed;
      end loop;
      for one in select r.call, r.v, r.rows from json_to_recordset(puts) as r(call text, v text, rows json) loop
        execute format('select %s($1, $2, $3, $4)', one.call) using one.rows, failed, version, one.v;
      end loop;
      delete from ${schema}._log l using json_to_recordset(work->'clears') as r(_u int, log text, key text)
        where l.log = r.log collate "C" and l.key = r.key collate "C" and failed[r._u] = 0;
      insert into ${schema}._log (log, key, seq, body)
        select r.log, r.key, r.seq, r.body
        from json_to_recordset(entries) as r(_u int, log text, key text, seq int, body text)
        where failed[r._u] = 0;
      update ${schema}._writer w set seq = turn, result = failed::text, seen_at = now() where w.id = writer;
      return failed::text;
    end $$;

    -- What became of a turn whose answer was lost: its result; where it was not taken, it never will be ('void').
    create function ${schema}._settle(writer bigint, turn bigint, wait text) returns text language plpgsql as $$
    declare outcome text;
    begin
      perform set_config('lock_timeout', wait, true);
      update ${schema}._writer w set seq = turn, result = 'void', seen_at = now() where w.id = writer and w.seq = turn - 1;
      select w.result into outcome from ${schema}._writer w where w.id = writer and w.seq = turn;
      return outcome;
    end $$;
  `,
};
