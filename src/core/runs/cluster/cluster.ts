import type { MaybePromise } from "../../base/maybe-promise.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { StoredJob } from "../../models/job.ts";
import type { SharedPart } from "../queue/slot.ts";
import type { Doing } from "../replay/activity.ts";
import type { Run } from "../replay/run.ts";
import type { QueuePosition } from "../runner.ts";

/**
 * What an instance knows of the others that run jobs of the same store, and tells them. A service whose store nobody
 * shares is a cluster of one (`Alone`): everything is its own, and nobody needs to know. `SharedCluster` asks the store.
 *
 * Each job has an owner, or waits for one. Who owns it runs it, in a run whose number is higher than that of any run
 * before; the store refuses what an earlier run still writes. An instance gives its jobs up when it closes; where it
 * dies, or cannot renew its sign of life, others claim them.
 */
export interface Cluster {
  /** What jobs that run here have as `owner`; null where nobody else has the store. */
  readonly owner: string | null;
  /** Whether what begins here stays here: others claim what a dead instance begins. */
  readonly mayBegin: boolean;
  /** The limits of agents, which hold for all instances together. */
  readonly limits: RunLimits;
  /** Jobs whose steps are noted before they begin. */
  readonly watched: WatchedJobs;
  /** Leaves all runs where this instance may count as dead by now. Called before a step begins. */
  readonly checkLease: () => void;
  /** Whether another instance owns a job, alive or not. */
  isElsewhere(job: Pick<StoredJob, "owner">): boolean;
  /** Whether a job may run here: this instance hosts its version, or no living one does and this one hosts a newer one. */
  mayRun(job: StoredJob): boolean;
  /** Whether a job waits for an instance that hosts its agent, as far as is known of the others. */
  lacksAgent(job: StoredJob): boolean;
  /** Whether a job waits for an instance that hosts its version, or a newer one: those that live host older ones. */
  lacksVersion(job: StoredJob): boolean;
  /** Whether another instance has started a job, and given it up, since its turn was asked for: who claims it records that. */
  wasRunElsewhere(asked: StoredJob, current: StoredJob): boolean;
  /** How many jobs wait for their first slot at all instances together; the caller adds one. */
  countQueued(): MaybePromise<number>;
  /** The position of a queued job among those of all instances. */
  position(jobId: string): MaybePromise<QueuePosition | undefined>;
  /** Asks the owners of these jobs to read what is stored of them. */
  hint(jobIds: readonly string[]): void;
  /** Tells the others that there is something to claim. */
  offer(jobIds: readonly string[]): void;
  /** Gives up the job of a run that has ended here without ending it, for any instance to claim. */
  release(run: LeftRun): Promise<void>;
  /** Reads the answers to a run's questions that others have stored; absent where nobody else can. */
  answersOf(run: () => Run): (() => Promise<void>) | undefined;
}

/** A run that leaves its job. */
export interface LeftRun {
  readonly jobId: string;
  readonly epoch: number;
  /** @default as it is stored */
  readonly total_cost?: number;
}

/** Jobs that were under way when their process ended: what they do is noted where who resumes them next finds it. */
export interface WatchedJobs {
  /** From its next run on, what a job does is noted; `isOver` where it starts over and makes the same calls again. */
  watch(jobId: string, startsOver: boolean): void;
  forget(jobId: string): void;
  /** Gets what a run does; absent for a job that is not watched. */
  doingOf(job: StoredJob, run: () => Run): Doing | undefined;
}

/** What an agent limits for the jobs of all instances together. */
export interface Limit {
  /** Id of its row. */
  readonly id: string;
  readonly kind: "key" | "agent" | "rate" | "workspace";
  /** The agent's slug; of a workspace, its name. */
  readonly agent: string;
  readonly key?: string | undefined;
  readonly most: number;
  /** Whether a job has its part until it ends, also while it does not run. */
  readonly isKept: boolean;
  /** Milliseconds, of a rate. */
  readonly period?: number | undefined;
}

/** The limits that a job falls under, and the time by the clock of the store, where a rate needs it. */
export interface Limits {
  readonly all: readonly Limit[];
  readonly now: number;
}

/** A limit that lets no further job begin. */
export interface Refusal {
  readonly limit: Limit;
  /** Of a rate: when its last jobs started, and the time then, by the clock of the store. */
  readonly starts: readonly number[];
  readonly now: number;
}

/** A job, as far as limits are about it. */
export type Limited = Pick<StoredJob, "id" | "agent_name" | "job_context"> &
  Partial<Pick<StoredJob, "concurrency_key" | "rate_key" | "run_count">>;

/** What the jobs of all instances may have together: counted in the unit that begins a run. */
export interface RunLimits {
  /** Has the scheduler count what the jobs of earlier processes have: once, before anything runs. */
  recall(): Promise<void>;
  /** What is counted for a job when it begins. */
  of(job: Limited): MaybePromise<Limits>;
  /** Counts a run inside the unit that begins it; where a limit is reached, nothing is written, and the run must not begin. */
  take(
    unit: Unit,
    run: Pick<StoredJob, "id" | "run_count">,
    limits: Limits,
  ): MaybePromise<Refusal | undefined>;
  /** Other jobs have all of a limit: those here that fall under it wait. */
  refused(refusal: Refusal): void;
  /** What a run has of limits only while it works. */
  partOf(job: StoredJob): SharedPart | undefined;
  /** Gives back what a job has until it ends. */
  ended(job: StoredJob): void;
}
