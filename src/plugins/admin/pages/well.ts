import type { Jobs } from "../../../core/entities/jobs.ts";
import { readSpendingSince, sumSpending } from "../../../core/entities/spending.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { Store } from "../../../core/store/store.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { DashboardSchema } from "../answers/entities.ts";
import { readFailures } from "../failures/read-failures.ts";
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

/** What follows "last" in a sentence: "hour", not "1 hour". */
export const lastOf = (range: RangeName): string => RANGES[range].label.replace(/^1 /, "");

/** With more completed jobs, the times that they took are counted by two digits of them. */
const EXACT = 5000;

/** Reasons of failures that are shown. */
const REASONS = 6;

/** Whether the service does well, over a time. */
export type Wellbeing = AnswerOf<typeof DashboardSchema>["well"];

/** What a caller sees, where that is a part. */
export interface Part {
  readonly jobs: Jobs;
  /** The same for all who see the same. */
  readonly who: string;
}

/** Callers who see different parts, for whom figures are kept. */
const CALLERS = 200;

/** Reads it at most once within `stale` for each time and each part that somebody sees, however many pages are open. */
export class Wellness {
  readonly #jobs: Jobs;
  readonly #store: Store;
  readonly #hub: Pick<LiveHub, "tickOf" | "refresh">;
  readonly #clock: () => Date;
  readonly #known = new Map<string, { at: number; tick: number; reading: Promise<unknown> }>();
  /** By who sees the figures; empty for who sees everything. */
  readonly #timers = new Map<string, NodeJS.Timeout>();

  constructor(
    { jobs, store }: { readonly jobs: Jobs; readonly store: Store },
    hub: Pick<LiveHub, "tickOf" | "refresh">,
    clock: () => Date,
  ) {
    this.#jobs = jobs;
    this.#store = store;
    this.#hub = hub;
    this.#clock = clock;
  }

  /** The figures of all jobs, or of the part that a caller sees. */
  read(range: RangeName, part?: Part): Promise<Wellbeing> {
    return this.keep(range, RANGES[range].stale, part?.who, (now) =>
      readWellbeing(part?.jobs ?? this.#jobs, range, now, part ? undefined : this.#store),
    );
  }

  /** Reads something else that is costly at most once within a time, milliseconds, for all who see the same. */
  keep<T>(what: string, stale: number, who = "", read: (now: number) => Promise<T>): Promise<T> {
    const now = this.#clock().getTime();
    const key = JSON.stringify([what, who]);
    const known = this.#known.get(key);
    if (known && now >= known.at && now - known.at < stale) {
      if (known.tick !== this.#hub.tickOf(who)) this.#readAgain(who, known.at + stale - now);
      return known.reading as Promise<T>;
    }
    if (this.#known.size >= CALLERS * (Object.keys(RANGES).length + 1)) this.#known.clear();
    const reading = read(now);
    this.#known.set(key, { at: now, tick: this.#hub.tickOf(who), reading });
    reading.catch(() => this.#known.delete(key));
    return reading;
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
  }

  /** The last change before it becomes quiet is shown, too. */
  #readAgain(who: string, wait: number): void {
    if (this.#timers.has(who)) return;
    const timer = setTimeout(() => {
      this.#timers.delete(who);
      this.#hub.refresh(who);
    }, wait + 1);
    this.#timers.set(who, timer.unref());
  }
}

async function readWellbeing(
  jobs: Jobs,
  range: RangeName,
  now: number,
  store: Store | undefined,
): Promise<Wellbeing> {
  const { length, step, days } = RANGES[range];
  const since = now - length;
  const ended = { finished_at: { gte: since } };
  const completed = { ...ended, status: "completed" };
  // Together, as a store may read all of it in one statement.
  const [counts, failures, costs, columns] = await Promise.all([
    jobs.countBy("status", { where: ended, joins: "now" }),
    readFailures({ jobs }, { since, limit: REASONS }),
    readCosts(jobs, now, days, store),
    readColumns(jobs, startsOf(now, RANGES[range]), step),
  ]);
  const total = counts.completed ?? 0;
  const places = [0.5, 0.95].map((share) => Math.ceil(total * share) - 1);
  const [p50, p95] =
    total > EXACT
      ? atPlaces(await jobs.countBy("duration", { where: completed }), places)
      : await Promise.all(places.map((place) => durationAt(jobs, completed, place)));
  return {
    range,
    ...{ completed: total, failed: counts.failed ?? 0, p50: p50!, p95: p95!, columns },
    failures: failures.items,
    costs,
  };
}

/** The values at some places of a row of sorted numbers, of which it is known how often each value occurs. */
function atPlaces(counts: Readonly<Record<string, number>>, places: readonly number[]): (number | null)[] {
  const sorted = Object.entries(counts)
    .map(([value, count]) => ({ value: Number(value), count }))
    .sort((a, b) => a.value - b.value);
  return places.map((place) => {
    let left = place;
    for (const { value, count } of sorted) {
      if (left < count) return value;
      left -= count;
    }
    return sorted.at(-1)?.value ?? null;
  });
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

/** When the columns of a time start: as many at every moment, the last one with what happens now. */
export function startsOf(
  now: number,
  { length, step }: { readonly length: number; readonly step: number },
): number[] {
  const last = Math.floor(now / step) * step;
  const count = length / step;
  return Array.from({ length: count }, (_, at) => last - (count - 1 - at) * step);
}

async function readColumns(
  jobs: Jobs,
  starts: readonly number[],
  step: number,
): Promise<Wellbeing["columns"]> {
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

/** Of whom sees a part: what the jobs have cost that were created on these days, as sums are kept of agents only. */
async function readCosts(
  jobs: Jobs,
  now: number,
  days: number,
  store: Store | undefined,
): Promise<Wellbeing["costs"]> {
  const first = Math.floor(now / DAY) * DAY - (days - 1) * DAY;
  const query = { where: { created_at: { gte: first } }, joins: "now" } as const;
  const [costs, counts] = await Promise.all([
    store ? spentSince(store, first) : jobs.costBy("agent_name", query),
    jobs.countBy("agent_name", query),
  ]);
  return Object.entries(costs)
    .map(([agent, cost]) => ({ agent, cost, jobs: counts[agent] ?? 0 }))
    .sort((a, b) => b.cost - a.cost || (a.agent < b.agent ? -1 : 1));
}

/** What agents have spent since a day, by agent. */
async function spentSince(store: Store, first: number): Promise<Record<string, number>> {
  const spent = await readSpendingSince(store, new Date(first).toISOString().slice(0, 10));
  const agents = [...new Set(spent.map(({ agent }) => agent))];
  return Object.fromEntries(
    agents.map((agent) => [agent, sumSpending(spent.filter((one) => one.agent === agent))]),
  );
}
