import { generateKeyPairSync } from "node:crypto";
import { resolve } from "node:path";
import { type Begun, begin } from "./peers/begin.ts";
import { install } from "./peers/install.ts";
import { beginPostgres } from "./peers/postgres.ts";
import { query } from "./postgres/counters.ts";
import { processorTime } from "./postgres/processor-time.ts";
import type { BenchRow } from "./row.ts";
import { load, median, type StartRequest } from "./runs/load.ts";
import { newJobId, startOf } from "./runs/start-of.ts";

const SECONDS = Number(process.env.SVC_BENCH_SECONDS ?? 4);
const TURNS = Number(process.env.SVC_BENCH_TURNS ?? 4);
const CLIENTS = (process.env.SVC_BENCH_CLIENTS ?? "1,64").split(",").map(Number);
const DBOS = "@dbos-inc/dbos-sdk@5.3.0";
/** A folder with another build (`dist`) and its `bench`, to compare with in place of DBOS. */
const BESIDE = process.env.SVC_BENCH_BESIDE;

/** What a job took. Only the first two depend on what else the machine does. */
interface Used {
  readonly rate: number;
  readonly median: number;
  /** Microseconds of processor time, of the service and of the database. */
  readonly service: number;
  readonly server: number;
  /** Statements that the service sent, and syncs of the log that is written ahead. */
  readonly statements: number;
  readonly commits: number;
  readonly syncs: number;
  /** Microseconds of these. */
  readonly syncing: number;
  /** Bytes of that log. */
  readonly wal: number;
}

interface Candidate {
  readonly name: string;
  readonly begun: Begun;
  readonly start: () => StartRequest;
  readonly url: string;
}

/**
 * Where the time of a three-step job goes, beside DBOS on the same server: processor time of both sides, round trips, and
 * syncs. Set `TMPDIR` to a folder in memory or on a disk. `SVC_BENCH_BESIDE` compares with another build.
 */
export async function run(): Promise<BenchRow[]> {
  await using server = await beginPostgres([
    "shared_preload_libraries=pg_stat_statements",
    "track_wal_io_timing=on",
    ...(process.env.SVC_BENCH_PLANS ? ["pg_stat_statements.track=all"] : []),
  ]);
  if (!server)
    return [{ name: "jobs on Postgres: skipped, this machine has no Postgres", value: 0, unit: "jobs/s" }];
  await query(server.url, "create database ours", "create database beside");
  const database = (name: string) => server.url.replace(/postgres$/, name);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const variables = (name: string) => ({
    SERVICE_DATABASE_URL: database(name),
    SERVICE_RSA_PRIVATE_KEY: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  });
  const candidate = (name: string, database_: string, begun: Begun, isOurs = true): Candidate => ({
    ...{ name, begun, url: database(database_) },
    start: isOurs ? () => startOf(begun.told, "three", 20) : startsOfDbos(begun.told),
  });
  await using ours = await begin("runs/service.mjs", [], variables("ours"));
  await using sdk = BESIDE ? undefined : await install(DBOS);
  await using beside = BESIDE
    ? await begin(resolve(BESIDE, "bench/runs/service.mjs"), [], variables("beside"))
    : sdk && (await begin("postgres/dbos.mjs", [sdk.folder, database("beside")]));
  const all = [candidate("Postgres", "ours", ours)];
  if (beside)
    all.push(candidate(BESIDE ? "the other build" : "DBOS", "beside", beside, BESIDE !== undefined));
  for (const { url } of all) await query(url, "create extension if not exists pg_stat_statements");
  // Long enough for hot code to be compiled.
  for (const { start } of all) await load(start, { clients: 16, seconds: 2 * SECONDS });
  const rows: BenchRow[] = [];
  for (const clients of CLIENTS) {
    const used = new Map(all.map(({ name }): [string, Used[]] => [name, []]));
    for (let turn = 0; turn < TURNS; turn++)
      for (const one of turn % 2 === 0 ? all : all.toReversed())
        used.get(one.name)!.push(await measure(one, server.pid, clients));
    rows.push(...compare(clients, used));
  }
  if (process.env.SVC_BENCH_PLANS) await printStatements(all[0]!.url);
  return rows;
}

async function measure({ url, begun, start }: Candidate, server: number, clients: number): Promise<Used> {
  const read = async () => {
    const [row] = await query(
      url,
      `select s.calls as statements, d.xact_commit::float8 as commits, w.wal_sync::float8 as syncs,
         w.wal_sync_time * 1000 as syncing, w.wal_bytes::float8 as wal
       from pg_stat_wal w, pg_stat_database d,
         lateral (select sum(calls)::float8 as calls from pg_stat_statements s where s.dbid = d.datid and s.toplevel) s
       where d.datname = current_database()`,
    );
    return {
      ...(row as unknown as Omit<Used, "rate" | "median" | "service" | "server">),
      service: processorTime(begun.child.pid!) * 1e6,
      server: processorTime(server) * 1e6,
    };
  };
  const before = await read();
  const { rate, median: time, jobs } = await load(start, { clients, seconds: SECONDS });
  const after = await read();
  const each = (Object.keys(before) as (keyof typeof before)[]).map((field) => [
    field,
    (after[field] - before[field]) / jobs,
  ]);
  return { rate, median: time, ...(Object.fromEntries(each) as typeof before) };
}

const MEASURES: Readonly<Record<keyof Used, { label: string; unit: string }>> = {
  rate: { label: "three-step jobs on Postgres", unit: "jobs/s" },
  median: { label: "the same, median", unit: "ms" },
  service: { label: "processor time of the service", unit: "µs/job" },
  server: { label: "processor time of the database", unit: "µs/job" },
  statements: { label: "statements", unit: "per job" },
  commits: { label: "commits", unit: "per job" },
  syncs: { label: "syncs", unit: "per job" },
  syncing: { label: "time of the syncs", unit: "µs/job" },
  wal: { label: "WAL", unit: "bytes/job" },
};

function compare(clients: number, used: ReadonlyMap<string, readonly Used[]>): BenchRow[] {
  const [[, own], other] = [...used] as [[string, readonly Used[]], [string, readonly Used[]] | undefined];
  return (Object.keys(MEASURES) as (keyof Used)[]).map((field): BenchRow => {
    const { label, unit } = MEASURES[field];
    const middle = (all: readonly Used[]) => median(all.map((one) => one[field]));
    return {
      ...{ name: `${label}, ${clients} client${clients === 1 ? "" : "s"}`, value: middle(own), unit },
      ...(other && {
        baseline: { name: other[0], value: middle(other[1]) },
        ratio: median(own.map((one, turn) => one[field] / other[1][turn]![field])),
      }),
    };
  });
}

/** Prints the statements that took most time, those inside of functions too. */
async function printStatements(url: string): Promise<void> {
  const rows = await query(
    url,
    `select round(total_exec_time::numeric / 1000, 2) as s, calls, round((1000 * mean_exec_time)::numeric) as us, wal_bytes / calls as wal,
       toplevel, left(regexp_replace(query, '\\s+', ' ', 'g'), 130) as query
     from pg_stat_statements where dbid = (select oid from pg_database where datname = current_database())
     order by total_exec_time desc limit 30`,
  );
  for (const row of rows) console.error(Object.values(row).join("\t"));
}

function startsOfDbos(told: unknown): () => StartRequest {
  const url = new URL("/jobs", (told as { url: string }).url);
  return () => ({ url, headers: {}, body: { id: newJobId(), n: 20 } });
}
