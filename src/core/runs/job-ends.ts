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

  /**
   * The job once it has ended, or its current state when the time is up. `isAhead` says that it has not ended
   * yet, so that no check is needed.
   */
  async wait(jobId: string, milliseconds: number, isAhead = false): Promise<StoredJob> {
    let timer: NodeJS.Timeout | undefined;
    let settle: Settle = () => {};
    const ended = new Promise<StoredJob | undefined>((resolve) => {
      settle = resolve;
      timer = setTimeout(() => resolve(undefined), milliseconds);
    });
    const waiting = this.#waiting.get(jobId) ?? new Set();
    this.#waiting.set(jobId, waiting.add(settle));
    try {
      // It may have ended before anybody listened.
      const found = isAhead ? undefined : await this.#jobs.get(jobId);
      if (found && isTerminal(found.status)) return found;
      return (await ended) ?? (await this.#jobs.get(jobId));
    } finally {
      clearTimeout(timer);
      waiting.delete(settle);
      if (waiting.size === 0) this.#waiting.delete(jobId);
    }
  }
}
