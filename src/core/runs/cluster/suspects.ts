import type { Logger } from "../../base/log.ts";
import type { Hooks } from "../../entities/hooks.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { TurnKind } from "../queue/turn-kind.ts";
import type { Turns } from "../queue/turns.ts";
import type { Cluster } from "./cluster.ts";

/** Milliseconds after which the next suspects are resumed in any case. */
const PATIENCE = 60_000;

/** A job that was under way when the process crashed. */
export interface Suspect {
  readonly job: StoredJob;
  readonly kind: TurnKind;
  /** Crashes in a row, without progress between them. */
  readonly crashes: number;
  /** With how many others it had been resumed before the last one, where that was after several crashes. */
  readonly beside?: number | undefined;
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
 * to do with what ran. Those that were under way at two in a row come in turns, those with fewer crashes first: should
 * the process crash again, it is known at which. The next turn follows when each of the turn before has made progress,
 * waits for something, or has ended, or when nothing has happened for a while. A turn is one job; where several instances
 * share the store, it is twice as many as the one before that went well, and at most half of those with which one of
 * them has crashed.
 */
export class Suspects {
  readonly #parts: SuspectsParts;
  #isBusy = false;
  /** Run counts of jobs that are suspects, and are left to others or to a later search. */
  readonly #left = new Map<string, number>();
  /** Those that the present turn waits for. */
  #watched: { readonly ids: Set<string>; readonly pass: () => void } | undefined;
  /** Jobs of the next turn, where they were claimed as one. */
  #chosen = new Set<string>();
  /** How many jobs the next turn may have, and until when that counts, by a clock that nobody sets. */
  #most = { count: 1, until: 0 };

  /** Called when none is left. */
  onIdle: () => void = () => {};

  constructor(parts: SuspectsParts) {
    this.#parts = parts;
  }

  /**
   * Of suspects that an instance could claim, those that it leaves to others, or to its next search: of those that were
   * under way at several crashes, each instance resumes one turn at a time.
   */
  later(found: readonly Suspect[]): readonly Suspect[] {
    const repeated = found.filter(isRepeated);
    // One search may claim several times.
    const isTaken = this.#isBusy || this.#chosen.size > 0;
    const next = new Set(isTaken ? [] : this.#nextOf(repeated));
    if (!isTaken) this.#chosen = new Set(Array.from(next, ({ job }) => job.id));
    const later = repeated.filter((one) => !next.has(one));
    for (const { job } of later) this.#left.set(job.id, job.run_count);
    return later;
  }

  /** With how many others a job is resumed that `later` has not left; 0 where it was not under way at several crashes. */
  besides(jobId: string): number {
    return this.#chosen.has(jobId) ? this.#chosen.size - 1 : 0;
  }

  #nextOf(repeated: readonly Suspect[]): Suspect[] {
    let most = performance.now() < this.#most.until ? this.#most.count : 1;
    const next: Suspect[] = [];
    for (const one of inOrder(repeated)) {
      most = Math.min(most, mostWith(one));
      if (next.length >= most) break;
      next.push(one);
    }
    return next;
  }

  /** Whether a job is known to be such a suspect. */
  isLeft({ id, run_count }: StoredJob): boolean {
    return this.#isBusy && this.#left.get(id) === run_count;
  }

  /** The job released its slot: it only waits, or has ended. */
  rested(jobId: string): void {
    const { ids, pass } = this.#watched ?? {};
    if (ids?.delete(jobId) && ids.size === 0) pass!();
  }

  /** Resumes them, after `others` have started: their steps are noted before they begin. */
  async resume(suspects: readonly Suspect[], others: Promise<unknown>): Promise<void> {
    const { cluster, scheduler, turns } = this.#parts;
    const chosen = this.#chosen;
    this.#chosen = new Set();
    for (const { job, kind } of suspects) cluster.watched.watch(job.id, kind === "start");
    await scheduler.whenResumed();
    if (suspects.length === 0) return;
    const ids = suspects.map(({ job }) => job.id);
    const together = this.#resumeTogether(suspects.filter((one) => !isRepeated(one)));
    const first = Promise.all([others, together]);
    const repeated = inOrder(suspects.filter(isRepeated));
    const oneTurn = repeated.filter(({ job }) => chosen.has(job.id));
    const alone = repeated.filter(({ job }) => !chosen.has(job.id)).map((one) => [one]);
    const inTurns = oneTurn.length > 0 ? [oneTurn, ...alone] : alone;
    await turns.handling(ids, Promise.all([together, this.#resumeInTurns(inTurns, first)]));
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

  async #resumeInTurns(inTurns: readonly (readonly Suspect[])[], others: Promise<unknown>): Promise<void> {
    if (inTurns.length === 0) return;
    this.#isBusy = true;
    const { hooks, log, scheduler } = this.#parts;
    log.warn("jobs that were under way at several crashes in a row are resumed in turns", {
      jobs: inTurns.flat().length,
      turns: inTurns.length,
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
      for (const turn of inTurns) {
        if (scheduler.isClosed) return;
        const went = await this.#resumeTurn(turn);
        this.#most = {
          count: went ? 2 * turn.length : turn.length,
          until: performance.now() + PATIENCE,
        };
      }
    } finally {
      this.#watched = undefined;
      for (const stop of stops) stop();
      this.#isBusy = false;
      this.#left.clear();
      this.onIdle();
    }
  }

  /** Resolves with whether each of them has made progress, waits for something, or has ended. */
  async #resumeTurn(turn: readonly Suspect[]): Promise<boolean> {
    const ids = new Set(turn.map(({ job }) => job.id));
    const passed = new Promise<void>((pass) => {
      this.#watched = { ids, pass };
    });
    await Promise.all(
      turn.map(async ({ job, kind, entries, before }) => {
        await before?.();
        if (!(await this.#parts.turns.queue(job, kind, entries))) this.rested(job.id);
      }),
    );
    if (ids.size > 0) await within(PATIENCE, passed);
    return ids.size === 0;
  }
}

/** They come in the order in which they were created. */
function inOrder(suspects: readonly Suspect[]): Suspect[] {
  return suspects.toSorted((a, b) => a.crashes - b.crashes);
}

/** How many may be resumed together where this one is among them. */
function mostWith({ beside = 0 }: Suspect): number {
  return beside === 0 ? Number.POSITIVE_INFINITY : (beside + 1) >> 1;
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
