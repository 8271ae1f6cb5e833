import type { AgentRegistry, HostedAgent } from "../../agents/registry.ts";
import type { Logger } from "../../base/log.ts";
import type { MaybePromise } from "../../base/maybe-promise.ts";
import { changeJob, moveJob, released } from "../../entities/change-job.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { Ledger, Unit } from "../../entities/ledger.ts";
import { notifyOfCopies } from "../../entities/open-case.ts";
import type { StoredJob } from "../../models/job.ts";
import { may } from "../../models/job-state.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { Cluster, Limited, Refusal } from "../cluster/cluster.ts";
import { RunRecord } from "../replay/run-record.ts";
import type { ActiveRuns, Beginning } from "./active-runs.ts";
import { type QueuedJob, toQueuedJob } from "./queued-job.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Slot } from "./slot.ts";
import type { TurnKind } from "./turn-kind.ts";
import { whenWritable } from "./when-writable.ts";

interface TurnsParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly ledger: Ledger;
  readonly log: Logger;
  readonly scheduler: Scheduler;
  readonly cluster: Cluster;
  readonly runs: ActiveRuns;
}

/** The turn of a job to run. */
interface Turn {
  readonly kind: TurnKind;
  /** What its log has, if that is known. */
  readonly entries?: readonly RunEntry[] | undefined;
  /** When its wait was over, where the clock was set back while it was suspended. */
  readonly wokenAt?: number | undefined;
}

/** What the unit has stored that was to begin a run. */
export interface Entered {
  /** The job as its run begins; absent where none does. */
  readonly begun?: StoredJob | undefined;
  /** Set where other jobs have all of a limit: the run does not start. */
  readonly refusal?: Refusal | undefined;
}

/** Counts a run in the limits of its job; where it gives a refusal, the run must not begin. */
export type Allow = (run_count: number) => MaybePromise<Refusal | undefined>;

/** Gives stored jobs their turns: each waits for a slot, and begins its run there. */
export class Turns {
  readonly #parts: TurnsParts;
  /** Jobs that wait for their turn here, or are ended, with the number of reasons. */
  readonly #handled = new Map<string, number>();

  constructor(parts: TurnsParts) {
    this.#parts = parts;
  }

  /** Has a stored job run when its turn comes; resolves then, with whether it runs. */
  queue(job: StoredJob, kind: TurnKind, entries?: readonly RunEntry[]): Promise<boolean> {
    const { agents, cluster, log, runs, scheduler } = this.#parts;
    const isHosted = agents.find(job.agent_name) !== undefined;
    const isForOthers = !isHosted || !cluster.mayRun(job);
    if (!job.owner && (isForOthers || !scheduler.hasFreeSlot(toQueuedJob(job)))) cluster.offer([job.id]);
    if (!isHosted) return Promise.resolve(runs.find(job.id) !== undefined);
    const take = (queued: QueuedJob, order?: number) => scheduler.take(queued, order);
    return this.#takeTurns(job, { kind, entries }, take).catch((error: unknown) => {
      log.error("a job could not be started; it will resume at the next start", { job_id: job.id, error });
      return false;
    });
  }

  /** Has a job continue that only waited: it comes before those that have not started. */
  async queueSuspended(job: StoredJob, wokenAt: number | undefined): Promise<boolean> {
    const { agents, cluster, scheduler } = this.#parts;
    if (!agents.of(job) || !cluster.mayRun(job)) return false;
    const take = (queued: QueuedJob, order?: number) => scheduler.takeAgain(queued, order);
    return this.#takeTurns(job, { kind: "resume", wokenAt }, take);
  }

  /** Whether something of a job is under way here, or waits for its turn. */
  isHandled(jobId: string): boolean {
    return this.#parts.runs.find(jobId) !== undefined || this.#handled.has(jobId);
  }

  /** Counts jobs as handled until `work` has settled. */
  async handling<T>(jobIds: readonly string[], work: Promise<T>): Promise<T> {
    const count = (id: string, more: number): void => {
      const next = (this.#handled.get(id) ?? 0) + more;
      if (next > 0) this.#handled.set(id, next);
      else this.#handled.delete(id);
    };
    for (const id of jobIds) count(id, 1);
    try {
      return await work;
    } finally {
      for (const id of jobIds) count(id, -1);
    }
  }

  /**
   * Begins a run in a slot, for one that is free and for one that was waited for. `enter` stores the job as one that runs,
   * in the unit that counts it in its limits; `allow` is absent where it has none. The caller releases the slot where this
   * rejects.
   */
  async begin<T extends Entered>(
    slot: Slot,
    job: Limited,
    enter: (unit: Unit, allow: Allow | undefined) => Promise<T>,
    open: (begun: StoredJob) => Beginning,
  ): Promise<T> {
    const { cluster, ledger, runs } = this.#parts;
    const found = cluster.limits.of(job);
    const limits = found instanceof Promise ? await found : found;
    const entered = await ledger.write((unit) => {
      if (limits.all.length === 0) return enter(unit, undefined);
      return enter(unit, (run_count) => cluster.limits.take(unit, { id: job.id, run_count }, limits));
    });
    const { begun, refusal } = entered;
    if (begun) await runs.launch(begun, slot, open(begun));
    else slot.withdraw(refusal && (() => cluster.limits.refused(refusal)));
    return entered;
  }

  /** Waits for a slot until the job could use one, as others may have all of a limit; resolves with whether it runs. */
  #takeTurns(
    job: StoredJob,
    turn: Turn,
    take: (queued: QueuedJob, order?: number) => Promise<Slot | undefined>,
  ): Promise<boolean> {
    const untilUsed = async (): Promise<boolean> => {
      let queued = toQueuedJob(job);
      let slot = await take(queued);
      while (slot) {
        const refusal = await this.#useTurn(job, turn, slot);
        if (!refusal) break;
        queued = { ...queued, isRefused: refusal.limit.kind === "key" };
        slot = await take(queued, slot.order);
      }
      return this.#parts.runs.find(job.id) !== undefined;
    };
    return this.handling([job.id], untilUsed());
  }

  /** Resolves with the limit that refused it, if any. */
  async #useTurn(job: StoredJob, turn: Turn, slot: Slot): Promise<Refusal | undefined> {
    const { log, runs, scheduler } = this.#parts;
    try {
      // The job keeps its slot meanwhile.
      return await whenWritable(
        () => runs.exclusively(job.id, () => this.#takeTurn(job, turn, slot)),
        (error) => {
          if (scheduler.isClosed) throw error;
          const problem = { job_id: job.id, error: error.message };
          log.warn("the store cannot write; a job is waiting to start", problem);
        },
      );
    } catch (error) {
      slot.release();
      throw error;
    }
  }

  async #takeTurn(
    job: StoredJob,
    { kind, entries, wokenAt }: Turn,
    slot: Slot,
  ): Promise<Refusal | undefined> {
    const { agents, cluster, jobs, runs } = this.#parts;
    let agent: HostedAgent | undefined;
    let suspended: StoredJob["suspended"] | undefined;
    let isStale = false;
    const enter = async (unit: Unit, allow: Allow | undefined): Promise<Entered> => {
      const current = await unit.tx.get("Job", job.id);
      isStale = current !== undefined && cluster.wasRunElsewhere(job, current);
      const isFree = current && !cluster.isElsewhere(current) && !runs.isRunning(job.id);
      const isDue = isFree && may(current, "run") && !isStale && cluster.mayRun(current) && cluster.mayBegin;
      agent = isDue ? agents.of(current) : undefined;
      if (!isDue || !agent) return {};
      suspended = current.suspended;
      const refusal = await allow?.(current.run_count + 1);
      return refusal ? { refusal } : { begun: await this.#enter(unit, current, kind, agent) };
    };
    const { begun, refusal } = await this.begin(slot, job, enter, (begun) => {
      // Another job may have been given the id since its log was read.
      const known = begun.created_at === job.created_at ? entries : undefined;
      const isNew = begun.run_count === 1 && !begun.forked_from;
      const readRecord = isNew ? undefined : () => RunRecord.of(jobs, job.id, known);
      return { agent: agent!, readRecord, suspended, wokenAt };
    });
    if (isStale && !begun) cluster.offer([job.id]);
    return refusal;
  }

  /** Stores inside a unit that a run begins. */
  async #enter(unit: Unit, job: StoredJob, kind: TurnKind, agent: HostedAgent): Promise<StoredJob> {
    const { owner } = this.#parts.cluster;
    const code = { version: agent.definition.version, code: agent.code, reads: true } as const;
    const patch = {
      run_count: job.run_count + 1,
      agent_version: code.version,
      code_fingerprint: code.code,
      suspended: null,
      ...((owner || job.owner) && { owner }),
    };
    if (job.status === "stopped") {
      const begun = await moveJob(unit, job.id, "start_work", patch);
      if (job.forked_from && job.run_count === 0) await notifyOfCopies(unit, job.id);
      return begun;
    }
    if (kind === "resume") await unit.record(job.id, { type: "mark", mark: "resumed", ...code });
    return changeJob(unit, job.id, "run", (current) => ({ ...released(current), ...patch }));
  }
}
