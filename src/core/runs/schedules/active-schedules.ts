import type { Actor } from "../../audit/caller.ts";
import { ServiceError } from "../../base/errors.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Schedule, ScheduleState } from "../../models/schedule.ts";
import type { Starts } from "../queue/start.ts";
import { isStorageError, whenWritable } from "../queue/when-writable.ts";
import type { Schedules } from "../runner.ts";
import { note, type RequestParts } from "../runner-parts.ts";
import { ActiveSchedule } from "./active-schedule.ts";
import type { ResolvedSchedule } from "./define-schedule.ts";

/** Milliseconds between two checks of the clock: a timer does not notice that it was set, or that the machine slept. */
const RECHECK = 30_000;
/** A clock that is set back by more was wrong before. */
const FAR_AHEAD = 24 * 3_600_000;

/** Starts the jobs of schedules: each planned time once, also over the ends of processes. */
export class ActiveSchedules implements Schedules {
  readonly #parts: RequestParts;
  readonly #active = new Map<string, ActiveSchedule>();
  #checking: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(parts: RequestParts, starts: Starts) {
    this.#parts = parts;
    for (const one of parts.schedules) this.#active.set(one.id, new ActiveSchedule(parts, starts, one));
    if (this.#active.size === 0) return;
    const wake = ({ job }: { job: StoredJob }) => this.#active.get(job.schedule?.id ?? "")?.wake();
    parts.hooks.on("job:finished", wake);
    parts.hooks.on("job:deleted", wake);
  }

  async start(): Promise<void> {
    const { log, scheduler } = this.#parts;
    try {
      await this.#begin();
    } catch (error) {
      if (!isStorageError(error)) throw error;
      void whenWritable(
        () => this.#begin(),
        (problem) => {
          if (this.#isClosed) throw problem;
        },
      ).catch((problem: unknown) => {
        if (!this.#isClosed) log.error("the schedules could not start", { error: problem });
      });
    }
    void scheduler.whenResumed().then(() => this.#wake());
  }

  async list(): Promise<Schedule[]> {
    return Promise.all([...this.#active.values()].map((one) => one.show()));
  }

  show(id: string): Promise<Schedule> {
    return this.#find(id).show();
  }

  run(id: string, actor?: Actor, idempotencyKey?: string): Promise<StoredJob> {
    return this.#find(id).startNow(noteOf(this.#parts, id, actor, "schedule.run"), idempotencyKey);
  }

  pause(id: string, actor?: Actor): Promise<Schedule> {
    return this.#find(id).pause(true, noteOf(this.#parts, id, actor, "schedule.pause"));
  }

  resume(id: string, actor?: Actor): Promise<Schedule> {
    return this.#find(id).pause(false, noteOf(this.#parts, id, actor, "schedule.resume"));
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#checking);
    for (const one of this.#active.values()) one.close();
  }

  async #begin(): Promise<void> {
    const { store, ledger, log } = this.#parts;
    const known = await store.table("Schedule").list({ limit: Number.POSITIVE_INFINITY });
    const before = new Map(known.items.map((state) => [state.id, state]));
    if (this.#active.size === 0 && before.size === 0) return;
    await ledger.write(async (unit) => {
      for (const { schedule } of this.#active.values()) {
        const warn = (message: string) => log.warn(message, { schedule: schedule.id });
        await beginOne(unit, schedule, before.get(schedule.id), warn);
      }
      for (const { id, pattern } of before.values()) {
        if (this.#active.has(id) || pattern === null) continue;
        await unit.tx.change("Schedule", id, (state) => ({ ...state, pattern: null }));
      }
    });
    if (this.#isClosed || this.#active.size === 0) return;
    for (const one of this.#active.values()) one.open();
    this.#checking ??= setInterval(() => this.#wake(), RECHECK).unref();
  }

  #wake(): void {
    for (const one of this.#active.values()) one.wake();
  }

  #find(id: string): ActiveSchedule {
    const found = this.#active.get(id);
    if (found) return found;
    const ids = [...this.#active.keys()].join(", ");
    throw new ServiceError("not_found", `Unknown schedule "${id}"`, {
      detail: ids === "" ? "This service has no schedules." : `Schedules of this service: ${ids}.`,
    });
  }
}

/** A schedule that is new, or whose times have changed, begins now; another one continues. */
async function beginOne(
  { tx, now }: Unit,
  { id, cron, timezone }: ResolvedSchedule,
  before: ScheduleState | undefined,
  warn: (message: string) => void,
): Promise<void> {
  const pattern = `${cron} (${timezone})`;
  if (!before) {
    const decided = { decided_until: now, last: null, last_job_id: null };
    return tx.insert("Schedule", { id, pattern, is_paused: false, ...decided });
  }
  const ahead = Date.parse(before.decided_until) - Date.parse(now);
  if (ahead > FAR_AHEAD)
    warn(
      "the clock was set back by more than a day: the schedule starts again with the time that it has now",
    );
  else if (before.pattern === pattern) return;
  await tx.change("Schedule", id, (state) => ({ ...state, pattern, decided_until: now }));
}

function noteOf(
  parts: RequestParts,
  id: string,
  actor: Actor | undefined,
  action: "schedule.run" | "schedule.pause" | "schedule.resume",
): (unit: Unit) => Promise<void> {
  return (unit) => note(parts, unit, actor, { action, target: { kind: "schedule", id } });
}
