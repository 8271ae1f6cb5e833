import type { Jobs } from "../../../core/entities/jobs.ts";
import { readSpendingSince, sumSpending } from "../../../core/entities/spending.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { Store } from "../../../core/store/store.ts";
import { type FailureGroup, readFailures } from "../failures/read-failures.ts";
import type { LiveHub } from "../live/hub.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * Times that the dashboard can show: the days whose cost it shows with them, UTC, their length, that of a column of its chart, and how long figures are kept, as a
 * dashboard that is open while jobs run asks each second; milliseconds.
 */
export const RANGES = {
  "1h": { label: "1 hour", days: 1, costs: "today", length: HOUR, step: 5 * MINUTE, stale: 10_000 },
  "24h": { label: "24 hours", days: 1, costs: "today", length: DAY, step: HOUR, stale: 10_000 },
  "7d": { label: "7 days", days: 7, costs: "7 days", length: 7 * DAY, step: 6 * HOUR, stale: MINUTE },
  "30d": { label: "30 days", days: 30, costs: "30 days", length: 30 * DAY, step: DAY, stale: MINUTE },
} as const;
export type RangeName = keyof typeof RANGES;

/** Reasons of failures that are shown. */
const REASONS = 6;

/** Whether the service does well, over a time. */
export interface Wellbeing {
  readonly range: RangeName;
  /** Jobs that ended in it. */
  readonly completed: number;
  readonly failed: number;
  /** Milliseconds that half of the completed jobs took at most, and 95 of 100; `null` where none was completed. */
  readonly p50: number | null;
  readonly p95: number | null;
  /** Jobs by when they were created, oldest first. */
  readonly columns: readonly {
    readonly from: number;
    readonly counts: Readonly<Record<"completed" | "failed" | "cancelled" | "running", number>>;
  }[];
  /** Why jobs failed in it, the most frequent reasons first. */
  readonly failures: readonly FailureGroup[];
  /** What agents have spent on the days of it, UTC, the dearest first; with the number of jobs of these days. */
  readonly costs: readonly { readonly agent: string; readonly cost: number; readonly jobs: number }[];
}

/** Reads it at most once within `stale` for each time, however many pages are open. */
export class Wellness {
  readonly #jobs: Jobs;
  readonly #store: Store;
  readonly #hub: Pick<LiveHub, "tick" | "refresh">;
  readonly #clock: () => Date;
  readonly #known = new Map<RangeName, { at: number; tick: number; reading: Promise<Wellbeing> }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(
    { jobs, store }: { readonly jobs: Jobs; readonly store: Store },
    hub: Pick<LiveHub, "tick" | "refresh">,
    clock: () => Date,
  ) {
    this.#jobs = jobs;
    this.#store = store;
    this.#hub = hub;
    this.#clock = clock;
  }

  read(range: RangeName): Promise<Wellbeing> {
    const now = this.#clock().getTime();
    const known = this.#known.get(range);
    const { stale } = RANGES[range];
    if (known && now >= known.at && now - known.at < stale) {
      if (known.tick !== this.#hub.tick) this.#readAgain(known.at + stale - now);
      return known.reading;
    }
    const reading = readWellbeing({ jobs: this.#jobs, store: this.#store }, range, now);
    this.#known.set(range, { at: now, tick: this.#hub.tick, reading });
    reading.catch(() => this.#known.delete(range));
    return reading;
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  /** The last change before it becomes quiet is shown, too. */
  #readAgain(wait: number): void {
    if (this.#timer) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#hub.refresh();
    }, wait + 1);
    this.#timer.unref();
  }
}

async function readWellbeing(
  { jobs, store }: { readonly jobs: Jobs; readonly store: Store },
  range: RangeName,
  now: number,
): Promise<Wellbeing> {
  const { length, step, days } = RANGES[range];
  const since = now - length;
  const ended = { finished_at: { gte: since } };
  const completed = { ...ended, status: "completed" };
  // Together, as a store may read all of it in one statement.
  const [counts, failures, costs, columns] = await Promise.all([
    jobs.countBy("status", { where: ended, joins: "now" }),
    readFailures({ jobs }, { since, limit: REASONS }),
    readCosts({ jobs, store }, now, days),
    readColumns(jobs, { from: Math.floor(since / step) * step + step, to: now, step }),
  ]);
  const total = counts.completed ?? 0;
  const [p50, p95] = await Promise.all(
    [0.5, 0.95].map((share) => durationAt(jobs, completed, Math.ceil(total * share) - 1)),
  );
  return {
    range,
    ...{ completed: total, failed: counts.failed ?? 0, p50: p50!, p95: p95!, columns },
    failures: failures.items,
    costs,
  };
}

/** How long the job took that so many were quicker than. */
async function durationAt(jobs: Jobs, where: object, place: number): Promise<number | null> {
  if (place < 0) return null;
  const [id] = await jobs.ids({ where: { ...where }, sort: "duration", skip: place, limit: 1 });
  const job = id === undefined ? undefined : await jobs.find(id);
  return job ? durationOf(job) : null;
}

function durationOf({ created_at, finished_at }: StoredJob): number | null {
  return finished_at === null ? null : Date.parse(finished_at) - Date.parse(created_at);
}

async function readColumns(
  jobs: Jobs,
  { from, to, step }: { readonly from: number; readonly to: number; readonly step: number },
): Promise<Wellbeing["columns"]> {
  const starts = Array.from({ length: Math.ceil((to - from) / step) }, (_, at) => from + at * step);
  return Promise.all(
    starts.map(async (start) => {
      const where = { created_at: { gte: start, lt: start + step } };
      const by = await jobs.countBy("status", { where, joins: "now" });
      const { completed = 0, failed = 0, cancelled = 0 } = by;
      const all = Object.values(by).reduce((sum, count) => sum + count, 0);
      const running = all - completed - failed - cancelled;
      return { from: start, counts: { completed, failed, cancelled, running } };
    }),
  );
}

async function readCosts(
  { jobs, store }: { readonly jobs: Jobs; readonly store: Store },
  now: number,
  days: number,
): Promise<Wellbeing["costs"]> {
  const first = Math.floor(now / DAY) * DAY - (days - 1) * DAY;
  const [spent, counts] = await Promise.all([
    readSpendingSince(store, new Date(first).toISOString().slice(0, 10)),
    jobs.countBy("agent_name", { where: { created_at: { gte: first } }, joins: "now" }),
  ]);
  return [...new Set(spent.map(({ agent }) => agent))]
    .map((agent) => ({
      agent,
      cost: sumSpending(spent.filter((one) => one.agent === agent)),
      jobs: counts[agent] ?? 0,
    }))
    .sort((a, b) => b.cost - a.cost || (a.agent < b.agent ? -1 : 1));
}
