import { generateKeyPairSync } from "node:crypto";
import { Agent } from "node:http";
import { type Begun, begin } from "./peers/begin.ts";
import { install } from "./peers/install.ts";
import { message } from "./peers/message.ts";
import { beginPostgres } from "./peers/postgres.ts";
import { difference, query, readCounters } from "./postgres/counters.ts";
import type { BenchRow } from "./row.ts";
import { load, type Measured, median, type StartRequest, send } from "./runs/load.ts";
import { newJobId, startOf } from "./runs/start-of.ts";

/** For each of those compared, with each number of clients. */
const SECONDS = Number(process.env.SVC_BENCH_SECONDS ?? 12);
const TURNS = 4;
const CLIENTS = [1, 16, 64] as const;
const STEPS = 2000;
const DBOS = "@dbos-inc/dbos-sdk@5.3.0";

type Start = () => StartRequest;
interface Candidate {
  readonly name: string;
  readonly start: Start;
  readonly rounds: Measured[];
}

/**
 * Durable jobs of three steps from start to result over HTTP, with the store in Postgres: beside DBOS on the same
 * server, beside the embedded store, and with three instances; and what the server does for them.
 */
export async function run(): Promise<BenchRow[]> {
  await using server = await beginPostgres(["shared_preload_libraries=pg_stat_statements"]);
  if (!server) return [skipped("jobs on Postgres: skipped, this machine has no Postgres")];
  await query(server.url, "create database ours", "create database dbos");
  const database = (name: string) => server.url.replace(/postgres$/, name);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const variables = {
    SERVICE_DATABASE_URL: database("ours"),
    SERVICE_RSA_PRIVATE_KEY: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
  };
  const rows: BenchRow[] = [];
  await using ours = await begin("runs/service.mjs", [], variables);
  {
    await using embedded = await begin("runs/service.mjs");
    await using sdk = await install(DBOS);
    await using dbos = sdk && (await begin("postgres/dbos.mjs", [sdk.folder, database("dbos")]));
    const own = candidate("Postgres", startsOf(ours.told));
    const json = candidate("embedded store", startsOf(embedded.told));
    const theirs = dbos && candidate("DBOS", startsOfDbos(dbos.told));
    if (!theirs) rows.push(skipped(`DBOS: skipped, ${DBOS} could not be installed`));
    const all = [own, json, ...(theirs ? [theirs] : [])];
    // Long enough for hot code to be compiled, as in a service that has been up for a minute.
    for (const { start } of all) await load(start, { clients: 16, seconds: SECONDS / 2 });
    for (const clients of CLIENTS) {
      await measure(all, clients);
      rows.push(...(theirs ? compare(clients, own, theirs) : []), besideEmbedded(clients, own, json));
    }
  }
  rows.push(...(await measureServer(database("ours"), ours.told)));
  await using second = await begin("runs/service.mjs", [], variables);
  await using third = await begin("runs/service.mjs", [], variables);
  rows.push(...(await measureInstances([ours.told, second.told, third.told])));
  rows.push(await measureSteps(database("ours"), ours));
  return rows;
}

function candidate(name: string, start: Start): Candidate {
  return { name, start, rounds: [] };
}

/** In turns, back and forth, so that other load on the machine affects all. */
async function measure(all: readonly Candidate[], clients: number): Promise<void> {
  for (const { rounds } of all) rounds.length = 0;
  for (let turn = 0; turn < TURNS; turn++) {
    for (const { start, rounds } of turn % 2 === 0 ? all : all.toReversed())
      rounds.push(await load(start, { clients, seconds: SECONDS / TURNS }));
  }
}

const rateOf = (one: Measured) => one.rate;
const medianOf = (one: Measured) => one.median;

function compare(clients: number, own: Candidate, theirs: Candidate): BenchRow[] {
  const rate = ratio(own, theirs, rateOf);
  const time = ratio(own, theirs, medianOf);
  const isMany = clients > 1;
  return [
    {
      name: `three-step jobs on Postgres, start to result, ${labelOf(clients)}`,
      ...{ value: middle(own, rateOf), unit: "jobs/s", ratio: rate },
      baseline: { name: theirs.name, value: middle(theirs, rateOf) },
      ...(isMany && { target: ">= 5", ok: rate >= 5 }),
    },
    {
      name: `the same, median, ${labelOf(clients)}`,
      ...{ value: middle(own, medianOf), unit: "ms", ratio: time },
      baseline: { name: theirs.name, value: middle(theirs, medianOf) },
      ...(!isMany && { target: "<= 0.7", ok: time <= 0.7 }),
    },
  ];
}

function besideEmbedded(clients: number, own: Candidate, json: Candidate): BenchRow {
  const rate = ratio(own, json, rateOf);
  return {
    name: `the same beside the embedded store, ${labelOf(clients)}`,
    ...{ value: middle(own, rateOf), unit: "jobs/s", ratio: rate },
    baseline: { name: json.name, value: middle(json, rateOf) },
    ...(clients > 1 && { target: ">= 0.5", ok: rate >= 0.5 }),
  };
}

/** What the server does for the jobs of 16 clients, and for a job of many steps. */
async function measureServer(url: string, told: unknown): Promise<BenchRow[]> {
  const before = await readCounters(url);
  const { rate } = await load(startsOf(told), { clients: 16, seconds: SECONDS / 2 });
  const jobs = difference(before, await readCounters(url));
  const count = rate * (SECONDS / 2);
  return [
    { name: "statements to a group, 16 clients", value: jobs.statements / jobs.groups, unit: "" },
    { name: "commits to a group, 16 clients", value: jobs.commits / jobs.groups, unit: "" },
    { name: "groups to a job, 16 clients", value: jobs.groups / count, unit: "" },
    { name: "WAL of a three-step job, 16 clients", value: jobs.wal / count, unit: "bytes" },
  ];
}

/** What a step costs that is one after the other. */
async function measureSteps(url: string, { told, child }: Begun): Promise<BenchRow> {
  const before = await readCounters(url);
  const done = message(child);
  await send(startOf(told, "many", STEPS), new Agent());
  await done;
  const { wal } = difference(before, await readCounters(url));
  return { name: `WAL of a step, one of ${STEPS.toLocaleString("en")}`, value: wal / STEPS, unit: "bytes" };
}

async function measureInstances(told: readonly unknown[]): Promise<BenchRow[]> {
  const starts = told.map(startsOf);
  let turn = 0;
  const one = candidate("one instance", starts[0]!);
  const three = candidate("three instances", () => starts[turn++ % starts.length]!());
  await load(three.start, { clients: 64, seconds: SECONDS / 2 });
  await measure([one, three], 64);
  const rate = ratio(three, one, rateOf);
  return [
    {
      name: "three-step jobs on three instances, 64 clients",
      ...{ value: middle(three, rateOf), unit: "jobs/s", ratio: rate },
      baseline: { name: one.name, value: middle(one, rateOf) },
      ...{ target: ">= 1.3", ok: rate >= 1.3 },
    },
  ];
}

/** The median of the ratios of the turns. */
function ratio(one: Candidate, other: Candidate, of: (one: Measured) => number): number {
  return median(one.rounds.map((round, turn) => of(round) / of(other.rounds[turn]!)));
}

function middle({ rounds }: Candidate, of: (one: Measured) => number): number {
  return median(rounds.map(of));
}

function labelOf(clients: number): string {
  return `${clients} client${clients === 1 ? "" : "s"}`;
}

function skipped(name: string): BenchRow {
  return { name, value: 0, unit: "jobs/s" };
}

function startsOf(told: unknown): Start {
  return () => startOf(told, "three", 20);
}

function startsOfDbos(told: unknown): Start {
  const url = new URL("/jobs", (told as { url: string }).url);
  return () => ({ url, headers: {}, body: { id: newJobId(), n: 20 } });
}
