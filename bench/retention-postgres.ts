import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { askService } from "./measured/ask-service.ts";
import { beginPostgres } from "./peers/postgres.ts";
import { query } from "./postgres/counters.ts";
import { quarterRows } from "./retention/quarter-rows.ts";
import type { BenchRow } from "./row.ts";

/** `BENCH_JOBS` makes a quick trial. */
const JOBS = Number(process.env.BENCH_JOBS ?? 300_000);
/** Seconds that jobs are kept: less than a quarter of the run, as nothing is removed before. */
const KEPT = Number(process.env.BENCH_KEPT ?? 120);
/** Jobs are kept for minutes here rather than for days: the database looks for dead rows as much more often. */
const SETTINGS = ["autovacuum_naptime=1s"];
const SERVICE = fileURLToPath(new URL("retention/database.mjs", import.meta.url));
/** Seconds between two readings of the database. */
const PAUSE = 10;
/** The largest part of rows that may be dead, percent. */
const DEAD = 5;

/** What the tables of the service are like at one moment. */
interface Sample {
  readonly heap: number;
  readonly indexes: number;
  readonly live: number;
  readonly dead: number;
}

interface Told {
  readonly rate: number;
  readonly removed: number;
}

/** Sizes and dead rows of a database whose service is never idle and keeps its jobs for some minutes. */
export async function run(): Promise<BenchRow[]> {
  await using server = await beginPostgres(SETTINGS);
  if (!server)
    return [{ name: "retention on Postgres: skipped, this machine has no Postgres", value: 0, unit: "" }];
  const samples: Sample[] = [];
  const ending = new AbortController();
  const reading = readAgainAndAgain(server.url, samples, ending.signal);
  const told = await askService<Told>(SERVICE, [server.url, String(JOBS), String(KEPT)]);
  ending.abort();
  await reading;
  return [
    { name: `jobs with one case and one step, kept for ${KEPT} s, of ${JOBS}`, value: told.rate, unit: "/s" },
    { name: "of them removed by the end", value: told.removed, unit: "jobs" },
    ...quarterRows(
      "tables",
      "MB",
      quartersOf(samples, ({ heap }) => heap / 1e6),
    ),
    ...quarterRows(
      "indexes",
      "MB",
      quartersOf(samples, ({ indexes }) => indexes / 1e6),
    ),
    ...quarterRows(
      "rows",
      "",
      quartersOf(samples, ({ live }) => live),
    ),
    ...deadRows(samples),
  ];
}

/** Reads the sizes of the tables until it is over. */
async function readAgainAndAgain(url: string, samples: Sample[], signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const [row] = await query(
      url,
      `select coalesce(sum(pg_table_size(relid)), 0)::float8 as heap, coalesce(sum(pg_indexes_size(relid)), 0)::float8 as indexes,
         coalesce(sum(n_live_tup), 0)::float8 as live, coalesce(sum(n_dead_tup), 0)::float8 as dead from pg_stat_user_tables`,
    );
    samples.push(row as unknown as Sample);
    if (process.env.BENCH_VERBOSE) console.error(new Date().toISOString(), JSON.stringify(row));
    await delay(PAUSE * 1000, undefined, { signal }).catch(() => {});
  }
}

function deadRows(samples: readonly Sample[]): BenchRow[] {
  const values = quartersOf(samples, ({ live, dead }) => (100 * dead) / Math.max(1, live + dead));
  return values.map((value, at) => ({
    ...{ name: `dead rows, mean of quarter ${at + 1}`, value, unit: "%" },
    ...(at === values.length - 1 && { target: `<= ${DEAD}`, ok: value <= DEAD }),
  }));
}

/** Means of the quarters of the time. */
function quartersOf(samples: readonly Sample[], of: (sample: Sample) => number): number[] {
  return [0, 1, 2, 3].map((quarter) => {
    const some = samples.filter((_, at) => Math.floor((4 * at) / samples.length) === quarter).map(of);
    return some.reduce((sum, value) => sum + value, 0) / Math.max(1, some.length);
  });
}
