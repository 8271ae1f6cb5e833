CREATE FUNCTION svc._check_ids(work json) RETURNS SETOF integer
    LANGUAGE plpgsql
    AS $_$
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
    end $_$;
CREATE FUNCTION svc._commit(writer bigint, turn bigint, version bigint, wait text, units integer, locks bigint[], modes boolean[], work json, puts json, entries json) RETURNS text
    LANGUAGE plpgsql
    AS $_$
    declare
      failed int[] := array_fill(0, array[units]);
      one record;
      unit int;
    begin
      if current_setting('transaction_isolation') not in ('read committed', 'serializable') then
        raise exception 'the isolation level of this database must be "read committed" or "serializable"' using errcode = 'SV002';
      end if;
      perform set_config('lock_timeout', wait, true);
      perform 1 from "svc"._writer w where w.id = writer and w.seq = turn - 1 for update;
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
        where r.last <> coalesce((select max(l.seq) from "svc"._log l where l.log = r.log collate "C" and l.key = r.key collate "C"), 0)
      loop
        if failed[unit] = 0 then failed[unit] := 1; end if;
      end loop;
      if work->'ids' is not null then
        for unit in select * from "svc"._check_ids(work->'ids') loop
          if failed[unit] = 0 then failed[unit] := 1; end if;
        end loop;
      end if;
      for one in select r.call, r.rows from json_to_recordset(work->'removes') as r(call text, rows json) loop
        execute format('select %s($1, $2)', one.call) using one.rows, failed;
      end loop;
      for one in select r.call, r.v, r.rows from json_to_recordset(puts) as r(call text, v text, rows json) loop
        execute format('select %s($1, $2, $3, $4)', one.call) using one.rows, failed, version, one.v;
      end loop;
      delete from "svc"._log l using json_to_recordset(work->'clears') as r(_u int, log text, key text)
        where l.log = r.log collate "C" and l.key = r.key collate "C" and failed[r._u] = 0;
      insert into "svc"._log (log, key, seq, body)
        select r.log, r.key, r.seq, r.body
        from json_to_recordset(entries) as r(_u int, log text, key text, seq int, body text)
        where failed[r._u] = 0;
      update "svc"._writer w set seq = turn, result = failed::text, seen_at = now() where w.id = writer;
      return failed::text;
    end $_$;
CREATE FUNCTION svc._settle(writer bigint, turn bigint, wait text) RETURNS text
    LANGUAGE plpgsql
    AS $$
    declare outcome text;
    begin
      perform set_config('lock_timeout', wait, true);
      update "svc"._writer w set seq = turn, result = 'void', seen_at = now() where w.id = writer and w.seq = turn - 1;
      select w.result into outcome from "svc"._writer w where w.id = writer and w.seq = turn;
      return outcome;
    end $$;
CREATE FUNCTION svc."check:Case"(json) RETURNS SETOF integer
    LANGUAGE plpgsql
    AS $_$ begin
        return query select r._u from json_to_recordset($1) as r(_u int, id text, _ver bigint)
          left join "svc"."Case" t on t.id = r.id collate "C" where t._ver is distinct from r._ver;
      end $_$;
CREATE FUNCTION svc."check:Job"(json) RETURNS SETOF integer
    LANGUAGE plpgsql
    AS $_$ begin
        return query select r._u from json_to_recordset($1) as r(_u int, id text, _ver bigint)
          left join "svc"."Job" t on t.id = r.id collate "C" where t._ver is distinct from r._ver;
      end $_$;
CREATE FUNCTION svc."put:Case:864bb11b9a"(json, integer[], bigint, text) RETURNS void
    LANGUAGE plpgsql
    AS $_$ begin
        insert into "svc"."Case" as t (id, _ver, _v, _epoch, _text, _rest, _body, "created_at", "created_at#", "job_id", "job_id#", "name", "name#", "status", "status#", "updated_at", "updated_at#")
          select r.id, $3, $4, r._epoch, r._text, r._rest, r._body, r."created_at", r."created_at#", r."job_id", r."job_id#", r."name", r."name#", r."status", r."status#", r."updated_at", r."updated_at#"
          from json_to_recordset($1) as r(_u int, id text, _epoch bigint, _text text, _rest jsonb, _body text, "created_at" text, "created_at#" float8, "job_id" text, "job_id#" float8, "name" text, "name#" float8, "status" text, "status#" float8, "updated_at" text, "updated_at#" float8)
          where $2[r._u] = 0
          on conflict (id) do update set _ver = excluded._ver, _v = excluded._v,
            _epoch = excluded._epoch, _text = excluded._text, _rest = excluded._rest, _body = excluded._body, "created_at" = excluded."created_at", "created_at#" = excluded."created_at#", "job_id" = excluded."job_id", "job_id#" = excluded."job_id#", "name" = excluded."name", "name#" = excluded."name#", "status" = excluded."status", "status#" = excluded."status#", "updated_at" = excluded."updated_at", "updated_at#" = excluded."updated_at#";
      end $_$;
CREATE FUNCTION svc."put:Job:3331adcbd6"(json, integer[], bigint, text) RETURNS void
    LANGUAGE plpgsql
    AS $_$ begin
        insert into "svc"."Job" as t (id, _ver, _v, _epoch, _text, _rest, _body, "agent_name", "agent_name#", "created_at", "created_at#", "forked_from", "forked_from#", "idempotency_key", "idempotency_key#", "name", "name#", "owner", "owner#", "parent_id", "parent_id#", "schedule_id", "schedule_id#", "status", "status#", "updated_at", "updated_at#", "workspace_id", "workspace_id#")
          select r.id, $3, $4, r._epoch, r._text, r._rest, r._body, r."agent_name", r."agent_name#", r."created_at", r."created_at#", r."forked_from", r."forked_from#", r."idempotency_key", r."idempotency_key#", r."name", r."name#", r."owner", r."owner#", r."parent_id", r."parent_id#", r."schedule_id", r."schedule_id#", r."status", r."status#", r."updated_at", r."updated_at#", r."workspace_id", r."workspace_id#"
          from json_to_recordset($1) as r(_u int, id text, _epoch bigint, _text text, _rest jsonb, _body text, "agent_name" text, "agent_name#" float8, "created_at" text, "created_at#" float8, "forked_from" text, "forked_from#" float8, "idempotency_key" text, "idempotency_key#" float8, "name" text, "name#" float8, "owner" text, "owner#" float8, "parent_id" text, "parent_id#" float8, "schedule_id" text, "schedule_id#" float8, "status" text, "status#" float8, "updated_at" text, "updated_at#" float8, "workspace_id" text, "workspace_id#" float8)
          where $2[r._u] = 0
          on conflict (id) do update set _ver = excluded._ver, _v = excluded._v,
            _epoch = excluded._epoch, _text = excluded._text, _rest = excluded._rest, _body = excluded._body, "agent_name" = excluded."agent_name", "agent_name#" = excluded."agent_name#", "created_at" = excluded."created_at", "created_at#" = excluded."created_at#", "forked_from" = excluded."forked_from", "forked_from#" = excluded."forked_from#", "idempotency_key" = excluded."idempotency_key", "idempotency_key#" = excluded."idempotency_key#", "name" = excluded."name", "name#" = excluded."name#", "owner" = excluded."owner", "owner#" = excluded."owner#", "parent_id" = excluded."parent_id", "parent_id#" = excluded."parent_id#", "schedule_id" = excluded."schedule_id", "schedule_id#" = excluded."schedule_id#", "status" = excluded."status", "status#" = excluded."status#", "updated_at" = excluded."updated_at", "updated_at#" = excluded."updated_at#", "workspace_id" = excluded."workspace_id", "workspace_id#" = excluded."workspace_id#";
      end $_$;
CREATE FUNCTION svc."remove:Case"(json, integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $_$ begin
        delete from "svc"."Case" t using json_to_recordset($1) as r(_u int, id text)
          where t.id = r.id collate "C" and $2[r._u] = 0;
      end $_$;
CREATE FUNCTION svc."remove:Job"(json, integer[]) RETURNS void
    LANGUAGE plpgsql
    AS $_$ begin
        delete from "svc"."Job" t using json_to_recordset($1) as r(_u int, id text)
          where t.id = r.id collate "C" and $2[r._u] = 0;
      end $_$;
CREATE TABLE svc."Case" (
    id text NOT NULL COLLATE pg_catalog."C",
    _ver bigint NOT NULL,
    _v text NOT NULL,
    _epoch bigint,
    _text text NOT NULL COLLATE pg_catalog."C",
    _rest jsonb NOT NULL,
    _body text NOT NULL,
    created_at text COLLATE pg_catalog."C",
    "created_at#" double precision,
    job_id text COLLATE pg_catalog."C",
    "job_id#" double precision,
    name text COLLATE pg_catalog."C",
    "name#" double precision,
    status text COLLATE pg_catalog."C",
    "status#" double precision,
    updated_at text COLLATE pg_catalog."C",
    "updated_at#" double precision
);
CREATE TABLE svc."Job" (
    id text NOT NULL COLLATE pg_catalog."C",
    _ver bigint NOT NULL,
    _v text NOT NULL,
    _epoch bigint,
    _text text NOT NULL COLLATE pg_catalog."C",
    _rest jsonb NOT NULL,
    _body text NOT NULL,
    agent_name text COLLATE pg_catalog."C",
    "agent_name#" double precision,
    created_at text COLLATE pg_catalog."C",
    "created_at#" double precision,
    forked_from text COLLATE pg_catalog."C",
    "forked_from#" double precision,
    idempotency_key text COLLATE pg_catalog."C",
    "idempotency_key#" double precision,
    name text COLLATE pg_catalog."C",
    "name#" double precision,
    owner text COLLATE pg_catalog."C",
    "owner#" double precision,
    parent_id text COLLATE pg_catalog."C",
    "parent_id#" double precision,
    schedule_id text COLLATE pg_catalog."C",
    "schedule_id#" double precision,
    status text COLLATE pg_catalog."C",
    "status#" double precision,
    updated_at text COLLATE pg_catalog."C",
    "updated_at#" double precision,
    workspace_id text COLLATE pg_catalog."C",
    "workspace_id#" double precision
);
CREATE TABLE svc._log (
    log text NOT NULL COLLATE pg_catalog."C",
    key text NOT NULL COLLATE pg_catalog."C",
    seq integer NOT NULL,
    body text NOT NULL
);
CREATE TABLE svc._migration (
    number integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE svc._table (
    name text NOT NULL,
    version text NOT NULL
);
CREATE TABLE svc._writer (
    id bigint NOT NULL,
    seq bigint DEFAULT 0 NOT NULL,
    result text,
    seen_at timestamp with time zone DEFAULT now() NOT NULL
);
ALTER TABLE svc._writer ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME svc._writer_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
INSERT INTO svc."Case" VALUES ('case-1', 1099511627777, '1.864bb11b9a', NULL, 'case-1
invoice
the first', '{"ref": "c", "deadline": null, "duration": null, "total_cost": 0, "finished_at": null}', '{"id":"case-1","job_id":"job-1","ref":"c","name":"Invoice","account":{"workspace_id":"w","api_url":"http://127.0.0.1","api_key":null},"description":"The first","status":"in_progress","update_count":0,"last_error":null,"total_cost":0,"final_delivery":null,"finished_at":null,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z","question":null}', NULL, 1767225600000, 'job-1', NULL, 'Invoice', NULL, 'in_progress', NULL, NULL, 1767225600000);
INSERT INTO svc."Job" VALUES ('job-2', 1099511627777, '4.3331adcbd6', 2, 'job-2
job job-2', '{"parked": false, "wake_at": null, "duration": 2626260000, "run_count": 2, "case_count": 0, "total_cost": 0, "finished_at": 1769851860000, "stop_reason": null}', '{"id":"job-2","name":"Job job-2","agent_name":"clerk","status":"completed","job_context":{"workspace_id":"w","job_id":"job-2","started_by":"contract","started_at":"2026-01-01T00:00:00.000Z","mission_id":"m","mission_name":"mission","mission_context":null,"job_instructions":null},"payload":null,"result":null,"error":null,"responses":[],"finished_at":"2026-01-31T09:31:00Z","created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z","agent_parameters":null,"case_count":0,"job_fields":{},"total_cost":0,"stop_reason":null,"agent_version":null,"code_fingerprint":null,"schedule":null,"concurrency_key":null,"held":null,"parent":null,"forked_from":null,"suspended":null,"pulled_from":null,"fingerprint":"","encrypted_agent_parameters":null,"open_questions":0,"run_count":2,"idempotency_key":null}', 'clerk', NULL, NULL, 1767225600000, NULL, NULL, NULL, NULL, 'Job job-2', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'completed', NULL, NULL, 1767225600000, 'w', NULL);
INSERT INTO svc."Job" VALUES ('job-3', 1099511627777, '4.3331adcbd6', 0, 'job-3
job job-3', '{"parked": false, "wake_at": 1772323199999, "duration": null, "run_count": 0, "case_count": 0, "total_cost": 0, "finished_at": null, "stop_reason": null}', '{"id":"job-3","name":"Job job-3","agent_name":"hello","status":"in_progress","job_context":{"workspace_id":"w","job_id":"job-3","started_by":"contract","started_at":"2026-01-01T00:00:00.000Z","mission_id":"m","mission_name":"mission","mission_context":null,"job_instructions":null},"payload":null,"result":null,"error":null,"responses":[],"finished_at":null,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z","agent_parameters":null,"case_count":0,"job_fields":{},"total_cost":0,"stop_reason":null,"agent_version":null,"code_fingerprint":null,"schedule":null,"concurrency_key":null,"held":null,"parent":null,"forked_from":null,"suspended":{"at":"2026-01-31T09:31:00Z","wake_at":"2026-02-28T23:59:59.999Z"},"pulled_from":null,"fingerprint":"","encrypted_agent_parameters":null,"open_questions":0,"run_count":0,"idempotency_key":null}', 'hello', NULL, NULL, 1767225600000, NULL, NULL, NULL, NULL, 'Job job-3', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'in_progress', NULL, NULL, 1767225600000, 'w', NULL);
INSERT INTO svc."Job" VALUES ('job-1', 1099511627778, '4.3331adcbd6', 1, 'job-1
audit of ä', '{"parked": false, "wake_at": null, "duration": null, "run_count": 1, "case_count": 0, "total_cost": 2, "finished_at": null, "stop_reason": null}', '{"id":"job-1","name":"Audit of Ä","agent_name":"hello","status":"in_progress","job_context":{"workspace_id":"w","job_id":"job-1","started_by":"contract","started_at":"2026-01-01T00:00:00.000Z","mission_id":"m","mission_name":"mission","mission_context":null,"job_instructions":null},"payload":null,"result":null,"error":null,"responses":[],"finished_at":null,"created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z","agent_parameters":null,"case_count":0,"job_fields":{},"total_cost":2,"stop_reason":null,"agent_version":null,"code_fingerprint":null,"schedule":null,"concurrency_key":null,"held":null,"parent":null,"forked_from":null,"suspended":null,"pulled_from":null,"fingerprint":"","encrypted_agent_parameters":null,"open_questions":0,"run_count":1,"idempotency_key":null}', 'hello', NULL, NULL, 1767225600000, NULL, NULL, NULL, NULL, 'Audit of Ä', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'in_progress', NULL, NULL, 1767225600000, 'w', NULL);
INSERT INTO svc._log VALUES ('Run', 'job-1', 1, '{"type":"mark","mark":"note","message":"begin","at":"2026-01-01T00:00:00.000Z"}');
INSERT INTO svc._log VALUES ('Run', 'job-1', 2, '{"type":"mark","mark":"note","message":"one","at":"2026-01-01T00:00:00.000Z"}');
INSERT INTO svc._migration VALUES (1, '2026-11-22 19:46:14.87256+00');
INSERT INTO svc._table VALUES ('Job', '4.3331adcbd6');
INSERT INTO svc._table VALUES ('Case', '1.864bb11b9a');
INSERT INTO svc._writer OVERRIDING SYSTEM VALUE VALUES (1, 2, '{0}', '2026-11-22 19:46:15.877292+00');
SELECT pg_catalog.setval('svc._writer_id_seq', 1, true);
ALTER TABLE ONLY svc."Case"
    ADD CONSTRAINT "Case_pkey" PRIMARY KEY (id);
ALTER TABLE ONLY svc."Job"
    ADD CONSTRAINT "Job_pkey" PRIMARY KEY (id);
ALTER TABLE ONLY svc._log
    ADD CONSTRAINT _log_pkey PRIMARY KEY (log, key, seq);
ALTER TABLE ONLY svc._migration
    ADD CONSTRAINT _migration_pkey PRIMARY KEY (number);
ALTER TABLE ONLY svc._table
    ADD CONSTRAINT _table_pkey PRIMARY KEY (name);
ALTER TABLE ONLY svc._writer
    ADD CONSTRAINT _writer_pkey PRIMARY KEY (id);
CREATE INDEX "Case:1.864bb11b9a" ON svc."Case" USING btree (id) WHERE (_v <> '1.864bb11b9a'::text);
CREATE INDEX "Case:created_at:order" ON svc."Case" USING btree ("left"(created_at, 256) NULLS FIRST, "created_at#" NULLS FIRST, id);
CREATE INDEX "Case:job_id" ON svc."Case" USING btree ("left"(job_id, 256)) WHERE (job_id IS NOT NULL);
CREATE INDEX "Case:job_id#" ON svc."Case" USING btree ("job_id#") WHERE ("job_id#" IS NOT NULL);
CREATE INDEX "Case:name:order" ON svc."Case" USING btree ("left"(name, 256) NULLS FIRST, "name#" NULLS FIRST, id);
CREATE INDEX "Case:status" ON svc."Case" USING btree ("left"(status, 256)) WHERE (status IS NOT NULL);
CREATE INDEX "Case:status#" ON svc."Case" USING btree ("status#") WHERE ("status#" IS NOT NULL);
CREATE INDEX "Case:text" ON svc."Case" USING gin (_text public.gin_trgm_ops);
CREATE INDEX "Case:updated_at:order" ON svc."Case" USING btree ("left"(updated_at, 256) NULLS FIRST, "updated_at#" NULLS FIRST, id);
CREATE INDEX "Job:4.3331adcbd6" ON svc."Job" USING btree (id) WHERE (_v <> '4.3331adcbd6'::text);
CREATE INDEX "Job:agent_name" ON svc."Job" USING btree ("left"(agent_name, 256)) WHERE (agent_name IS NOT NULL);
CREATE INDEX "Job:agent_name#" ON svc."Job" USING btree ("agent_name#") WHERE ("agent_name#" IS NOT NULL);
CREATE INDEX "Job:created_at:order" ON svc."Job" USING btree ("left"(created_at, 256) NULLS FIRST, "created_at#" NULLS FIRST, id);
CREATE INDEX "Job:forked_from" ON svc."Job" USING btree ("left"(forked_from, 256)) WHERE (forked_from IS NOT NULL);
CREATE INDEX "Job:forked_from#" ON svc."Job" USING btree ("forked_from#") WHERE ("forked_from#" IS NOT NULL);
CREATE INDEX "Job:idempotency_key" ON svc."Job" USING btree ("left"(idempotency_key, 256)) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX "Job:idempotency_key#" ON svc."Job" USING btree ("idempotency_key#") WHERE ("idempotency_key#" IS NOT NULL);
CREATE INDEX "Job:name:order" ON svc."Job" USING btree ("left"(name, 256) NULLS FIRST, "name#" NULLS FIRST, id);
CREATE INDEX "Job:owner" ON svc."Job" USING btree ("left"(owner, 256)) WHERE (owner IS NOT NULL);
CREATE INDEX "Job:owner#" ON svc."Job" USING btree ("owner#") WHERE ("owner#" IS NOT NULL);
CREATE INDEX "Job:parent_id" ON svc."Job" USING btree ("left"(parent_id, 256)) WHERE (parent_id IS NOT NULL);
CREATE INDEX "Job:parent_id#" ON svc."Job" USING btree ("parent_id#") WHERE ("parent_id#" IS NOT NULL);
CREATE INDEX "Job:schedule_id" ON svc."Job" USING btree ("left"(schedule_id, 256)) WHERE (schedule_id IS NOT NULL);
CREATE INDEX "Job:schedule_id#" ON svc."Job" USING btree ("schedule_id#") WHERE ("schedule_id#" IS NOT NULL);
CREATE INDEX "Job:status" ON svc."Job" USING btree ("left"(status, 256)) WHERE (status IS NOT NULL);
CREATE INDEX "Job:status#" ON svc."Job" USING btree ("status#") WHERE ("status#" IS NOT NULL);
CREATE INDEX "Job:text" ON svc."Job" USING gin (_text public.gin_trgm_ops);
CREATE INDEX "Job:updated_at:order" ON svc."Job" USING btree ("left"(updated_at, 256) NULLS FIRST, "updated_at#" NULLS FIRST, id);
CREATE INDEX "Job:workspace_id" ON svc."Job" USING btree ("left"(workspace_id, 256)) WHERE (workspace_id IS NOT NULL);
CREATE INDEX "Job:workspace_id#" ON svc."Job" USING btree ("workspace_id#") WHERE ("workspace_id#" IS NOT NULL);
