import { ServiceError } from "../base/errors.ts";
import type { Sight } from "../models/access.ts";
import type { Case, StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import type { DeletedCase } from "../models/deleted-job.ts";
import type { Condition, ListQuery, Page, Store } from "../store/store.ts";
import { splitHistory } from "./case-history.ts";
import { both, isAsked, NOTHING } from "./in-sight.ts";
import type { Jobs } from "./jobs.ts";
import { withLive } from "./live-values.ts";

/** Default number of updates of each case in lists. */
export const LISTED_UPDATES = 100;

/** Reads cases. They are written by `open-case.ts`, `change-case.ts` and `case-history.ts` only, inside a unit. */
export class Cases {
  readonly #store: Store;
  readonly #clock: () => Date;
  readonly #seen: { readonly sight: Sight; readonly jobs: Jobs } | undefined;

  /** `seen` is what a caller may see, with the jobs that it sees. */
  constructor(
    store: Store,
    clock: () => Date = () => new Date(),
    seen: { readonly sight: Sight; readonly jobs: Jobs } | undefined = undefined,
  ) {
    this.#seen = seen;
    this.#store = store;
    this.#clock = clock;
  }

  /** The same for a caller who sees a part, such as these jobs: other cases do not exist. */
  seenBy(sight: Sight, jobs: Jobs): Cases {
    return new Cases(this.#store, this.#clock, {
      sight,
      jobs: sight.askedOf ? jobs.seenBy(ofJobs(sight)) : jobs,
    });
  }

  /** The case with all its updates. */
  async find(id: string): Promise<Case | undefined> {
    const found = await this.#row(id);
    return found && this.#withUpdates(found);
  }

  /** The case without its updates, or `case_not_found`. */
  async summary(id: string): Promise<StoredCase> {
    const item = await this.#row(id);
    if (!item) throw caseNotFound(id);
    return splitHistory(item).item;
  }

  /** The case with all its updates, or `case_not_found`. */
  async get(id: string): Promise<Case> {
    const item = await this.find(id);
    if (!item) throw caseNotFound(id);
    return item;
  }

  /** The newest updates of a case, oldest first. */
  async updates(id: string, newest?: number): Promise<CaseNodeUpdate[]> {
    const found = await this.#row(id);
    return found ? (await this.#withUpdates(found, newest)).updates : [];
  }

  /** A job's case by its id or by the id that the agent gave it. */
  async ofJob(jobId: string, idOrRef: string): Promise<StoredCase> {
    const direct = await this.#row(idOrRef);
    if (direct?.job_id === jobId) return splitHistory(direct).item;
    const { items } = await this.list({ where: { job_id: jobId, ref: idOrRef }, limit: 1 });
    if (!items[0]) throw caseNotFound(idOrRef);
    return items[0];
  }

  /** Cases without their updates. */
  async list(query?: ListQuery): Promise<Page<StoredCase>> {
    const { items, ...page } = await this.#store
      .table("Case")
      .list(this.#withLive(await this.#inSight(query)));
    return { items: items.map((item) => splitHistory(item).item), ...page };
  }

  /** Cases with the newest updates of each. */
  async listWithUpdates(query: ListQuery, newest: number): Promise<Page<Case>> {
    const { items, ...page } = await this.#store
      .table("Case")
      .list(this.#withLive(await this.#inSight(query)));
    const whole: Case[] = [];
    // One after another: a page of cases must not use the whole disk bandwidth.
    for (const item of items) whole.push(await this.#withUpdates(item, newest));
    return { items: whole, ...page };
  }

  /** Cases that were deleted alone and can be restored. */
  async deleted(query: ListQuery = {}): Promise<Page<DeletedCase>> {
    const where: Record<string, Condition | undefined> = { ...query.where, deleted_at: { gte: 0 } };
    // Who sees questions only has none that is open there.
    if (this.#seen?.sight.askedOf) where.id = NOTHING;
    else if (this.#seen) where.job_id = await this.#ofSeenJobs(where.job_id);
    return this.#store.table("DeletedCase").list({ ...query, where });
  }

  /** A case that was deleted, alone or with its job. */
  async findDeleted(id: string): Promise<DeletedCase | undefined> {
    const item = await this.#store.table("DeletedCase").get(id);
    if (!item || !this.#seen) return item;
    const { sight, jobs } = this.#seen;
    if (sight.askedOf) return undefined;
    return ((await jobs.find(item.job_id)) ?? (await jobs.findDeleted(item.job_id))) ? item : undefined;
  }

  /** The ids of what `list` would return, all by default: read from the index alone. */
  async ids(query?: ListQuery): Promise<string[]> {
    return this.#store.table("Case").ids(this.#withLive(await this.#inSight(query)));
  }

  async countBy(
    field: string,
    query?: Pick<ListQuery, "where" | "search" | "joins">,
  ): Promise<Record<string, number>> {
    return this.#store.table("Case").countBy(field, this.#withLive(await this.#inSight(query)));
  }

  async #row(id: string): Promise<StoredCase | undefined> {
    const found = await this.#store.table("Case").get(id);
    if (!this.#seen || !found) return found;
    const { sight, jobs } = this.#seen;
    return isAsked(sight, found) && (await jobs.find(found.job_id)) ? found : undefined;
  }

  /** A query with the condition of the sight: cases of jobs that are seen, and questions that are asked of somebody. */
  async #inSight<Q extends ListQuery>(query: Q | undefined): Promise<Q | undefined> {
    if (!this.#seen) return query;
    const { sight } = this.#seen;
    const where = { ...query?.where };
    if (sight.askedOf) {
      where.assigned_to = both(where.assigned_to, sight.askedOf);
      where.status = both(where.status, ["awaiting"]);
    }
    if (!sight.askedOf || sight.agents || sight.workspace !== undefined)
      where.job_id = await this.#ofSeenJobs(where.job_id);
    return { ...query, where } as Q;
  }

  /** The condition on the ids of jobs, and that these are seen. */
  async #ofSeenJobs(condition: Condition | undefined): Promise<Condition> {
    const { jobs } = this.#seen!;
    // Of one job, as most lists are, without reading the others.
    if (typeof condition === "string") return (await jobs.find(condition)) ? condition : NOTHING;
    if (condition === undefined && this.#store.relates) return jobs.areSeen;
    // Of those that are named, or that the caller sees: without the jobs of others.
    const where = Array.isArray(condition) ? { id: condition as readonly string[] } : {};
    return both(condition, await jobs.ids({ where, sort: "id" }));
  }

  /** The query about how long cases have taken so far, as that is what is shown of them. */
  #withLive<Q extends ListQuery>(query: Q | undefined): Q | undefined {
    return withLive(query, { now: () => this.#clock() });
  }

  async #withUpdates(found: StoredCase, newest?: number): Promise<Case> {
    const { item, history } = splitHistory(found);
    const { last_error: _, ...shown } = item;
    const after = Math.max(0, item.update_count - (newest ?? item.update_count));
    if (history) return { ...shown, updates: history.slice(after) };
    // An update may have been added since the case was read.
    const range = { after, limit: item.update_count - after };
    const entries = await this.#store.log("CaseUpdate").read(item.id, range);
    return { ...shown, updates: entries.map(({ entry }) => entry) };
  }
}

/** What a sight of questions says of their jobs. */
function ofJobs({ askedOf: _, ...sight }: Sight): Sight {
  return sight;
}

/** The error for an unknown case id. */
export function caseNotFound(id: string): ServiceError {
  return new ServiceError("case_not_found", `Case "${id}" does not exist`, {
    detail: "The job's case_ids list the existing ones.",
  });
}
