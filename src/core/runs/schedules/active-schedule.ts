import { randomUUID } from "node:crypto";
import type { Actor } from "../../audit/caller.ts";
import { delays } from "../../base/backoff.ts";
import { messageOf } from "../../base/error-text.ts";
import { isServiceError } from "../../base/errors.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Schedule, ScheduleState } from "../../models/schedule.ts";
import { laterOf } from "../../store/timestamp.ts";
import { stopJob } from "../operate/steer.ts";
import type { Starts } from "../queue/start.ts";
import type { RequestParts } from "../runner-parts.ts";
import type { ResolvedSchedule } from "./define-schedule.ts";
import { type Due, nextDue } from "./planned-times.ts";

/** Another instance has decided a planned time, or somebody has paused the schedule. */
class DecidedError extends Error {}

type Outcome = NonNullable<ScheduleState["last"]>["outcome"];

const OPEN = ["stopped", "in_progress", "awaiting", "cancelling"] as const;
/** Milliseconds until a time whose job could not start is tried again: doubled each time. */
const PAUSES = delays({ first: 1000, most: 60_000 });

/**
 * Decides the planned times of one schedule, in their order. The last decided time is stored in the unit that stores
 * its job: whenever the process ends, a time is decided with its job, or not at all.
 */
export class ActiveSchedule {
  readonly schedule: ResolvedSchedule;
  readonly #parts: RequestParts;
  readonly #starts: Starts;
  #isOpen = false;
  #isWorking = false;
  /** Whether to look again, once it has looked. */
  #isWanted = false;
  #cancelTimer: () => void = () => {};
  #problem: string | null = null;
  #failures = 0;

  constructor(parts: RequestParts, starts: Starts, schedule: ResolvedSchedule) {
    this.#parts = parts;
    this.#starts = starts;
    this.schedule = schedule;
  }

  /** Begins to decide: its state is stored. */
  open(): void {
    this.#isOpen = true;
    this.wake();
  }

  close(): void {
    this.#isOpen = false;
    this.#cancelTimer();
  }

  /** Looks whether something is due, and decides it. */
  wake(): void {
    this.#isWanted = true;
    if (!this.#isWorking && this.#mayDecide()) void this.#work();
  }

  async show(): Promise<Schedule> {
    const { id, agent, cron, timezone, fields, overlap, catchUp, times, policy } = this.schedule;
    const state = await this.#state();
    const now = this.#parts.clock().getTime();
    const after = state ? Date.parse(state.decided_until) : now;
    const next = nextDue(times, { after, now, catchUp: policy })?.at ?? times.after(after);
    const job = state?.last_job_id == null ? undefined : await this.#parts.jobs.find(state.last_job_id);
    return {
      ...{ id, agent, cron, timezone, fields, overlap, catch_up: catchUp },
      paused: state?.is_paused ?? false,
      next: state?.is_paused || next === undefined ? null : toTimestamp(next),
      last: state?.last ?? null,
      last_job: job ? { id: job.id, status: job.status } : null,
      problem: this.#problem,
    };
  }

  /** Starts a job now, whatever is planned. */
  startNow(note: (unit: Unit) => Promise<void>, idempotencyKey?: string): Promise<StoredJob> {
    const also = async (unit: Unit, { id }: StoredJob) => {
      await note(unit);
      await unit.tx.change("Schedule", this.schedule.id, (state) => ({ ...state, last_job_id: id }));
    };
    return this.#startJob(randomUUID(), this.#parts.clock().toISOString(), also, idempotencyKey);
  }

  /** Pauses it, or resumes it: what was planned in between becomes nothing. */
  async pause(is_paused: boolean, note: (unit: Unit) => Promise<void>): Promise<Schedule> {
    await this.#parts.ledger.write(async (unit) => {
      const before = await unit.tx.get("Schedule", this.schedule.id);
      if (before?.is_paused === is_paused) return;
      await note(unit);
      await unit.tx.change("Schedule", this.schedule.id, (state) => ({
        ...state,
        is_paused,
        decided_until: is_paused ? state.decided_until : laterOf(unit.now, state.decided_until),
      }));
    });
    this.wake();
    return this.show();
  }

  #mayDecide(): boolean {
    return this.#isOpen && !this.#parts.scheduler.isPaused;
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    while (this.#isWanted && this.#mayDecide()) {
      this.#isWanted = false;
      this.#cancelTimer();
      const pause = await this.#decideAll().catch((error: unknown) => this.#tryLater(error));
      if (pause !== undefined && this.#isOpen) this.#startTimer(pause);
    }
    this.#isWorking = false;
  }

  #startTimer(milliseconds: number): void {
    const { startTimer } = this.#parts;
    this.#cancelTimer = startTimer(milliseconds, () => this.wake(), "schedule");
  }

  /** Decides what is due; resolves with the milliseconds until the next planned time. */
  async #decideAll(): Promise<number | undefined> {
    const { times, policy } = this.schedule;
    while (this.#mayDecide()) {
      const state = await this.#state();
      if (!state || state.is_paused) break;
      const now = this.#parts.clock().getTime();
      const after = Date.parse(state.decided_until);
      const due = nextDue(times, { after, now, catchUp: policy });
      if (!due) {
        this.#problem = null;
        const next = times.after(after);
        return next === undefined ? undefined : next - now;
      }
      // The end of a job wakes it.
      if (!(await this.#decide(due))) return undefined;
      this.#failures = 0;
    }
    this.#problem = null;
    return undefined;
  }

  /** Decides a planned time; resolves with false where it has to wait for the end of earlier jobs. */
  async #decide(due: Due): Promise<boolean> {
    const { overlap } = this.schedule;
    const open = due.isMissed || overlap === "allow" ? [] : await this.#openJobs(due.at);
    if (due.isMissed) await this.#unlessDecided(this.#leaveOut(due, "missed"));
    else if (open.length === 0) await this.#unlessDecided(this.#startDue(due));
    else if (overlap === "skip") await this.#unlessDecided(this.#leaveOut(due, "skipped"));
    else {
      this.#problem = `Waits for the end of job "${open[0]!.id}"`;
      if (overlap === "cancel") for (const { id } of open) await stopJob(this.#parts, id, this.#actor);
      return false;
    }
    const { log } = this.#parts;
    if (due.leftOut !== undefined) {
      const [from, to] = [due.leftOut, due.at].map(toTimestamp);
      log.warn("planned times were too late to start a job each", { schedule: this.schedule.id, from, to });
    }
    return true;
  }

  async #unlessDecided(deciding: Promise<void>): Promise<void> {
    await deciding.catch((error: unknown) => {
      if (!(error instanceof DecidedError)) throw error;
    });
  }

  async #startDue(due: Due): Promise<void> {
    const { id } = this.schedule;
    const at = toTimestamp(due.at);
    let jobId = `${id}-${at.replace(/[-:]|\.\d+/g, "")}`;
    const { jobs } = this.#parts;
    const before = (await jobs.find(jobId)) ?? (await jobs.findDeleted(jobId));
    // The store has lost that the time is decided, or is an older copy of itself.
    if (before?.schedule?.id === id && before.schedule.at === at) {
      return this.#parts.ledger.write((unit) => this.#decided(unit, due, "started", jobId));
    }
    if (before) jobId = randomUUID();
    await this.#startJob(jobId, at, (unit) => this.#decided(unit, due, "started", jobId));
  }

  #startJob(
    job_id: string,
    at: string,
    also: (unit: Unit, job: StoredJob) => Promise<void>,
    idempotencyKey?: string,
  ): Promise<StoredJob> {
    const { id, agent, fields, instructions } = this.schedule;
    const started_by = `schedule ${id}`;
    return this.#starts.start(
      agent,
      {
        job_context: { job_id, started_by, job_instructions: instructions },
        job_fields: fields,
        ...(idempotencyKey !== undefined && { idempotencyKey }),
      },
      { fields: { schedule: { id, at } }, also },
    );
  }

  #leaveOut(due: Due, outcome: Outcome): Promise<void> {
    return this.#parts.ledger.write((unit) => this.#decided(unit, due, outcome));
  }

  /** Stores what came of a planned time. */
  async #decided(unit: Unit, due: Due, outcome: Outcome, jobId?: string): Promise<void> {
    const at = toTimestamp(due.at);
    await unit.tx.change("Schedule", this.schedule.id, (state) => {
      if (state.is_paused || Date.parse(state.decided_until) >= due.at)
        throw new DecidedError(`The planned time ${at} is no longer to be decided`);
      return {
        ...state,
        decided_until: at,
        last: { at, outcome, decided_at: unit.now },
        last_job_id: jobId ?? state.last_job_id,
      };
    });
  }

  /** Tells why a job does not start, and resolves with the milliseconds until the next attempt: no time is lost. */
  #tryLater(error: unknown): number | undefined {
    const { log, scheduler } = this.#parts;
    if (!this.#isOpen || scheduler.isClosed) return undefined;
    const detail = isServiceError(error) && error.detail ? `. ${error.detail}` : "";
    const problem = `${messageOf(error)}${detail}`;
    if (problem !== this.#problem)
      log.error("the job of a schedule cannot start yet", { schedule: this.schedule.id, error });
    this.#problem = problem;
    return PAUSES(this.#failures++);
  }

  /** Earlier jobs that have not ended: another instance may just have started the one of this planned time. */
  async #openJobs(at: number): Promise<StoredJob[]> {
    const where = { schedule_id: this.schedule.id, status: OPEN };
    const { items } = await this.#parts.jobs.list({ where, sort: "created_at", limit: 100 });
    return items.filter(({ schedule }) => schedule?.at !== toTimestamp(at));
  }

  #state(): Promise<ScheduleState | undefined> {
    return this.#parts.store.table("Schedule").get(this.schedule.id);
  }

  get #actor(): Actor {
    return { kind: "system", says: `schedule ${this.schedule.id}` };
  }
}

function toTimestamp(time: number): string {
  return new Date(time).toISOString();
}
