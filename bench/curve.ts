import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { install } from "./peers/install.ts";
import { message } from "./peers/message.ts";
import { beginPostgres } from "./peers/postgres.ts";
import type { BenchRow } from "./row.ts";
import { median } from "./runs/load.ts";

const STEPS = Number(process.env.SVC_BENCH_STEPS ?? 10_000);
const TURNS = Number(process.env.SVC_BENCH_TURNS ?? 3);
const DBOS = "@dbos-inc/dbos-sdk@5.3.0";
const WORKFLOW = "workflow@4.8.9";
/** Milliseconds that a job of `workflow` gets: each of its steps replays those before it. */
const PATIENCE = Number(process.env.SVC_BENCH_PATIENCE ?? 90_000);
/** Steps of a job, by their numbers. */
const RANGES = [
  [1, 10],
  [11, 100],
  [101, 1000],
  [1001, 10_000],
] as const;

/** When the function of each step of one job was called, in milliseconds. */
type Measure = () => Promise<number[]>;
interface Measured {
  readonly name: string;
  readonly jobs: number[][];
}

/** What a step of a long job costs, by how many the job has had: beside DBOS on Postgres, and `workflow`'s local world. */
export async function run(): Promise<BenchRow[]> {
  const ours = { name: "here", jobs: [] as number[][] };
  const dbos = { name: "DBOS, Postgres", jobs: [] as number[][] };
  const workflow = { name: "workflow, local world", jobs: [] as number[][] };
  await using postgres = await beginPostgres();
  await using sdk = postgres && (await install(DBOS));
  await using local = await install(WORKFLOW);
  const all: [Measured, Measure][] = [[ours, () => measure("ours", STEPS)]];
  if (postgres && sdk) all.push([dbos, () => measure("dbos", sdk.folder, postgres.url, STEPS)]);
  // In turns, forth and back, so that what else the machine does weighs on all.
  for (let turn = 0; turn < TURNS; turn++)
    for (const [{ jobs }, job] of turn % 2 === 0 ? all : all.toReversed()) jobs.push(await job());
  if (local) workflow.jobs.push(await measure("workflow", local.folder, STEPS, PATIENCE));

  const rows: BenchRow[] = [];
  for (const range of RANGES) {
    const value = latency(ours, range);
    if (value === undefined) continue;
    rows.push({ name: labelOf(range), value, unit: "µs" });
    for (const peer of [dbos, workflow]) rows.push(...compare(range, value, peer));
  }
  if (!postgres) rows.push(skipped(dbos, "this machine has no Postgres"));
  else if (!sdk) rows.push(skipped(dbos, `${DBOS} could not be installed`));
  if (!local) rows.push(skipped(workflow, `${WORKFLOW} could not be installed`));
  return rows;
}

function compare(range: readonly [number, number], value: number, peer: Measured): BenchRow[] {
  const theirs = latency(peer, range);
  if (theirs === undefined) return [];
  const reached = Math.min(range[1], peer.jobs[0]!.length);
  const name = `the same${reached < range[1] ? `, up to number ${reached.toLocaleString("en")}` : ""}`;
  return [{ name, value, unit: "µs", baseline: { name: peer.name, value: theirs }, ratio: theirs / value }];
}

/** Microseconds from the function of one step to that of the next, median; `undefined` where no job got so far. */
function latency({ jobs }: Measured, [from, to]: readonly [number, number]): number | undefined {
  const gaps = jobs.flatMap((times) =>
    times.slice(from, to).map((time, at) => (time - times[from + at - 1]!) * 1000),
  );
  return gaps.length === 0 ? undefined : median(gaps);
}

function labelOf([from, to]: readonly [number, number]): string {
  return `a step, number ${from.toLocaleString("en")} to ${to.toLocaleString("en")} of its job`;
}

function skipped({ name }: Measured, why: string): BenchRow {
  return { name: `${name}: skipped, ${why}`, value: 0, unit: "µs" };
}

async function measure(name: string, ...args: readonly (string | number)[]): Promise<number[]> {
  const path = fileURLToPath(new URL(`curve/${name}.mjs`, import.meta.url));
  const env = { ...process.env, SERVICE_BUILD: "bench", NODE_NO_WARNINGS: "1" };
  const child = fork(path, args.map(String), { stdio: ["ignore", "ignore", "inherit", "ipc"], env });
  const gone = once(child, "exit");
  const times = (await message(child)) as number[];
  await gone;
  return times;
}
