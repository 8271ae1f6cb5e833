import { hash } from "node:crypto";
import type { AgentRegistry } from "../../agents/registry.ts";
import type { Workspaces } from "../../agents/workspaces.ts";
import { toMilliseconds } from "../../base/duration.ts";
import type { Logger } from "../../base/log.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { Ledger, Unit } from "../../entities/ledger.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import type { SharedLimit } from "../../models/own-rows.ts";
import { FencedError, type Store } from "../../store/store.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { SharedPart } from "../queue/slot.ts";
import { whenWritable } from "../queue/when-writable.ts";
import type { Limit, Limited, Limits, Refusal, RunLimits } from "./cluster.ts";

/** Topic of hints: ids of limits of which a job has left something to others. */
export const LIMIT = "limit";

/** Milliseconds between two searches for rows that are no longer needed, and how many are removed together. */
const SWEEP = 3_600_000;
const SWEPT = 100;

type Run = Pick<StoredJob, "id" | "run_count">;

export interface SharedLimitsParts {
  readonly agents: AgentRegistry;
  readonly workspaces?: Workspaces | undefined;
  readonly jobs: Jobs;
  readonly ledger: Ledger;
  readonly store: Store;
  readonly clock: () => Date;
  readonly advancedBy?: (() => number) | undefined;
  readonly scheduler: Scheduler;
  readonly log: Logger;
}

/**
 * The limits that hold for all instances together. Each has a row with the jobs that it has let begin, which is read and
 * written in the unit that begins one: two instances cannot both take the last part. What the scheduler knows of other
 * instances only keeps it from asking in vain.
 */
export class SharedLimits implements RunLimits {
  readonly #parts: SharedLimitsParts;
  /** When rows that are no longer needed were removed last, by the monotonic clock. */
  #sweptAt = Number.NEGATIVE_INFINITY;
  /** Limits that let no job begin when they were read last. */
  readonly #full = new Map<string, Limit>();
  /** Runs that no longer have their part, by limit and job: their instances died before they gave it back. */
  readonly #gone = new Map<string, ReadonlyMap<string, number>>();

  constructor(parts: SharedLimitsParts) {
    this.#parts = parts;
  }

  async of(job: Limited): Promise<Limits> {
    const all = this.#limitsOf(job);
    const isRated = all.some(({ kind }) => kind === "rate");
    return { all, now: isRated ? await this.#now() : 0 };
  }

  async take(unit: Unit, { id, run_count }: Run, { all, now }: Limits): Promise<Refusal | undefined> {
    const next: SharedLimit[] = [];
    for (const limit of all) {
      const row = await unit.tx.get("SharedLimit", limit.id);
      const starts = (row?.starts ?? []).filter((at) => at > now - (limit.period ?? 0));
      const holders = this.#withoutGone(limit, row);
      const isIn = Object.hasOwn(holders, id);
      const taken = limit.kind === "rate" ? starts.length : Object.keys(holders).length - (isIn ? 1 : 0);
      if (taken >= limit.most) return { limit, starts: starts.slice(-limit.most), now };
      next.push(
        limit.kind === "rate"
          ? { id: limit.id, holders: {}, starts: [...starts, now] }
          : { id: limit.id, holders: { ...holders, [id]: run_count } },
      );
    }
    for (const row of next) {
      if (await unit.tx.get("SharedLimit", row.id)) await unit.tx.change("SharedLimit", row.id, () => row);
      else await unit.tx.insert("SharedLimit", row);
    }
    return undefined;
  }

  refused({ limit, starts, now }: Refusal): void {
    const { scheduler, clock } = this.#parts;
    if (limit.kind === "rate") {
      const ahead = clock().getTime() - now;
      scheduler.setStarts(
        limit.agent,
        limit.key,
        starts.map((at) => at + ahead),
      );
      return;
    }
    this.#full.set(limit.id, limit);
    scheduler.block(limit, true);
    void this.refresh([limit.id]).catch(() => {});
  }

  /** Nothing of it is known here: each unit reads the rows. */
  async recall(): Promise<void> {}

  partOf(job: StoredJob): SharedPart | undefined {
    const limits = this.#runLimitsOf(job);
    if (limits.length === 0) return undefined;
    const { scheduler } = this.#parts;
    const patiently = <T>(work: () => Promise<T>) =>
      whenWritable(work, (error) => {
        if (scheduler.isClosed) throw error;
      });
    return {
      rest: () => this.#inBackground(patiently(() => this.#giveBack(job, limits))),
      // Where the job was taken away, its run finds out by itself.
      retake: () =>
        patiently(() => this.#retake(job, limits)).catch((error: unknown) => {
          if (error instanceof FencedError || scheduler.isClosed) return undefined;
          throw error;
        }),
    };
  }

  ended(job: StoredJob): void {
    const kept = this.#limitsOf(job).filter(({ isKept }) => isKept);
    void this.#inBackground(this.#giveBack(job, kept));
  }

  /** Counts a run again that gave back what it has only while it runs; where it is refused, the result says that to the scheduler. */
  async #retake(job: StoredJob, all: readonly Limit[]): Promise<(() => void) | undefined> {
    const refusal = await this.#parts.ledger.write((unit) => this.take(unit, job, { all, now: 0 }), {
      fence: { job: job.id, epoch: job.run_count },
    });
    return refusal && (() => this.refused(refusal));
  }

  /** Where it fails, others find by themselves what it was to tell. */
  async #inBackground(work: Promise<void>): Promise<void> {
    const { scheduler, log } = this.#parts;
    await work.catch((error: unknown) => {
      if (!scheduler.isClosed) log.warn("a limit could not be given back yet", { error });
    });
  }

  /** Reads again which limits let jobs begin; all that do not, or those of these. */
  async refresh(ids?: readonly string[]): Promise<void> {
    const { store, scheduler } = this.#parts;
    const due = [...this.#full.values()].filter(({ id }) => !ids || ids.includes(id));
    if (due.length === 0) return;
    const { items } = await store.table("SharedLimit").list({
      where: { id: due.map(({ id }) => id) },
      sort: "id",
      limit: Number.POSITIVE_INFINITY,
      joins: "now",
    });
    const rows = new Map(items.map((row) => [row.id, row]));
    const jobs = await this.#read(items);
    for (const limit of due) {
      const gone = new Map<string, number>();
      const holders = Object.entries(rows.get(limit.id)?.holders ?? {});
      for (const [id, run] of holders) if (!hasPart(jobs.get(id), run, limit)) gone.set(id, run);
      if (gone.size > 0) this.#gone.set(limit.id, gone);
      if (holders.length - gone.size >= limit.most) continue;
      this.#full.delete(limit.id);
      scheduler.block(limit, false);
    }
  }

  /** Removes rows of rate limits in whose periods no job started: there may be one for each key. Does that once an hour. */
  async sweep(): Promise<void> {
    const { store, ledger } = this.#parts;
    if (performance.now() - this.#sweptAt < SWEEP) return;
    this.#sweptAt = performance.now();
    const now = await this.#now();
    const { items } = await store.table("SharedLimit").list({ limit: Number.POSITIVE_INFINITY });
    const over = items.filter((row) => this.#isOver(row, now)).map(({ id }) => id);
    for (let at = 0; at < over.length; at += SWEPT)
      await ledger.write(async ({ tx }) => {
        for (const id of over.slice(at, at + SWEPT)) {
          const row = await tx.get("SharedLimit", id);
          if (row && this.#isOver(row, now)) await tx.remove("SharedLimit", id);
        }
      });
  }

  /** The store's time, advanced as that of the service. */
  async #now(): Promise<number> {
    const { store, advancedBy } = this.#parts;
    const ahead = advancedBy?.() ?? 0;
    return (await store.now()).getTime() + ahead;
  }

  #isOver({ id, starts }: SharedLimit, now: number): boolean {
    const [kind, agent = ""] = id.split(" ");
    const { rateLimit } = this.#parts.agents.find(agent)?.definition ?? {};
    if (kind !== "rate" || !rateLimit) return false;
    return (starts ?? []).every((at) => at <= now - toMilliseconds(rateLimit.period));
  }

  async #read(rows: readonly SharedLimit[]): Promise<ReadonlyMap<string, StoredJob>> {
    const ids = [...new Set(rows.flatMap(({ holders }) => Object.keys(holders)))];
    if (ids.length === 0) return new Map();
    const { items } = await this.#parts.jobs.list({ where: { id: ids }, limit: ids.length });
    return new Map(items.map((job) => [job.id, job]));
  }

  #withoutGone({ id }: Limit, row: SharedLimit | undefined): Record<string, number> {
    const gone = this.#gone.get(id);
    const holders = Object.entries(row?.holders ?? {});
    return Object.fromEntries(holders.filter(([job, run]) => gone?.get(job) !== run));
  }

  async #giveBack({ id, run_count }: Run, limits: readonly Limit[]): Promise<void> {
    const { ledger, store } = this.#parts;
    if (limits.length === 0) return;
    await ledger.write(async ({ tx }) => {
      for (const limit of limits) {
        const row = await tx.get("SharedLimit", limit.id);
        const run = row?.holders[id];
        // A later run of the job may have it by now.
        if (!row || run === undefined || run > run_count) continue;
        const { [id]: _, ...holders } = row.holders;
        if (Object.keys(holders).length === 0) await tx.remove("SharedLimit", limit.id);
        else await tx.change("SharedLimit", limit.id, () => ({ ...row, holders }));
      }
    });
    store.hints.tell(
      LIMIT,
      limits.map((limit) => limit.id),
    );
  }

  #runLimitsOf(job: Limited): Limit[] {
    return this.#limitsOf(job).filter(({ kind, isKept }) => kind !== "rate" && !isKept);
  }

  #limitsOf({ agent_name: agent, concurrency_key: key, rate_key, run_count, job_context }: Limited): Limit[] {
    const definition = this.#parts.agents.find(agent)?.definition;
    const { concurrency, maxConcurrentJobs, rateLimit } = definition ?? {};
    const found: Limit[] = [];
    const add = (limit: Omit<Limit, "id" | "agent">) =>
      found.push({ id: idOf(limit.kind, agent, limit.key), agent, ...limit });
    if (concurrency && key != null)
      add({ kind: "key", key, most: concurrency.limit, isKept: concurrency.scope === "job" });
    if (maxConcurrentJobs !== undefined) add({ kind: "agent", most: maxConcurrentJobs, isKept: false });
    const workspace = job_context.workspace_id;
    const most = this.#parts.workspaces?.of(workspace).maxConcurrentJobs;
    if (most !== undefined) {
      const id = `workspace ${hash("sha256", workspace, "base64url")}`;
      found.push({ id, kind: "workspace", agent: workspace, most, isKept: false });
    }
    const rateKey = rateLimit?.key === undefined ? undefined : rate_key;
    if (rateLimit && rateKey !== null && !run_count) {
      const period = toMilliseconds(rateLimit.period);
      add({ kind: "rate", key: rateKey, most: rateLimit.limit, isKept: false, period });
    }
    return found;
  }
}

/** Whether a run still has its part of a limit. Where it has not, it never has it again. */
function hasPart(job: StoredJob | undefined, run: number, { isKept }: Limit): boolean {
  if (!job || isTerminal(job.status)) return false;
  return isKept ? job.run_count > 0 : Boolean(job.owner) && job.run_count === run;
}

/** A key may contain anything. */
function idOf(kind: Limit["kind"], agent: string, key: string | undefined): string {
  return [kind, agent, ...(key === undefined ? [] : [hash("sha256", key, "base64url")])].join(" ");
}
