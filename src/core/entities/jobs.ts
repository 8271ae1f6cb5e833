import { ServiceError } from "../base/errors.ts";
import { exactAmount } from "../base/exact-amount.ts";
import { andThen, type MaybePromise } from "../base/maybe-promise.ts";
import type { Sight } from "../models/access.ts";
import type { DeletedJob } from "../models/deleted-job.ts";
import { isTerminal } from "../models/entity-status.ts";
import { type Job, type StoredJob, toJob } from "../models/job.ts";
import type { ExportLine } from "../models/job-export.ts";
import type { DamagedJob } from "../models/own-rows.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { Condition, ListQuery, LogEntry, Page, Store } from "../store/store.ts";
import {
  asked,
  entryWithoutHidden,
  namesOthers,
  type OtherJobs,
  textWithoutHidden,
  withoutHidden,
} from "./hidden-jobs.ts";
import { jobsInSight, NOTHING, seesJob } from "./in-sight.ts";
import { withLive } from "./live-values.ts";

/** Knows what a job that runs has cost: it is stored with each step, but with the job only now and then. */
export interface LiveCosts {
  of?: (jobId: string) => number | undefined;
  /** Of all jobs that run here and have cost something, by id. */
  all?: () => ReadonlyMap<string, number>;
}

/** Reads jobs. They are written by `create-job.ts`, `change-job.ts` and `remove-job.ts` only, inside a unit. */
export class Jobs {
  readonly #store: Store;
  readonly #liveCosts: LiveCosts;
  readonly #clock: () => Date;
  readonly #sight: Sight | undefined;
  readonly #others: OtherJobs = {
    sees: async (id) => {
      const job = await this.#store.table("Job").peek(id);
      return job !== undefined && seesJob(this.#sight, job);
    },
    hides: async (id) => {
      const job =
        (await this.#store.table("Job").peek(id)) ?? (await this.#store.table("DeletedJob").get(id));
      return job !== undefined && !seesJob(this.#sight, job);
    },
  };

  constructor(
    store: Store,
    liveCosts: LiveCosts = {},
    clock: () => Date = () => new Date(),
    sight: Sight | undefined = undefined,
  ) {
    this.#sight = sight;
    this.#store = store;
    this.#liveCosts = liveCosts;
    this.#clock = clock;
  }

  /** The same for a caller who sees a part: other jobs do not exist. */
  seenBy(sight: Sight): Jobs {
    return new Jobs(this.#store, this.#liveCosts, this.#clock, sight);
  }

  /** Jobs that lost data in a store repair, and that must not resume by themselves. */
  async damaged(): Promise<DamagedJob[]> {
    if (this.#sight) return [];
    return (await this.#store.table("DamagedJob").list({ limit: Number.POSITIVE_INFINITY })).items;
  }

  async find(id: string): Promise<StoredJob | undefined> {
    const job = await this.#store.table("Job").get(id);
    return job && seesJob(this.#sight, job) ? this.asSeen(this.#withCost(job)) : undefined;
  }

  /** A job that the caller sees, without the ids of others. */
  asSeen(job: StoredJob, others = this.#others): MaybePromise<StoredJob> {
    return this.#sight === undefined || !namesOthers(job) ? job : withoutHidden(job, others);
  }

  /** Texts about jobs, such as lines that one has logged, without the ids of those that the caller does not see. */
  async textsAsSeen(texts: readonly string[]): Promise<string[]> {
    if (this.#sight === undefined) return [...texts];
    const others = asked(this.#others);
    return Promise.all(texts.map((text) => textWithoutHidden(text, others)));
  }

  /** The job, or `job_not_found`; with `agentName`, another agent's job is not found either. */
  async get(id: string, agentName?: string): Promise<StoredJob> {
    return found(await this.find(id), id, agentName);
  }

  /** The result of `get` for read-only use: frozen, and synchronous if it is in memory. */
  peek(id: string, agentName?: string): MaybePromise<Readonly<StoredJob>> {
    return andThen(this.#store.table("Job").peek(id), (job) => {
      const shown = found(job && seesJob(this.#sight, job) ? job : undefined, id, agentName);
      // The most frequent read.
      return this.#sight === undefined ? shown : this.asSeen(shown);
    });
  }

  /** The job as the API returns it, with the ids of its cases, oldest first. */
  async show(given: StoredJob): Promise<Job> {
    const job = this.#sight === undefined ? given : await this.asSeen(given);
    if (job.case_count === 0) return toJob(job, []);
    const query = { where: { job_id: job.id }, sort: "created_at" };
    return toJob(job, await this.#store.table("Case").ids(query));
  }

  /** Jobs that were deleted and can be restored. */
  async deleted(query?: ListQuery): Promise<Page<DeletedJob>> {
    return this.#store.table("DeletedJob").list(jobsInSight(this.#sight, query));
  }

  async findDeleted(id: string): Promise<DeletedJob | undefined> {
    const job = await this.#store.table("DeletedJob").get(id);
    return job && seesJob(this.#sight, job) ? job : undefined;
  }

  /** The condition that an id is one of a job that the caller sees. */
  get areSeen(): Condition {
    return { idIn: { table: "Job", where: jobsInSight<ListQuery>(this.#sight, {})?.where ?? {} } };
  }

  async list(query?: ListQuery): Promise<Page<StoredJob>> {
    const live = this.#withLive(this.#sight === undefined ? query : await this.#aboutSeen(query));
    const { items: found, ...page } = await this.#store.table("Job").list(live);
    // What is shown is what was searched: a job that runs may cost more by now.
    const costs = live?.live?.values?.total_cost;
    const items = found.map((job) => this.#withCost(job, costs?.get(job.id)));
    if (this.#sight === undefined) return { items, ...page };
    const others = asked(this.#others);
    return { items: await Promise.all(items.map((job) => this.asSeen(job, others))), ...page };
  }

  countBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "joins">,
  ): Promise<Record<string, number>> {
    if (this.#sight === undefined) return this.#store.table("Job").countBy(field, this.#withLive(query));
    return this.#aboutSeen(query).then((seen) =>
      this.#store.table("Job").countBy(field, this.#withLive(seen)),
    );
  }

  /** What jobs have cost together, per value of a facet, for those that cost something: read from the index alone. */
  async costBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "joins">,
  ): Promise<Record<string, number>> {
    const seen = this.#withLive(this.#sight === undefined ? query : await this.#aboutSeen(query));
    const live = {
      ...(seen as ListQuery | undefined)?.live,
      values: { total_cost: this.#liveCosts.all?.() ?? new Map() },
    };
    const sums = await this.#store.table("Job").sumBy(field, "total_cost", { ...seen, live });
    return Object.fromEntries(Object.entries(sums).map(([value, sum]) => [value, exactAmount(sum)]));
  }

  /** The ids of what `list` would return, all by default: read from the index alone. */
  ids(query?: ListQuery): Promise<string[]> {
    if (this.#sight === undefined) return this.#store.table("Job").ids(this.#withLive(query));
    return this.#aboutSeen(query).then((seen) => this.#store.table("Job").ids(this.#withLive(seen)));
  }

  /** The children of a job that have not ended and end with it. */
  async openChildren(id: string): Promise<StoredJob[]> {
    const where = { parent_id: id, status: ["stopped", "in_progress", "awaiting", "cancelling"] };
    const { items } = await this.list({ where, sort: "created_at", limit: Number.POSITIVE_INFINITY });
    return items.filter(({ parent }) => parent && !parent.detached);
  }

  /** Lines of a job's run log after number `after`. */
  async log(id: string, range?: { after?: number; limit?: number }): Promise<LogEntry<RunEntry>[]> {
    if (this.#sight && !(await this.#others.sees(id))) return [];
    const lines = this.#store.log("Run").read(id, range);
    return this.#sight ? this.#shown(await lines) : lines;
  }

  /** The beginning and the end of a long log; all of it if it has at most `first + last` entries. */
  async logEnds(id: string, { first, last }: { first: number; last: number }): Promise<LogEntry<RunEntry>[]> {
    if (this.#sight && !(await this.#others.sees(id))) return [];
    const log = this.#store.log("Run");
    const after = (await log.last(id)) - last;
    if (after <= first) return this.#shown(await log.read(id));
    const [beginning, end] = await Promise.all([log.read(id, { limit: first }), log.read(id, { after })]);
    return this.#shown([...beginning, ...end]);
  }

  /** The record of a job that the caller sees, without the ids of others. */
  async *exportAsSeen(lines: AsyncIterable<ExportLine>): AsyncGenerator<ExportLine, void> {
    const others = asked(this.#others);
    for await (const line of lines) {
      if (line.type === "job") yield { ...line, job: await this.asSeen(line.job, others) };
      else if (line.type === "entry") yield { ...line, entry: await entryWithoutHidden(line.entry, others) };
      else yield line;
    }
  }

  /** Lines of a log as the caller may read them. */
  async #shown(lines: LogEntry<RunEntry>[]): Promise<LogEntry<RunEntry>[]> {
    if (this.#sight === undefined) return lines;
    const others = asked(this.#others);
    return Promise.all(
      lines.map(async (line) => ({ ...line, entry: await entryWithoutHidden(line.entry, others) })),
    );
  }

  /** The query, or one that finds nothing where it asks for relatives of a job that the caller does not see. */
  async #aboutSeen<Q extends ListQuery>(query: Q | undefined): Promise<Q | undefined> {
    const { parent_id, forked_from, mission_id } = query?.where ?? {};
    const isAbout = async (id: Condition | undefined, hidden: (id: string) => Promise<boolean>) =>
      typeof id === "string" && (await hidden(id));
    const isHidden = async (id: string) => !(await this.#others.sees(id));
    const isOther =
      (await isAbout(parent_id, isHidden)) ||
      (await isAbout(forked_from, isHidden)) ||
      (await isAbout(mission_id, this.#others.hides));
    if (!isOther || query === undefined) return query;
    return { ...query, where: { ...query.where, id: NOTHING } };
  }

  #withCost(job: StoredJob, searched?: number): StoredJob {
    const total_cost = isTerminal(job.status) ? undefined : (searched ?? this.#liveCosts.of?.(job.id));
    return total_cost === undefined ? job : { ...job, total_cost };
  }

  /** The query about what jobs cost now, and how long they have taken so far, as that is what is shown of them. */
  #withLive<Q extends ListQuery>(query: Q | undefined): Q | undefined {
    const seen = jobsInSight(this.#sight, query);
    return withLive(seen, { now: () => this.#clock(), costs: this.#liveCosts.all });
  }
}

function found<J extends Readonly<StoredJob>>(job: J | undefined, id: string, agentName?: string): J {
  if (!job || (agentName !== undefined && job.agent_name !== agentName)) throw jobNotFound(id);
  return job;
}

/** The error for an unknown job id. */
export function jobNotFound(id: string): ServiceError {
  return new ServiceError("job_not_found", `Job "${id}" does not exist`, {
    detail: "List the jobs to see which exist.",
  });
}
