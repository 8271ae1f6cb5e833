import type { AgentRegistry } from "../../agents/registry.ts";
import { toMilliseconds } from "../../base/duration.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { StoredJob } from "../../models/job.ts";
import { UNFINISHED } from "../../models/job-state.ts";
import type { Position } from "../../store/store.ts";
import { toQueuedJob } from "../queue/queued-job.ts";
import type { Scheduler } from "../queue/scheduler.ts";
import type { Limits, RunLimits } from "./cluster.ts";

/** Jobs that are read together. */
const PAGE = 500;

const NONE: Limits = { all: [], now: 0 };

export interface LocalLimitsParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly clock: () => Date;
  readonly scheduler: Scheduler;
}

/** The limits of the only instance: its scheduler counts them. */
export class LocalLimits implements RunLimits {
  readonly #parts: LocalLimitsParts;

  constructor(parts: LocalLimitsParts) {
    this.#parts = parts;
  }

  async recall(): Promise<void> {
    await this.#holdKeys();
    await this.#recallStarts();
  }

  of(): Limits {
    return NONE;
  }

  take(): undefined {
    return undefined;
  }

  refused(): void {}

  partOf(): undefined {
    return undefined;
  }

  ended(): void {}

  /** Gives the jobs that were started by earlier processes the concurrency keys that they keep to their ends. */
  async #holdKeys(): Promise<void> {
    const { agents, jobs, scheduler } = this.#parts;
    for (const { slug, definition } of agents.list()) {
      if (definition.concurrency?.scope !== "job") continue;
      const where = { agent_name: slug, status: UNFINISHED };
      let after: Position | undefined;
      do {
        const { items, next } = await jobs.list({ where, sort: "created_at", limit: PAGE, after });
        for (const job of items) if (job.run_count > 0) scheduler.hold(toQueuedJob(job));
        after = next;
      } while (after);
    }
  }

  /** Counts the starts of earlier processes that are in the present period of a rate limit. */
  async #recallStarts(): Promise<void> {
    const { agents, jobs, clock, scheduler } = this.#parts;
    for (const { slug, definition } of agents.list()) {
      if (!definition.rateLimit) continue;
      const since = new Date(clock().getTime() - toMilliseconds(definition.rateLimit.period)).toISOString();
      const starts: { readonly at: string; readonly job: StoredJob }[] = [];
      let after: Position | undefined;
      do {
        const page = { where: { agent_name: slug }, sort: "-updated_at", limit: PAGE, after };
        const { items, next } = await jobs.list(page);
        for (const job of items) if (job.run_count > 0) starts.push({ at: await this.#startedAt(job), job });
        after = items.length > 0 && items.at(-1)!.updated_at >= since ? next : undefined;
      } while (after);
      const inOrder = starts
        .filter(({ at }) => at > since)
        .sort((one, other) => (one.at < other.at ? -1 : 1));
      for (const { at, job } of inOrder) scheduler.startedBefore(toQueuedJob(job), Date.parse(at));
    }
  }

  /** When a job started first: the beginning of its log says so. */
  async #startedAt({ id, updated_at, forked_from }: StoredJob): Promise<string> {
    // The beginning of a fork's log is that of another job.
    if (forked_from) return updated_at;
    const lines = await this.#parts.jobs.log(id, { limit: 5 });
    const start = lines.find(({ entry }) => entry.type === "status" && entry.from === "stopped");
    return start?.entry.at ?? updated_at;
  }
}
