import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { askService } from "./measured/ask-service.ts";
import type { BenchRow } from "./row.ts";

/** `BENCH_JOBS` makes a quick trial. */
const JOBS = Number(process.env.BENCH_JOBS ?? 100_000);
/** Jobs that are kept in memory, to compare. */
const KEPT = Math.ceil(JOBS / 10);
const SERVICE = fileURLToPath(new URL("sleepers/service.mjs", import.meta.url));
/** Starts of each kind; the median counts. */
const STARTS = 5;

interface Start {
  /** Milliseconds until the service answers, and until it has nothing left to do. */
  readonly ready: number;
  readonly quiet: number;
  /** Entities and log entries that were read. */
  readonly reads: number;
  /** Bytes in use after a collection, and of the whole process. */
  readonly heap: number;
  readonly rss: number;
  readonly suspended: number;
  readonly completed: number;
  /** Milliseconds until all jobs that it started slept, and until the others had completed. */
  readonly untilAsleep: number;
  readonly untilDone: number;
}

/** What jobs that sleep for days cost while they sleep, and at a start; also beside as many that have completed. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "bench-sleepers-"));
  const [empty, asleep, beside, awake] = ["empty", "asleep", "beside", "awake"].map((name) =>
    join(folder, name),
  ) as [string, string, string, string];
  try {
    await serve(empty);
    const fill = await serve(asleep, { asleep: JOBS });
    cpSync(asleep, beside, { recursive: true });
    const both = await serve(beside, { done: JOBS });
    for (const { suspended } of [fill, both])
      if (suspended !== JOBS) throw new Error(`${suspended} jobs are suspended`);
    if (both.completed !== JOBS) throw new Error(`${both.completed} jobs have completed`);
    await serve(awake, { asleep: KEPT, mode: "keep" });
    const starts: Start[][] = [[], [], [], []];
    for (let n = 0; n < STARTS; n++) {
      starts[0]!.push(await serve(empty));
      starts[1]!.push(await serve(asleep));
      starts[2]!.push(await serve(beside));
      if (n === 0) starts[3]!.push(await serve(awake, { mode: "keep" }));
    }
    const [none, many, more, kept] = starts.map(medianOf) as [Start, Start, Start, Start];
    const count = JOBS.toLocaleString("en");
    const baseline = (value: number) => ({ baseline: { name: "empty", value } });
    const perJob = (start: Start, jobs: number) => (start.heap - none.heap) / jobs;
    const startRow = (what: string, { ready }: Start): BenchRow => ({
      name: `start with ${what}`,
      value: ready,
      unit: "ms",
      ...baseline(none.ready),
    });
    const readsRow = (what: string, { reads }: Start): BenchRow => ({
      name: `entities and log lines read at that start${what}`,
      value: reads,
      unit: "",
      ...baseline(none.reads),
      // Those that are due next are read to set the timer.
      target: "<= 200",
      ok: reads <= 200,
    });
    return [
      { name: `${count} jobs started, until all are suspended`, value: fill.untilAsleep / 1000, unit: "s" },
      {
        name: `${count} jobs started beside them, until all have completed`,
        value: both.untilDone / 1000,
        unit: "s",
      },
      { name: `memory of one of ${count} suspended jobs`, value: perJob(many, JOBS), unit: "bytes" },
      {
        name: "memory of one completed job beside them",
        value: (more.heap - many.heap) / JOBS,
        unit: "bytes",
      },
      {
        name: `resident memory with ${count} suspended and ${count} completed jobs`,
        value: more.rss / 1e6,
        unit: "MB",
        baseline: { name: "empty", value: none.rss / 1e6 },
      },
      {
        name: `memory of one of ${KEPT.toLocaleString("en")} sleeping jobs kept in memory`,
        value: perJob(kept, KEPT),
        unit: "bytes",
      },
      startRow(`${count} suspended jobs`, many),
      readsRow("", many),
      startRow(`${count} suspended and ${count} completed jobs`, more),
      readsRow(", beside completed ones", more),
      {
        name: `start with ${KEPT.toLocaleString("en")} jobs kept in memory, until all sleep`,
        value: kept.quiet,
        unit: "ms",
        ...baseline(none.quiet),
      },
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Filling {
  /** Jobs that it starts which sleep for days. @default 0 */
  readonly asleep?: number;
  /** Jobs that it starts which complete. @default 0 */
  readonly done?: number;
  /** @default "suspend" */
  readonly mode?: "suspend" | "keep";
}

function serve(dataDir: string, { asleep = 0, done = 0, mode = "suspend" }: Filling = {}): Promise<Start> {
  return askService<Start>(SERVICE, [dataDir, String(asleep), String(done), mode]);
}

function medianOf(starts: readonly Start[]): Start {
  const of = (key: keyof Start) =>
    starts.map((start) => start[key]).sort((a, b) => a - b)[starts.length >> 1]!;
  const keys = Object.keys(starts[0]!) as (keyof Start)[];
  return Object.fromEntries(keys.map((key) => [key, of(key)])) as unknown as Start;
}
