import type { Jobs } from "../entities/jobs.ts";
import type { Hooks } from "../hooks.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";

/** Lets callers wait for the ends of jobs. */
export class JobEnds {
  readonly #jobs: Jobs;
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(jobs: Jobs, hooks: Hooks) {
    this.#jobs = jobs;
    const tell = (id: string) => {
      for (const settle of this.#waiting.get(id) ?? []) settle();
    };
    hooks.on("job:finished", ({ job }) => tell(job.id));
    hooks.on("job:deleted", ({ job }) => tell(job.id));
  }

  /** The job once it has ended, or as it stands when the time is up. */
  async wait(jobId: string, milliseconds: number): Promise<StoredJob> {
    let timer: NodeJS.Timeout | undefined;
    let settle = () => {};
    const ended = new Promise<void>((resolve) => {
      settle = resolve;
      timer = setTimeout(resolve, milliseconds);
    });
    const waiting = this.#waiting.get(jobId) ?? new Set();
    this.#waiting.set(jobId, waiting.add(settle));
    try {
      // It may have ended before anybody listened.
      const job = await this.#jobs.get(jobId);
      if (isTerminal(job.status)) return job;
      await ended;
      return await this.#jobs.get(jobId);
    } finally {
      clearTimeout(timer);
      waiting.delete(settle);
      if (waiting.size === 0) this.#waiting.delete(jobId);
    }
  }
}
