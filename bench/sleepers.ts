import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { message } from "./peers/message.ts";
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
  /** Bytes in use after a collection. */
  readonly heap: number;
  readonly suspended: number;
}

/** What jobs that sleep for days cost while they sleep, and at a start. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "bench-sleepers-"));
  const [empty, asleep, awake] = ["empty", "asleep", "awake"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  try {
    await serve(empty, 0, "suspend");
    const { suspended } = await serve(asleep, JOBS, "suspend");
    if (suspended !== JOBS) throw new Error(`${suspended} jobs are suspended`);
    await serve(awake, KEPT, "keep");
    const starts: Start[][] = [[], [], []];
    for (let n = 0; n < STARTS; n++) {
      starts[0]!.push(await serve(empty, 0, "suspend"));
      starts[1]!.push(await serve(asleep, 0, "suspend"));
      if (n === 0) starts[2]!.push(await serve(awake, 0, "keep"));
    }
    const [none, many, kept] = starts.map(medianOf) as [Start, Start, Start];
    const count = JOBS.toLocaleString("en");
    const baseline = (value: number) => ({ baseline: { name: "empty", value } });
    const perJob = (start: Start, jobs: number) => (start.heap - none.heap) / jobs;
    return [
      { name: `memory of one of ${count} suspended jobs`, value: perJob(many, JOBS), unit: "bytes" },
      {
        name: `memory of one of ${KEPT.toLocaleString("en")} sleeping jobs kept in memory`,
        value: perJob(kept, KEPT),
        unit: "bytes",
      },
      {
        name: `start with ${count} suspended jobs`,
        value: many.ready,
        unit: "ms",
        ...baseline(none.ready),
      },
      {
        name: "entities and log lines read at that start",
        value: many.reads,
        unit: "",
        ...baseline(none.reads),
        // Those that are due next are read to set the timer.
        target: "<= 200",
        ok: many.reads <= 200,
      },
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

async function serve(dataDir: string, jobs: number, mode: "suspend" | "keep"): Promise<Start> {
  const child = fork(SERVICE, [dataDir, String(jobs), mode], { execArgv: ["--expose-gc"] });
  try {
    const start = (await message(child)) as Start;
    const ended = once(child, "exit");
    child.send("close");
    await ended;
    return start;
  } finally {
    child.kill();
  }
}

function medianOf(starts: readonly Start[]): Start {
  const of = (key: keyof Start) =>
    starts.map((start) => start[key]).sort((a, b) => a - b)[starts.length >> 1]!;
  const keys = ["ready", "quiet", "reads", "heap", "suspended"] as const;
  return Object.fromEntries(keys.map((key) => [key, of(key)])) as unknown as Start;
}
