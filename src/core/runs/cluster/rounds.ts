import { releaseJob } from "../../entities/change-job.ts";
import type { StoredJob } from "../../models/job.ts";
import { ACTIVE_JOBS, type HoldReason, holdOf } from "../../models/job-state.ts";
import type { Instance } from "../../models/own-rows.ts";
import { stopJob } from "../operate/steer.ts";
import type { QuestionNotices } from "../questions/question-notices.ts";
import { parentEndOf } from "../replay/children.ts";
import { whyUnreadable } from "../replay/handler-context.ts";
import { claimJobs } from "./claim-jobs.ts";
import { claimantOf, type SharedParts } from "./claimant.ts";
import { isSteered } from "./count-crashes.ts";
import { findOrphans } from "./suspended-to-end.ts";

const OPEN = ["stopped", "in_progress", "awaiting"] as const;
const RUNNING = ["in_progress", "awaiting", "cancelling"] as const;
const ALL = { sort: "created_at", limit: Number.POSITIVE_INFINITY, joins: "now" } as const;
/** Jobs without an instance for their agent that one round marks. */
const MOST = 100;

/**
 * What every instance looks for slowly, as no search for free jobs finds it: what an instance that died had left
 * unfinished, and what failed at a living one.
 */
export class Rounds {
  readonly #parts: SharedParts;
  readonly #notices: QuestionNotices;
  readonly #pause: number;
  #next = 0;
  /** Held jobs that were tried here, with when they were held. */
  readonly #tried = new Map<string, string>();
  /** Jobs that wait for an instance with their agent, and that have a mark that says so. */
  readonly #marked = new Set<string>();
  /** Own jobs that had no run in the last round, with their run counts. */
  #idle = new Map<string, number>();

  /** There are so many milliseconds between two rounds. */
  constructor(parts: SharedParts, pause: number, notices: QuestionNotices) {
    this.#parts = parts;
    this.#notices = notices;
    this.#pause = pause;
  }

  /** Makes the first round, and further ones when it is time. */
  async make(living: readonly Instance[]): Promise<void> {
    if (performance.now() < this.#next) return;
    this.#next = performance.now() + this.#pause;
    this.#checkCode(living);
    // Together, as a store may read what they begin with in one statement.
    await Promise.all([
      this.#stopOrphans(),
      this.#giveUpIdle(),
      // Those of a question that a dead instance has asked.
      this.#notices.look(),
      this.#tryHeld(),
      this.#releaseReadable(),
      this.#markHomeless(living),
    ]);
  }

  /** The instance that stored the end of a parent may have died before it stopped the children. */
  async #stopOrphans(): Promise<void> {
    const { jobs } = this.#parts;
    for (const child of await findOrphans(this.#parts, { status: OPEN })) {
      const parent = await jobs.find(child.parent!.job_id);
      const endedAt = parent?.finished_at ?? "";
      // Somebody has run it again since.
      const log = await jobs.log(child.id);
      if (log.some(({ entry }) => isSteered(entry) && entry.at > endedAt)) continue;
      const end = await parentEndOf(this.#parts, child);
      if (end) await stopJob(this.#parts, child.id, undefined, { end });
    }
  }

  /** A job whose start or end could not be stored here has no run: this instance, or another one, claims it. */
  async #giveUpIdle(): Promise<void> {
    const { cluster, jobs, log, turns } = this.#parts;
    const { items } = await jobs.list({
      where: { owner: cluster.owner, status: RUNNING },
      limit: Number.POSITIVE_INFINITY,
      joins: "now",
    });
    const idle = new Map<string, number>();
    for (const { id, run_count } of items) {
      if (turns.isHandled(id)) continue;
      idle.set(id, run_count);
      if (this.#idle.get(id) !== run_count) continue;
      log.warn("a job of this instance had no run: it is claimed again", { job_id: id });
      await cluster.release({ jobId: id, epoch: run_count });
    }
    this.#idle = idle;
  }

  /** The code that is here may fit jobs that were held elsewhere. */
  async #tryHeld(): Promise<void> {
    const { agents, cluster, jobs, tries } = this.#parts;
    const where = { status: "awaiting", stop_reason: "code_changed" satisfies HoldReason };
    const { items } = await jobs.list({ where, ...ALL });
    const held = new Set(items.map(({ id }) => id));
    for (const id of this.#tried.keys()) if (!held.has(id)) this.#tried.delete(id);
    for (const job of items) {
      if (!agents.find(job.agent_name)) continue;
      if (!job.held || this.#tried.get(job.id) === job.held.at || !cluster.mayRun(job)) continue;
      this.#tried.set(job.id, job.held.at);
      void tries.try(job);
    }
  }

  /** Jobs that do not fit the code of this instance may fit that of an older one, which runs them as long as it lives. */
  #checkCode(living: readonly Instance[]): void {
    const { cluster, codeChecks } = this.#parts;
    const own = living.find(({ id }) => id === cluster.owner);
    if (own && living.every(({ started_at }) => started_at >= own.started_at)) codeChecks.start();
  }

  /** The RSA key that is here may read parameters that another one, or an earlier one, could not. */
  async #releaseReadable(): Promise<void> {
    const { agents, jobs, ledger } = this.#parts;
    const where = { status: "awaiting", stop_reason: "unreadable_parameters" satisfies HoldReason };
    const { items } = await jobs.list({ where, ...ALL });
    for (const { id } of items) {
      const job = await jobs.find(id);
      const agent = job && agents.of(job);
      if (!agent || (await whyUnreadable(this.#parts, agent, job)) !== undefined) continue;
      await ledger.write(async (unit) => {
        const now = await unit.tx.get("Job", id);
        if (now && holdOf(now) === "unreadable_parameters") await releaseJob(unit, id, { by: "service" });
      });
    }
  }

  /** Says of jobs that no living instance hosts their agent. */
  async #markHomeless(living: readonly Instance[]): Promise<void> {
    const { jobs } = this.#parts;
    const hosted = new Set(
      living.flatMap(({ agents }) => agents.map((one) => one.slice(0, one.indexOf("@")))),
    );
    const where = ACTIVE_JOBS;
    const names = Object.keys(await jobs.countBy("agent_name", { where, joins: "now" })).filter(
      (name) => !hosted.has(name),
    );
    if (names.length === 0) return this.#marked.clear();
    const query = {
      where: { ...where, agent_name: names },
      sort: "created_at",
      limit: MOST + this.#marked.size,
    };
    const isNew = ({ id }: StoredJob) => !this.#marked.has(id);
    const found = (await jobs.list(query)).items.filter(isNew);
    for (const { id } of found) this.#marked.add(id);
    const claimant = claimantOf(this.#parts, new Set());
    await claimJobs({ ...this.#parts, claimant }, found);
  }
}
