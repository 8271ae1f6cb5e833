import type { AgentRegistry } from "../../agents/registry.ts";
import type { Logger } from "../../base/log.ts";
import { oneAtATime } from "../../base/one-at-a-time.ts";
import { SteadyClock } from "../../base/steady-clock.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { Hooks } from "../../entities/hooks.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Position, Store } from "../../store/store.ts";
import { NO_WAKE_TIME } from "../../store/tables.ts";

/** Jobs of one agent that are asked for together. */
const BATCH = 100;
/** Most milliseconds by which jobs are resumed before they are due: those of that time are found together. */
const LEAD = 1000;
/** Milliseconds until which jobs must be due to be read, where the index is asked each second. */
const AHEAD = 30_000;
/** Milliseconds after which the index is asked again, where a job could not be resumed. */
const AGAIN = 5000;

interface WakerParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly hooks: Hooks;
  readonly log: Logger;
  readonly clock: () => Date;
  readonly startTimer: StartTimer;
  /** A store that several share is searched again each second. */
  readonly store: Pick<Store, "isShared">;
  readonly suspendAfter?: number | undefined;
  readonly isClosed: () => boolean;
  /** Resumes a job when its turn comes; resolves then, with whether it runs. `wokenAt` is when its wait is over. */
  readonly resume: (job: StoredJob, wokenAt: number | undefined) => Promise<boolean>;
  /** Called with the agent of each job that is suspended. */
  readonly onSuspended: (agent: string) => void;
}

/**
 * Resumes suspended jobs when they are due. In memory it has only those that wait for their turn: the index of the jobs
 * tells which come next, and one timer is set for the first of them.
 */
export class Waker {
  readonly #parts: WakerParts;
  readonly #lead: number;
  /** Jobs that wait for their turn. */
  readonly #waking = new Map<string, Promise<boolean>>();
  /** Jobs of the last search that are for others, such as those of a newer version. */
  #refused = new Set<string>();
  /** Where the searches have got to behind such jobs, by agent. */
  readonly #searched = new Map<string, Position>();
  /** When the timer fires, by the service's clock. */
  #next = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};
  readonly #steady: SteadyClock;

  constructor(parts: WakerParts) {
    this.#parts = parts;
    this.#steady = new SteadyClock(parts.clock);
    this.#lead = Math.min(LEAD, (parts.suspendAfter ?? LEAD) / 2);
    parts.hooks.on("job:changed", ({ job }) => {
      if (!job.suspended) return;
      parts.onSuspended(job.agent_name);
      const { wake_at } = job.suspended;
      if (wake_at) this.#expect(Date.parse(wake_at) - this.#lead);
    });
  }

  close(): void {
    this.#stopTimer();
  }

  /** Resumes a suspended job now; resolves once its turn has come, with whether it runs. */
  wake(job: StoredJob, wokenAt?: number): Promise<boolean> {
    const { resume, isClosed, log } = this.#parts;
    const known = this.#waking.get(job.id);
    if (known) return known;
    const woken = resume(job, wokenAt)
      .catch((error: unknown) => {
        if (!isClosed()) log.error("a suspended job could not be resumed", { job_id: job.id, error });
        return false;
      })
      .finally(() => this.#waking.delete(job.id));
    this.#waking.set(job.id, woken);
    return woken;
  }

  /** Resumes a job now, if it is suspended. */
  async wakeJob(jobId: string): Promise<void> {
    const job = await this.#parts.jobs.find(jobId);
    if (job?.suspended) await this.wake(job);
  }

  /** Resumes all jobs that are due, and sets the timer for the next one. */
  look(): void {
    void this.#look();
  }

  readonly #look = oneAtATime(async () => {
    this.#stopTimer();
    this.#next = Number.POSITIVE_INFINITY;
    await this.#wakeDue().catch((error: unknown) => {
      if (this.#parts.isClosed()) return;
      this.#parts.log.error("suspended jobs could not be searched for; this is tried again", { error });
      this.#expect(this.#now() + AGAIN);
    });
  });

  async #wakeDue(): Promise<void> {
    const { agents, jobs, store, isClosed } = this.#parts;
    let next = Number.POSITIVE_INFINITY;
    const limit = BATCH + this.#waking.size;
    // A wait gets no longer where the clock was set back.
    const soon = Math.max(this.#now(), this.#steady.now()) + this.#lead + AHEAD;
    const until = store.isShared ? soon : NO_WAKE_TIME;
    const found = await Promise.all(
      agents.list().map(async ({ slug }) => {
        const where = { agent_name: slug, wake_at: { gte: 0, lt: until } };
        const query = { where, sort: "wake_at", uncounted: true };
        const first = await jobs.list({ ...query, limit, joins: "now" });
        const isBlocked = first.next && first.items.every(({ id }) => this.#refused.has(id));
        if (!isBlocked) this.#searched.delete(slug);
        if (!isBlocked) return first.items;
        // Each search reads some more, and the one after the last begins at the first.
        const after = this.#searched.get(slug) ?? first.next;
        const { items, next } = await jobs.list({ ...query, limit: BATCH, after });
        if (next) this.#searched.set(slug, next);
        else this.#searched.delete(slug);
        const known = new Set(first.items.map(({ id }) => id));
        return [...first.items, ...items.filter(({ id }) => !known.has(id))];
      }),
    );
    const refused = new Set<string>();
    for (const items of found) for (const { id } of items) if (this.#refused.has(id)) refused.add(id);
    this.#refused = refused;
    for (const items of found) {
      if (isClosed()) return;
      const due: StoredJob[] = [];
      for (const job of items) {
        // Asked once: the clock runs, and no job may be neither due nor expected.
        const left = this.#timeLeft(job);
        if (left > 0) next = Math.min(next, left);
        else if (!this.#waking.has(job.id)) due.push(job);
      }
      this.#wakeAll(due);
    }
    // Those that are due a little later are found together.
    if (Number.isFinite(next)) this.#expect(this.#now() + Math.max(next, this.#lead / 2));
  }

  /** Resumes these, and once half of them run, asks for more. */
  #wakeAll(due: readonly StoredJob[]): void {
    let left = due.length;
    const settled = (id: string, isRunning: boolean): void => {
      left--;
      if (isRunning) this.#refused.delete(id);
      else this.#refused.add(id);
      if (!isRunning) this.#expect(this.#now() + AGAIN);
      else if (left === Math.floor(due.length / 2) && due.length >= BATCH / 2) this.look();
    };
    for (const job of due) {
      const { wake_at, reached } = job.suspended!;
      const time = reached ?? (this.#isOfLaterClock(job) ? wake_at : undefined);
      const wokenAt = time ? Date.parse(time) : undefined;
      void this.wake(job, wokenAt).then((isRunning) => settled(job.id, isRunning));
    }
  }

  /** Milliseconds until a job is to be resumed. */
  #timeLeft(job: StoredJob): number {
    const now = this.#isOfLaterClock(job) ? this.#steady.now() : this.#now();
    return Date.parse(job.suspended!.wake_at!) - this.#lead - now;
  }

  /** Whether the clock was set back since the job was suspended: its wait gets no longer by that. */
  #isOfLaterClock({ suspended }: StoredJob): boolean {
    return Date.parse(suspended!.at) > this.#now();
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }

  /** Something is due at a time of the clock. */
  #expect(at: number): void {
    if (at >= this.#next || this.#parts.isClosed()) return;
    const { startTimer } = this.#parts;
    this.#stopTimer();
    this.#next = at;
    this.#stopTimer = startTimer(Math.max(at - this.#now(), 0), () => this.look());
  }
}
