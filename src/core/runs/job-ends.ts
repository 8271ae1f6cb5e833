import { Signals } from "../base/signals.ts";
import type { HookListener } from "../entities/hooks.ts";
import type { Jobs } from "../entities/jobs.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";

/** Lets callers wait for the ends of jobs. */
export class JobEnds {
  readonly #jobs: Jobs;
  readonly #signals = new Signals<StoredJob>();

  constructor(jobs: Jobs, hooks: HookListener) {
    this.#jobs = jobs;
    hooks.on("job:finished", ({ job }) => this.#signals.signal(job.id, job));
    hooks.on("job:deleted", ({ job }) => this.#signals.signal(job.id));
  }

  /** Resolves when a job next ends or is removed, with the job where it ended; `cancel` ends the wait. */
  next(jobId: string): { readonly ended: Promise<StoredJob | undefined>; cancel(): void } {
    return this.#signals.next(jobId);
  }

  /**
   * The job once it has ended, or its current state when the time is up. `isAhead` says that it has not ended
   * yet, so that no check is needed.
   */
  async wait(jobId: string, milliseconds: number, isAhead = false): Promise<StoredJob> {
    const { ended, cancel } = this.next(jobId);
    const timer = setTimeout(cancel, milliseconds);
    try {
      // It may have ended before anybody listened.
      const found = isAhead ? undefined : await this.#jobs.get(jobId);
      if (found && isTerminal(found.status)) return found;
      return (await ended) ?? (await this.#jobs.get(jobId));
    } finally {
      clearTimeout(timer);
      cancel();
    }
  }
}
