import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { askService } from "./measured/ask-service.ts";
import type { BenchRow } from "./row.ts";

/** `BENCH_JOBS` makes a quick trial. */
const JOBS = Number(process.env.BENCH_JOBS ?? 200_000);
/** Seconds that jobs are kept. */
const KEPT = 5;
const SERVICE = fileURLToPath(new URL("retention/service.mjs", import.meta.url));
/** The largest ratio of the last quarter to the second: in the first, not everything has been used yet. */
const FLAT = 1.15;

interface Quarter {
  readonly heap: number;
  readonly rss: number;
  readonly disk: number;
  readonly jobs: number;
}

interface Told {
  readonly quarters: readonly Quarter[];
  readonly rate: number;
  readonly removed: number;
}

/** Memory and disk of a service that is never idle and keeps its jobs for some seconds. */
export async function run(): Promise<BenchRow[]> {
  const folder = mkdtempSync(join(tmpdir(), "bench-retention-"));
  try {
    const told = await askService<Told>(SERVICE, [folder, String(JOBS), String(KEPT)]);
    return [
      {
        name: `jobs with one case and one step, kept for ${KEPT} s, of ${JOBS}`,
        value: told.rate,
        unit: "/s",
      },
      { name: "of them removed by the end", value: told.removed, unit: "jobs" },
      ...quarterRows("jobs in the store", "", told.quarters, ({ jobs }) => jobs),
      ...quarterRows("heap and buffers after a collection", "MB", told.quarters, ({ heap }) => heap / 1e6),
      ...quarterRows("resident memory", "MB", told.quarters, ({ rss }) => rss / 1e6),
      ...quarterRows("folder", "MB", told.quarters, ({ disk }) => disk / 1e6),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function quarterRows(
  what: string,
  unit: string,
  quarters: readonly Quarter[],
  of: (quarter: Quarter) => number,
): BenchRow[] {
  const values = quarters.map(of);
  const second = values[1]!;
  return values.map((value, at): BenchRow => {
    const row = { name: `${what}, mean of quarter ${at + 1}`, value, unit };
    if (at < values.length - 1 || unit === "") return row;
    const ratio = value / second;
    const baseline = { name: "quarter 2", value: second };
    return { ...row, baseline, ratio, target: `<= ${FLAT}`, ok: ratio <= FLAT };
  });
}
