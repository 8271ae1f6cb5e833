import { PassingMap } from "../../base/passing-map.ts";
import { Signals } from "../../base/signals.ts";
import type { Touched } from "../../entities/change.ts";
import type { HookListener } from "../../entities/hooks.ts";
import type { Jobs } from "../../entities/jobs.ts";
import { isTerminal, RUNNING } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";

const OPEN = [...RUNNING, "stopped"];

/** Lets callers wait for the ends of jobs. */
export class JobEnds {
  readonly #jobs: Jobs;
  readonly #isHere: (jobId: string) => boolean;
  readonly #signals = new Signals<StoredJob>();
  /** Ends the waits of callers. */
  readonly #waiting = new PassingMap<number, () => void>();
  #count = 0;
  #isClosed = false;

  /** `isHere` says whether a job runs in this process, which announces its end itself. */
  constructor(jobs: Jobs, hooks: HookListener, isHere: (jobId: string) => boolean) {
    this.#jobs = jobs;
    this.#isHere = isHere;
    hooks.on("job:finished", ({ job }) => this.#signals.signal(job.id, job));
    hooks.on("job:deleted", ({ job }) => this.#signals.signal(job.id));
    hooks.on("jobs:touched", (touched) => this.#look(touched));
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
    const number = this.#count++;
    this.#waiting.set(number, cancel);
    if (this.#isClosed) cancel();
    try {
      // It may have ended before anybody listened.
      const found = isAhead ? undefined : await this.#jobs.get(jobId);
      if (found && isTerminal(found.status)) return found;
      return (await ended) ?? (await this.#jobs.get(jobId));
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(number);
      cancel();
    }
  }

  /** The service closes: callers get the current state of their jobs. */
  close(): void {
    this.#isClosed = true;
    for (const cancel of [...this.#waiting.values()]) cancel();
  }

  /** Signals the ends that another instance has stored. */
  async #look({ jobs }: Touched): Promise<void> {
    const waited = jobs === "all" ? this.#signals.keys() : jobs.filter((id) => this.#signals.has(id));
    const ids = waited.filter((id) => !this.#isHere(id));
    if (ids.length === 0) return;
    const open = new Set(await this.#jobs.ids({ where: { id: ids, status: OPEN } }));
    for (const id of ids.filter((one) => !open.has(one))) {
      const job = await this.#jobs.find(id);
      if (!job || isTerminal(job.status)) this.#signals.signal(id, job);
    }
  }
}
