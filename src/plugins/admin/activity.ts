import type { HookListener } from "../../core/entities/hooks.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import { type EntityStatus, FAILED, RUNNING } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";

const HOUR = 3_600_000;
const HOURS = 24;
/** Milliseconds after which figures are computed again, where other instances change them too. */
const STALE = 5000;

export type Outcome = "completed" | "failed" | "running";

export interface ActivityView {
  /** Jobs by the hour in which they were created, oldest hour first. */
  readonly hours: readonly { readonly from: number; readonly counts: Readonly<Record<Outcome, number>> }[];
}

/**
 * Figures that no index has, updated by events: they are computed once, at first use, so that an open
 * dashboard does not compute them again every second.
 */
export class Activity {
  readonly #jobs: Jobs;
  readonly #clock: () => Date;
  readonly #stop: (() => void)[];
  readonly #hours = new Map<number, Record<Outcome, number>>();
  #counting: Promise<void> | undefined;
  #counted = false;
  /** When the current count began, milliseconds since the epoch. */
  #countedAt = 0;
  readonly #isShared: boolean;

  /** `isShared`: the hooks report only a part of what changes. */
  constructor(jobs: Jobs, hooks: HookListener, clock: () => Date, { isShared = false } = {}) {
    this.#jobs = jobs;
    this.#isShared = isShared;
    this.#clock = clock;
    this.#stop = [
      hooks.on("job:created", ({ job }) => this.#count(job, 1)),
      hooks.on("job:deleted", ({ job }) => this.#count(job, -1)),
      hooks.on("job:restored", ({ job }) => this.#count(job, 1)),
      hooks.on("job:changed", ({ job, previous }) => {
        if (outcomeOf(job.status) !== outcomeOf(previous.status)) {
          this.#count(previous, -1);
          this.#count(job, 1);
        }
      }),
    ];
  }

  async read(): Promise<ActivityView> {
    const begun = this.#clock().getTime();
    if (this.#isShared && this.#counted && begun - this.#countedAt > STALE) {
      this.#counting = undefined;
    }
    if (!this.#counting) this.#countedAt = begun;
    this.#counting ??= this.#countAll();
    await this.#counting;
    const now = this.#clock().getTime();
    const last = hourOf(now);
    const hours = Array.from({ length: HOURS }, (_, back) => last - (HOURS - 1 - back) * HOUR);
    for (const from of this.#hours.keys()) if (from < hours[0]!) this.#hours.delete(from);
    return {
      hours: hours.map((from) => ({ from, counts: this.#hours.get(from) ?? none() })),
    };
  }

  close(): void {
    for (const stop of this.#stop) stop();
  }

  #count(job: StoredJob, by: number): void {
    if (!this.#counting || this.#isShared) return;
    const from = hourOf(Date.parse(job.created_at));
    // While the hours are being counted, a change is added to the counted ones; the others will still include
    // it.
    if (!this.#hours.has(from) && !this.#counted) return;
    if (from < hourOf(this.#clock().getTime()) - HOURS * HOUR) return;
    const counts = this.#hours.get(from) ?? none();
    counts[outcomeOf(job.status)] += by;
    this.#hours.set(from, counts);
  }

  async #countAll(): Promise<void> {
    const now = this.#clock().getTime();
    const last = hourOf(now);
    for (let back = 0; back < HOURS; back++) {
      const from = last - back * HOUR;
      const created_at = { gte: from, lt: from + HOUR };
      const totals = await Promise.all(
        OUTCOMES.map(async ([outcome, statuses]) => {
          const { total } = await this.#jobs.list({ where: { created_at, status: statuses }, limit: 0 });
          return [outcome, total] as const;
        }),
      );
      this.#hours.set(from, { ...none(), ...Object.fromEntries(totals) });
    }
    this.#counted = true;
  }
}

const OUTCOMES: readonly (readonly [Outcome, readonly EntityStatus[]])[] = [
  ["completed", ["completed"]],
  ["failed", FAILED],
  ["running", [...RUNNING, "stopped"]],
];

function outcomeOf(status: EntityStatus): Outcome {
  if (status === "completed") return "completed";
  return FAILED.includes(status) ? "failed" : "running";
}

function none(): Record<Outcome, number> {
  return { completed: 0, failed: 0, running: 0 };
}

function hourOf(time: number): number {
  return Math.floor(time / HOUR) * HOUR;
}
