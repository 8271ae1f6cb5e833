import { getOrMake } from "../base/get-or-make.ts";
import type { HookListener } from "../entities/hooks.ts";
import type { Jobs } from "../entities/jobs.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";

type Settle = (job?: StoredJob) => void;

/** Lets callers wait for the ends of jobs. */
export class JobEnds {
  readonly #jobs: Jobs;
  readonly #waiting = new Map<string, Set<Settle>>();

  constructor(jobs: Jobs, hooks: HookListener) {
    this.#jobs = jobs;
    const tell = (id: string, ended?: StoredJob) => {
      for (const settle of this.#waiting.get(id) ?? []) settle(ended);
    };
    hooks.on("job:finished", ({ job }) => tell(job.id, job));
    hooks.on("job:deleted", ({ job }) => tell(job.id));
  }

  /** Resolves when a job next ends or is removed, with the job where it ended; `cancel` ends the wait. */
  next(jobId: string): { readonly ended: Promise<StoredJob | undefined>; cancel(): void } {
    const waiting = getOrMake(this.#waiting, jobId, () => new Set<Settle>());
    let settle: Settle = () => {};
    const ended = new Promise<StoredJob | undefined>((resolve) => {
      settle = resolve;
    });
    waiting.add(settle);
    const cancel = (): void => {
      settle();
      waiting.delete(settle);
      if (waiting.size === 0 && this.#waiting.get(jobId) === waiting) this.#waiting.delete(jobId);
    };
    return { ended, cancel };
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
