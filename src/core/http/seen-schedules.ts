import { ServiceError } from "../base/errors.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { StoredJob } from "../models/job.ts";
import type { Schedule } from "../models/schedule.ts";
import type { Schedules } from "../runs/runner.ts";

interface SeenParts {
  readonly jobs: Jobs;
  /** Whether the caller sees all jobs that a schedule starts. */
  readonly sees: (schedule: Schedule) => boolean;
  /** Starts a job, and gives it as the caller sees it. */
  readonly own: (start: () => Promise<StoredJob>) => Promise<StoredJob>;
}

/** The schedules of a caller who sees a part: those whose jobs it sees all. Others do not exist. */
export class SeenSchedules implements Schedules {
  readonly #schedules: Schedules;
  readonly #parts: SeenParts;

  constructor(schedules: Schedules, parts: SeenParts) {
    this.#schedules = schedules;
    this.#parts = parts;
  }

  async list(): Promise<Schedule[]> {
    const all = await this.#schedules.list();
    return Promise.all(all.filter(this.#parts.sees).map((one) => this.#asSeen(one)));
  }

  async show(id: string): Promise<Schedule> {
    const seen = await this.list();
    const found = seen.find((one) => one.id === id);
    if (found) return found;
    const ids = seen.map((one) => one.id).join(", ");
    throw new ServiceError("not_found", `Unknown schedule "${id}"`, {
      detail: ids === "" ? "You see no schedules." : `Schedules that you see: ${ids}.`,
    });
  }

  async run(...[id, ...args]: Parameters<Schedules["run"]>): Promise<StoredJob> {
    await this.show(id);
    return this.#parts.own(() => this.#schedules.run(id, ...args));
  }

  async pause(...[id, by]: Parameters<Schedules["pause"]>): Promise<Schedule> {
    await this.show(id);
    return this.#asSeen(await this.#schedules.pause(id, by));
  }

  async resume(...[id, by]: Parameters<Schedules["resume"]>): Promise<Schedule> {
    await this.show(id);
    return this.#asSeen(await this.#schedules.resume(id, by));
  }

  async start(): Promise<never> {
    throw notFromHere();
  }

  close(): never {
    throw notFromHere();
  }

  /** Its last job may be of the agent that it had before. */
  async #asSeen(schedule: Schedule): Promise<Schedule> {
    const { last_job } = schedule;
    return last_job && !(await this.#parts.jobs.find(last_job.id))
      ? { ...schedule, last_job: null }
      : schedule;
  }
}

function notFromHere(): ServiceError {
  return new ServiceError("forbidden", "This concerns more than what the caller sees");
}
