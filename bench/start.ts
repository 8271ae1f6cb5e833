import { execFile } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { bundled } from "./peers/bundled.ts";
import type { BenchRow } from "./row.ts";

/** Number of jobs, each with three cases; short bodies make room for more. A folder given with `SVC_BENCH_START_FOLDER` is kept. */
const JOBS = Number(process.env.SVC_BENCH_START_JOBS ?? 100_000);
/** From so many jobs on. */
const LARGE = 200_000;
const FOLDER = process.env.SVC_BENCH_START_FOLDER;
const ROUNDS = 5;

interface Started {
  readonly milliseconds: number;
  readonly cpu: number;
  readonly rss: number;
  readonly lists: Readonly<Record<string, number>>;
}

/** The start of a store with many entities, with a checkpoint and without, and the lists after it. */
export function run(): Promise<BenchRow[]> {
  return measureStart(JOBS);
}

/** The same with another number of jobs. */
export async function measureStart(jobs: number): Promise<BenchRow[]> {
  const folder = FOLDER ?? mkdtempSync(join(tmpdir(), "bench-start-"));
  try {
    if (!readdirSync(folder).includes("MANIFEST.json"))
      await worker("fill", folder, [jobs, Number(jobs > LARGE)]);
    // Without a checkpoint: it may be removed at any time.
    for (const name of readdirSync(folder)) if (name.startsWith("checkpoint.")) rmSync(join(folder, name));
    const without = await worker<Started>("start", folder, [1]);
    await worker("settle", folder, []);
    const started: Started[] = [];
    for (let round = 0; round < ROUNDS; round++) started.push(await worker<Started>("start", folder, [25]));
    return rowsOf(jobs, started, without);
  } finally {
    if (FOLDER === undefined) rmSync(folder, { recursive: true, force: true });
  }
}

function rowsOf(jobs: number, started: readonly Started[], without: Started): BenchRow[] {
  const size = `${jobs} jobs + ${jobs * 3} cases`;
  const of = (pick: (one: Started) => number) => median(started.map(pick));
  const most = (target: number, row: BenchRow): BenchRow => ({
    ...row,
    target: `<= ${target} ${row.unit}`,
    ok: row.value <= target,
  });
  const isLarge = jobs > LARGE;
  const list = (name: string, key: string, target?: number): BenchRow => {
    const row = { name: `${name}, ${jobs} jobs`, value: of(({ lists }) => lists[key]!), unit: "ms" };
    return target === undefined || isLarge ? row : most(target, row);
  };
  return [
    most(isLarge ? 10 : 1.5, {
      name: `start with ${size}`,
      value: of((one) => one.milliseconds) / 1000,
      unit: "s",
    }),
    { name: "processor time of it", value: of(({ cpu }) => cpu) / 1000, unit: "s" },
    most(isLarge ? 1200 : 200, {
      name: "resident memory after it",
      value: of(({ rss }) => rss) / 1e6,
      unit: "MB",
    }),
    { name: "start without a checkpoint", value: without.milliseconds / 1000, unit: "s" },
    { name: "processor time of it", value: without.cpu / 1000, unit: "s" },
    list("page of 50 by cursor, in the middle", "deep", 2),
    list("page of 50 by status and agent", "status", 5),
    list("page of 50 by text", "search", 5),
    list("page of 50 by a text that all have", "common", 5),
    list("page of 50 by error", "error", 5),
    list("failures by reason", "failures", 5),
    list("page of 50 cases by text", "cases"),
  ];
}

async function worker<T>(command: string, folder: string, numbers: readonly number[]): Promise<T> {
  const words = [await bundled("start/worker.mjs"), command, folder, ...numbers.map(String)];
  const { stdout } = await promisify(execFile)(process.execPath, words);
  return JSON.parse(stdout) as T;
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
