import { type ChildProcess, execFile, fork } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { bundled } from "./peers/bundled.ts";
import { message } from "./peers/message.ts";
import type { BenchRow } from "./row.ts";

/** Numbers of jobs, each with three cases. `BENCH_JOBS` makes a quick trial. */
const SMALL = 1000;
const LARGE = Number(process.env.BENCH_JOBS ?? 100_000);
const PEERS = 10_000;
const SECONDS = 1;
const ROUNDS = 7;

interface Round {
  callers: number;
  small: number;
  large: number;
  /** Lines a second of a bare file, in groups of as many as the store wrote together. */
  raw: number;
  group: number;
  /** The same in groups of as many as there are callers. */
  whole: number;
  bytes: number;
}

interface Comparison {
  insertsPerSecond: number;
  coldUpdates: number;
  rounds: Round[];
  lists: Record<string, { median: number; p99: number }>;
}

/** What a store in a separate process reports when it is filled. */
interface Filled {
  insertsPerSecond: number;
  bytes: number;
}

/** Measures the embedded store against a bare file, against others, and against itself with more entities. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "bench-store-"));
  try {
    const comparison = await compare(folder);
    const start = await measure<{ milliseconds: number; rss: number }>("start", folder, [LARGE]);
    const peers = await measure<{ rounds: Record<string, number | undefined>[] }>("peers", folder, [
      PEERS,
      SECONDS,
    ]);
    return [
      ...updateRows(comparison),
      ...listRows(comparison),
      ...startRows(start),
      ...peerRows(peers.rounds),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Rate {
  readonly perSecond: number;
}

/** Updates a small and a large store in turn, and a bare file, so that noise affects all alike. */
async function compare(folder: string): Promise<Comparison> {
  const small = await Worker.begin(folder, SMALL);
  const large = await Worker.begin(folder, LARGE);
  const rounds: Round[] = [];
  for (const callers of [1, 64]) {
    const update = { callers, seconds: SECONDS };
    for (let at = 0; at < ROUNDS; at++) {
      // They take turns in going first, so that neither always follows the bare file.
      const before = at % 2 === 0 ? undefined : await large.ask<Rate>("update", update);
      const own = await small.ask<Rate & { group: number }>("update", update);
      const group = Math.round(own.group);
      const raw = await small.ask<Rate>("raw", { group, seconds: SECONDS });
      const other = before ?? (await large.ask<Rate>("update", update));
      const whole = await small.ask<Rate>("raw", { group: callers, seconds: SECONDS });
      rounds.push({
        ...{ callers, group, bytes: small.filled.bytes },
        ...{ small: own.perSecond, large: other.perSecond, raw: raw.perSecond, whole: whole.perSecond },
      });
    }
  }
  const cold = { callers: 64, seconds: SECONDS * 3, running: LARGE };
  const { perSecond: coldUpdates } = await large.ask<Rate>("update", cold);
  const lists = await large.ask<Comparison["lists"]>("lists");
  await Promise.all([small.ask("end"), large.ask("end")]);
  return { rounds, coldUpdates, lists, insertsPerSecond: large.filled.insertsPerSecond };
}

/** A filled store in a separate process, so that none pays for the memory of another. */
class Worker {
  readonly filled: Filled;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, filled: Filled) {
    this.#child = child;
    this.filled = filled;
  }

  static async begin(folder: string, jobs: number): Promise<Worker> {
    const child = fork(await bundled("store/worker.mjs"), ["serve", folder, String(jobs)]);
    return new Worker(child, (await message(child)) as Filled);
  }

  ask<T>(measure: string, options: Record<string, number> = {}): Promise<T> {
    const answer = message(this.#child);
    this.#child.send({ measure, options });
    return answer as Promise<T>;
  }
}

function updateRows({ rounds, insertsPerSecond, coldUpdates }: Comparison): BenchRow[] {
  const rows: BenchRow[] = [];
  for (const callers of [1, 64]) {
    const own = rounds.filter((round) => round.callers === callers);
    const who = callers === 1 ? "1 caller" : `${callers} callers`;
    const bytes = Math.round(median(own.map((round) => round.bytes)));
    const group = Math.round(median(own.map((round) => round.group)));
    rows.push(
      atLeast(0.5, {
        name: `durable updates of running jobs, ${who}, ${SMALL} jobs + ${SMALL * 3} cases`,
        value: median(own.map((round) => round.small)),
        unit: "/s",
        baseline: {
          name: `append ${bytes} B + fdatasync, groups of ${group} as the store's`,
          value: median(own.map((round) => round.raw)),
        },
        ratio: median(own.map((round) => round.small / round.raw)),
      }),
      atLeast(0.8, {
        name: `durable updates of running jobs, ${who}, ${LARGE} jobs + ${LARGE * 3} cases`,
        value: median(own.map((round) => round.large)),
        unit: "/s",
        baseline: { name: `with ${SMALL} jobs`, value: median(own.map((round) => round.small)) },
        ratio: median(own.map((round) => round.large / round.small)),
      }),
    );
    if (callers === 1) continue;
    rows.push({
      name: `durable updates of running jobs, ${who}, ${SMALL} jobs + ${SMALL * 3} cases`,
      value: median(own.map((round) => round.small)),
      unit: "/s",
      baseline: {
        name: `append ${bytes} B + fdatasync, groups of ${callers}`,
        value: median(own.map((round) => round.whole)),
      },
      ratio: median(own.map((round) => round.small / round.whole)),
    });
  }
  rows.push({ name: `durable updates, 64 callers, any of ${LARGE} jobs`, value: coldUpdates, unit: "/s" });
  rows.push({ name: "inserts in transactions of 4, 64 callers", value: insertsPerSecond, unit: "/s" });
  return rows;
}

function listRows({ lists }: Comparison): BenchRow[] {
  const names: [string, string][] = [
    ["status", `page of 50 of ${LARGE} jobs by status, median`],
    ["search", `page of 50 of ${LARGE} jobs by text, median`],
    ["name", `page of 50 of ${LARGE} jobs sorted by name, median`],
    ["deep", "page of 50 behind 90,000 others, median"],
    ["jobCases", `cases of one job among ${LARGE * 3}, median`],
  ];
  return names.map(([key, name]) => {
    const row = { name, value: lists[key]!.median, unit: "ms" };
    return key === "status" ? atMost(5, row) : row;
  });
}

function startRows({ milliseconds, rss }: { milliseconds: number; rss: number }): BenchRow[] {
  const size = `${LARGE} jobs + ${LARGE * 3} cases`;
  return [
    atMost(10, { name: `start with ${size}`, value: milliseconds / 1000, unit: "s" }),
    atMost(600, { name: `resident memory with ${size}, after lists`, value: rss / 1e6, unit: "MB" }),
  ];
}

function peerRows(rounds: Record<string, number | undefined>[]): BenchRow[] {
  const own = median(rounds.map((round) => round.json!));
  const others: [string, string][] = [
    ["sqlite", "SQLite (libSQL), WAL, synchronous FULL"],
    ["lowdb", "lowdb (no sync)"],
    ["wholeFile", "whole file rewritten and synced"],
  ];
  return others.map(([key, name]): BenchRow => {
    const title = `durable updates, 1 caller, ${PEERS} jobs, against ${name}`;
    if (rounds.some((round) => round[key] === undefined)) {
      return {
        name: `${title}: SKIPPED, there is no libSQL for this machine and no SQLite in this Node`,
        value: own,
        unit: "/s",
      };
    }
    const theirs = median(rounds.map((round) => round[key]!));
    const ratio = median(rounds.map((round) => round.json! / round[key]!));
    return { name: title, value: own, unit: "/s", baseline: { name, value: theirs }, ratio };
  });
}

/** Runs one measurement in a separate process. */
async function measure<T>(command: string, folder: string, numbers: number[]): Promise<T> {
  const words = [await bundled("store/worker.mjs"), command, folder, ...numbers.map(String)];
  const { stdout } = await promisify(execFile)(process.execPath, words);
  return JSON.parse(stdout) as T;
}

function atLeast(target: number, row: BenchRow & { ratio: number }): BenchRow {
  return { ...row, target: `>= ${target}`, ok: row.ratio >= target };
}

function atMost(target: number, row: BenchRow): BenchRow {
  return { ...row, target: `<= ${target} ${row.unit}`, ok: row.value <= target };
}

function median(values: number[]): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
