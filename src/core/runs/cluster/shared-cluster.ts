import { compareVersions } from "../../agents/registry.ts";
import { noteDoing, takeJob } from "../../entities/change-job.ts";
import type { Hooks } from "../../entities/hooks.ts";
import type { StoredJob } from "../../models/job.ts";
import { isIn, QUEUED_JOBS as QUEUED, stateOf } from "../../models/job-state.ts";
import { FencedError } from "../../store/store.ts";
import type { Doing } from "../replay/activity.ts";
import type { Run } from "../replay/run.ts";
import type { QueuePosition } from "../runner.ts";
import type { Cluster, LeftRun, WatchedJobs } from "./cluster.ts";
import { isProgress } from "./count-crashes.ts";
import type { Membership } from "./membership.ts";
import { SharedLimits, type SharedLimitsParts } from "./shared-limits.ts";

interface SharedClusterParts extends SharedLimitsParts {
  readonly hooks: Hooks;
  readonly membership: Membership;
}

/** Several instances of one store, as one of them sees them. */
export class SharedCluster implements Cluster {
  readonly limits: SharedLimits;
  readonly watched: WatchedJobs;
  /** Agents of other living instances, as `slug@version`. */
  hostedElsewhere: ReadonlySet<string> = new Set();
  /** Ids of other living instances. */
  livingElsewhere: ReadonlySet<string> = new Set();
  readonly #parts: SharedClusterParts;
  readonly #isRunning: (jobId: string) => boolean;
  /** The number of the last line of its job's log that a run knows. */
  readonly #linesSeen = new WeakMap<Run, number>();
  /** Queued jobs of all instances as they were counted last, and since then. */
  #queued = { count: Promise.resolve(0), added: 0, until: 0 };

  /** `isRunning` says whether a job runs here. */
  constructor(parts: SharedClusterParts, isRunning: (jobId: string) => boolean) {
    this.limits = new SharedLimits(parts);
    this.watched = new WatchedInStore(parts.hooks);
    this.#parts = parts;
    this.#isRunning = isRunning;
  }

  get owner(): string {
    return this.#parts.membership.id;
  }

  get mayBegin(): boolean {
    return this.#parts.membership.isAlive;
  }

  checkLease = (): void => this.#parts.membership.check();

  isElsewhere({ owner }: Pick<StoredJob, "owner">): boolean {
    return Boolean(owner) && owner !== this.owner;
  }

  mayRun({ agent_name, agent_version }: StoredJob): boolean {
    if (agent_version == null) return true;
    const hosted = this.#parts.agents.versions(agent_name).map(({ definition }) => definition.version);
    if (hosted.includes(agent_version)) return true;
    if (this.hostedElsewhere.has(`${agent_name}@${agent_version}`)) return false;
    // Newer code may know what older code has recorded. Older code cannot, and may do less than the job was started for.
    return hosted[0] === undefined || compareVersions(hosted[0], agent_version) > 0;
  }

  lacksAgent(job: StoredJob): boolean {
    const { owner, agent_name } = job;
    if (owner || isIn(job, "ended", "parked", "suspended") || this.#parts.agents.find(agent_name))
      return false;
    return ![...this.hostedElsewhere].some((one) => one.startsWith(`${agent_name}@`));
  }

  lacksVersion(job: StoredJob): boolean {
    const { owner, agent_name, agent_version } = job;
    if (owner && (owner === this.owner || this.livingElsewhere.has(owner))) return false;
    if (isIn(job, "ended", "parked", "suspended") || this.mayRun(job)) return false;
    return !this.hostedElsewhere.has(`${agent_name}@${agent_version}`);
  }

  wasRunElsewhere(asked: StoredJob, { owner, run_count, created_at }: StoredJob): boolean {
    return !owner && created_at === asked.created_at && run_count > asked.run_count;
  }

  /** Counted once a second at most. */
  async countQueued(): Promise<number> {
    if (performance.now() >= this.#queued.until) {
      const count = this.#parts.jobs.countBy("status", { where: QUEUED }).then(({ stopped = 0 }) => stopped);
      this.#queued = { count, added: 0, until: performance.now() + 1000 };
    }
    const counted = this.#queued;
    const before = counted.added++;
    try {
      return (await counted.count) + before;
    } catch (error) {
      counted.until = 0;
      throw error;
    }
  }

  async position(jobId: string): Promise<QueuePosition | undefined> {
    if (this.#isRunning(jobId)) return undefined;
    const job = await this.#parts.jobs.find(jobId);
    if (!job || stateOf(job) !== "queued") return undefined;
    const before = { ...QUEUED, created_at: { lt: Date.parse(job.created_at) } };
    const [all, ahead] = await Promise.all(
      [QUEUED, before].map((where) => this.#parts.jobs.countBy("status", { where })),
    );
    const queued = all!.stopped ?? 0;
    return { position: Math.min((ahead!.stopped ?? 0) + 1, queued), queued };
  }

  hint(jobIds: readonly string[]): void {
    if (jobIds.length > 0) this.#parts.store.hints.tell("run", jobIds);
  }

  offer(jobIds: readonly string[]): void {
    if (jobIds.length > 0) this.#parts.store.hints.tell("claim", jobIds);
  }

  async release({ jobId, epoch, total_cost }: LeftRun): Promise<void> {
    const fence = { job: jobId, epoch };
    try {
      await this.#parts.ledger.write((unit) => takeJob(unit, jobId, { total_cost }), { fence });
      this.offer([jobId]);
    } catch (error) {
      // It has ended, or others have it.
      if (!(error instanceof FencedError))
        this.#parts.log.warn("a job could not be given up: others claim it later", { job_id: jobId, error });
    }
  }

  answersOf(find: () => Run): () => Promise<void> {
    return async () => {
      const run = find();
      const after = this.#linesSeen.get(run) ?? run.record.lines;
      for (const { seq, entry } of await this.#parts.jobs.log(run.jobId, { after })) {
        if (entry.type === "answer") run.questions.answered(entry, seq);
        this.#linesSeen.set(run, seq);
      }
    };
  }
}

/** The next owner finds what a job does with the job. */
class WatchedInStore implements WatchedJobs {
  /** With whether they start over. */
  readonly #jobs = new Map<string, boolean>();

  constructor(hooks: Hooks) {
    hooks.on("run:entry", ({ job_id, entry }) => {
      // It did not end its instance. One that starts over makes the same calls again.
      if (this.#jobs.get(job_id) === false && isProgress(entry)) this.#jobs.delete(job_id);
    });
  }

  watch(jobId: string, startsOver: boolean): void {
    this.#jobs.set(jobId, startsOver);
  }

  forget(jobId: string): void {
    this.#jobs.delete(jobId);
  }

  doingOf({ id, run_count: run }: StoredJob, find: () => Run): Doing | undefined {
    if (!this.#jobs.has(id)) return undefined;
    let last: string | null | undefined;
    return (what) => {
      if (what === undefined || what === last || !this.#jobs.has(id)) return undefined;
      last = what;
      return find().ledger.write((unit) => noteDoing(unit, id, { run, what }));
    };
  }
}
