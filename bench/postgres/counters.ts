import pg from "pg";

/** What a database has done so far. */
export interface Counters {
  /** Bytes of the log that is written ahead, of the whole server. */
  readonly wal: number;
  readonly commits: number;
  readonly statements: number;
  /** Statements that write a group of transactions. */
  readonly groups: number;
}

/** Runs statements on a connection of its own. */
export async function query(
  url: string,
  ...statements: readonly string[]
): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    let rows: Record<string, unknown>[] = [];
    for (const statement of statements) ({ rows } = await client.query(statement));
    return rows;
  } finally {
    await client.end();
  }
}

/** Reads the counters of a server with `pg_stat_statements`. */
export async function readCounters(url: string): Promise<Counters> {
  const [row] = await query(
    url,
    "create extension if not exists pg_stat_statements",
    `select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as wal,
       (select xact_commit::float8 from pg_stat_database where datname = current_database()) as commits,
       sum(calls)::float8 as statements,
       coalesce(sum(calls) filter (where query like '%."_commit:%'), 0)::float8 as groups
     from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())`,
  );
  return row as unknown as Counters;
}

/** What was done between two readings. */
export function difference(before: Counters, after: Counters): Counters {
  const fields = Object.keys(before) as (keyof Counters)[];
  return Object.fromEntries(
    fields.map((field) => [field, after[field] - before[field]]),
  ) as unknown as Counters;
}
