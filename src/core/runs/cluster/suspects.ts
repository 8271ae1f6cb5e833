import type { Logger } from "../../base/log.ts";
import type { Hooks } from "../../entities/hooks.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { TurnKind } from "../queue/turn-kind.ts";
import type { Turns } from "../queue/turns.ts";
import type { Cluster } from "./cluster.ts";

/** Milliseconds after which the next suspect is resumed in any case. */
const PATIENCE = 60_000;

/** A job that was under way when the process crashed. */
export interface Suspect {
  readonly job: StoredJob;
  readonly kind: TurnKind;
  /** Crashes in a row, without progress between them. */
  readonly crashes: number;
  /** Called before its turn is waited for. */
  readonly before?: (() => Promise<void>) | undefined;
  /** The beginning of the job's log, where it is kept so that it is not read again. */
  readonly entries?: readonly RunEntry[] | undefined;
}

interface SuspectsParts {
  readonly hooks: Hooks;
  readonly log: Logger;
  readonly scheduler: Scheduler;
  readonly cluster: Cluster;
  readonly turns: Turns;
}

/**
 * Resumes the jobs that were under way at a crash. After one crash all of them side by side: most crashes have nothing
 * to do with what ran. Those that were under way at two in a row come one after the other, those with fewer crashes
 * first: should the process crash again, it is known at which. The next one follows when the one before has made
 * progress, waits for something, or has ended, or when nothing has happened for a while.
 */
export class Suspects {
  readonly #parts: SuspectsParts;
  #isBusy = false;
  /** Run counts of jobs that are suspects, and are left to others or to a later search. */
  readonly #left = new Map<string, number>();
  #watched: { readonly jobId: string; readonly pass: () => void } | undefined;

  /** Called when none is left. */
  onIdle: () => void = () => {};

  constructor(parts: SuspectsParts) {
    this.#parts = parts;
  }

  /**
   * Of suspects that an instance could claim, those that it leaves to others, or to its next search: each instance
   * resumes one at a time of those that were under way at several crashes.
   */
  later(found: readonly Suspect[]): readonly Suspect[] {
    const repeated = found.filter(isRepeated);
    const [first] = repeated.toSorted((a, b) => a.crashes - b.crashes);
    const later = repeated.filter((one) => this.#isBusy || one !== first);
    for (const { job } of later) this.#left.set(job.id, job.run_count);
    return later;
  }

  /** Whether a job is known to be such a suspect. */
  isLeft({ id, run_count }: StoredJob): boolean {
    return this.#isBusy && this.#left.get(id) === run_count;
  }

  /** The job released its slot: it only waits, or has ended. */
  rested(jobId: string): void {
    if (this.#watched?.jobId === jobId) this.#watched.pass();
  }

  /** Resumes them, after `others` have started: their steps are noted before they begin. */
  async resume(suspects: readonly Suspect[], others: Promise<unknown>): Promise<void> {
    const { cluster, scheduler, turns } = this.#parts;
    for (const { job, kind } of suspects) cluster.watched.watch(job.id, kind === "start");
    await scheduler.whenResumed();
    if (suspects.length === 0) return;
    const ids = suspects.map(({ job }) => job.id);
    const together = this.#resumeTogether(suspects.filter((one) => !isRepeated(one)));
    const first = Promise.all([others, together]);
    await turns.handling(
      ids,
      Promise.all([together, this.#resumeInTurn(suspects.filter(isRepeated), first)]),
    );
  }

  async #resumeTogether(suspects: readonly Suspect[]): Promise<void> {
    if (suspects.length === 0) return;
    const { log, turns } = this.#parts;
    log.warn("jobs that were under way when the process crashed are resumed", { jobs: suspects.length });
    await Promise.all(
      suspects.map(async ({ job, kind, entries, before }) => {
        await before?.();
        await turns.queue(job, kind, entries);
      }),
    );
  }

  async #resumeInTurn(suspects: readonly Suspect[], others: Promise<unknown>): Promise<void> {
    if (suspects.length === 0) return;
    this.#isBusy = true;
    const { hooks, log, scheduler, turns } = this.#parts;
    // They come in the order in which they were created.
    const inOrder = suspects.toSorted((a, b) => a.crashes - b.crashes);
    log.warn("jobs that were under way at several crashes in a row are resumed one at a time", {
      jobs: inOrder.length,
    });
    await within(PATIENCE, others);
    const stops = [
      hooks.on("run:entry", ({ job_id, entry }) => {
        if (entry.type === "call") this.rested(job_id);
      }),
      hooks.on("job:changed", ({ job }) => {
        if (isTerminal(job.status)) this.rested(job.id);
      }),
      hooks.on("job:deleted", ({ job }) => this.rested(job.id)),
    ];
    try {
      for (const suspect of inOrder) {
        const { job, kind, entries, before } = suspect;
        if (scheduler.isClosed) return;
        const passed = new Promise<void>((pass) => {
          this.#watched = { jobId: job.id, pass };
        });
        await before?.();
        if (await turns.queue(job, kind, entries)) await within(PATIENCE, passed);
      }
    } finally {
      this.#watched = undefined;
      for (const stop of stops) stop();
      this.#isBusy = false;
      this.#left.clear();
      this.onIdle();
    }
  }
}

/** Whether it was under way at several crashes in a row. */
function isRepeated({ crashes }: Suspect): boolean {
  return crashes > 1;
}

/** Waits for something, so many milliseconds at the most. */
async function within(milliseconds: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds).unref();
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
