import type { StoredJob } from "../../models/job.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { Doing } from "../replay/activity.ts";
import type { QueuePosition } from "../runner.ts";
import type { Cluster, WatchedJobs } from "./cluster.ts";
import { LocalLimits, type LocalLimitsParts } from "./local-limits.ts";
import type { UnderWay } from "./under-way.ts";

interface AloneParts extends LocalLimitsParts {
  readonly scheduler: Scheduler;
  readonly underWay?: UnderWay | undefined;
}

/** The only instance of a store. */
export class Alone implements Cluster {
  readonly owner = null;
  readonly mayBegin = true;
  readonly limits: LocalLimits;
  readonly watched: WatchedJobs;
  readonly #scheduler: Scheduler;

  constructor(parts: AloneParts) {
    this.limits = new LocalLimits(parts);
    this.watched = new WatchedInFile(parts.underWay);
    this.#scheduler = parts.scheduler;
  }

  checkLease = (): void => {};

  isElsewhere(): boolean {
    return false;
  }

  mayRun(): boolean {
    return true;
  }

  lacksAgent(): boolean {
    return false;
  }

  lacksVersion(): boolean {
    return false;
  }

  wasRunElsewhere(): boolean {
    return false;
  }

  countQueued(): number {
    return this.#scheduler.queued;
  }

  position(jobId: string): QueuePosition | undefined {
    return this.#scheduler.position(jobId);
  }

  hint(): void {}

  offer(): void {}

  async release(): Promise<void> {}

  answersOf(): undefined {
    return undefined;
  }
}

/** The next process finds what jobs do in a file of the data folder. */
class WatchedInFile implements WatchedJobs {
  readonly #underWay: UnderWay | undefined;
  readonly #jobs = new Set<string>();

  constructor(underWay: UnderWay | undefined) {
    this.#underWay = underWay;
  }

  watch(jobId: string): void {
    this.#jobs.add(jobId);
  }

  forget(jobId: string): void {
    this.#jobs.delete(jobId);
  }

  doingOf({ id }: StoredJob): Doing | undefined {
    if (!this.#jobs.has(id)) return undefined;
    return (what) => {
      if (what !== null) this.#underWay?.doing(id, what);
      return undefined;
    };
  }
}
