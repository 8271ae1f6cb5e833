import { begin } from "./peers/begin.ts";
import { bundled } from "./peers/bundled.ts";
import { message } from "./peers/message.ts";
import { beginPostgres } from "./peers/postgres.ts";
import { query } from "./postgres/counters.ts";
import type { BenchRow } from "./row.ts";

const JOBS = Number(process.env.BENCH_JOBS ?? 1_000_000);

/** Lists of a million jobs in Postgres, with their totals. */
export async function run(): Promise<BenchRow[]> {
  const of = `of ${JOBS.toLocaleString("en")} jobs`;
  await using server = await beginPostgres();
  if (!server)
    return [{ name: "lists on Postgres: skipped, this machine has no Postgres", value: 0, unit: "ms" }];
  await using lists = await begin(await bundled("postgres/lists.mjs"), [server.url]);
  await fill(server.url);
  const answer = message(lists.child);
  lists.child.send("measure");
  const medians = (await answer) as Record<string, number>;
  const row = (name: string, key: string, most?: number): BenchRow => {
    const value = medians[key]!;
    const target = most === undefined ? {} : { target: `<= ${most} ms`, ok: value <= most };
    return { name, value, unit: "ms", ...target };
  };
  return [
    row(`page of 50 ${of} by status, with total, median`, "status", 5),
    row(`page of 50 ${of} by text that 111 have, with total, median`, "text", 50),
    row(`page of 50 ${of} by text that one in twelve has, with total, median`, "word"),
    row(`page of 50 ${of}, sorted by name, median`, "name"),
    row(`page of 50 ${of} behind 900,000 others, median`, "deep"),
    row(`number of jobs by status ${of}, median`, "counts"),
    row(`update of a job among them, median`, "update"),
  ];
}

/** Copies the one job that is there, as the store has written it, with other values. */
async function fill(url: string): Promise<void> {
  const words = "invoice supplier amount total order number overdue checked paid refused audit report".split(
    " ",
  );
  const statuses = [
    "completed",
    "completed",
    "completed",
    "failed",
    "in_progress",
    "awaiting",
    "stopped",
    "cancelled",
  ];
  const one = (of: readonly string[]) =>
    `(array[${of.map((each) => `'${each}'`).join(", ")}])[n % ${of.length} + 1]`;
  const id = "'job-' || lpad(n::text, 8, '0')";
  const name = `'Audit ' || n || ' of ' || ${one(words)}`;
  const values: Record<string, string> = {
    ...{ id, name, status: one(statuses), agent_name: "'agent-' || n % 7" },
    "created_at#": 't."created_at#" + n * 1000',
    "updated_at#": 't."updated_at#" + n * 1000',
    _body: `replace(replace(t._body, '"first"', '"' || ${id} || '"'), 'The first', ${name})`,
  };
  const columns = await query(
    url,
    `select attname as name from pg_attribute where attrelid = 'agent_control_service."Job"'::regclass and attnum > 0 and not attisdropped`,
  );
  const names = columns.map((column) => column.name as string);
  await query(
    url,
    `insert into agent_control_service."Job" (${names.map((each) => `"${each}"`).join(", ")})
     select ${names.map((each) => values[each] ?? `t."${each}"`).join(", ")}
     from agent_control_service."Job" t, generate_series(1, ${JOBS - 1}) n where t.id = 'first'`,
    `insert into agent_control_service."Job:texts"
     select ${id}, ${id} || E'\\n' || lower(${name}) from generate_series(1, ${JOBS - 1}) n`,
    "vacuum analyze",
  );
}
