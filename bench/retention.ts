import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { askService } from "./measured/ask-service.ts";
import { quarterRows } from "./retention/quarter-rows.ts";
import type { BenchRow } from "./row.ts";

/** `BENCH_JOBS` makes a quick trial. */
const JOBS = Number(process.env.BENCH_JOBS ?? 200_000);
/** Seconds that jobs are kept. */
const KEPT = 5;
const SERVICE = fileURLToPath(new URL("retention/service.mjs", import.meta.url));

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
      ...quarterRows(
        "jobs in the store",
        "",
        told.quarters.map(({ jobs }) => jobs),
      ),
      ...quarterRows(
        "heap and buffers after a collection",
        "MB",
        told.quarters.map(({ heap }) => heap / 1e6),
      ),
      ...quarterRows(
        "resident memory",
        "MB",
        told.quarters.map(({ rss }) => rss / 1e6),
      ),
      ...quarterRows(
        "folder",
        "MB",
        told.quarters.map(({ disk }) => disk / 1e6),
      ),
    ];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
