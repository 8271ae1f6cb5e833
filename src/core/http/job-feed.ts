import type { HookListener } from "../entities/hooks.ts";
import type { Jobs } from "../entities/jobs.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { Log } from "../store/store.ts";
import type { StreamSource } from "./live-streams.ts";
import { toEventText } from "./server-event.ts";

/** Entries read from the log per batch: few at first because each may be long. */
const FEWEST = 4;
const MOST = 64;
/** Characters of a batch beyond which the next is smaller. */
const LONG = 256 * 1024;

interface Subscription {
  /** Earlier changes do not count. */
  expect(): void;
  /** Settles once something has changed since. */
  happened(): Promise<void>;
}

/** Feeds live streams with what happens to jobs, read from their run logs. */
export class JobFeed {
  readonly #jobs: Jobs;
  readonly #log: Log<RunEntry>;
  readonly #followers = new Map<string, Set<() => void>>();

  constructor(jobs: Jobs, log: Log<RunEntry>, hooks: HookListener) {
    this.#jobs = jobs;
    this.#log = log;
    hooks.on("run:entry", ({ job_id }) => this.#tell(job_id));
    hooks.on("job:changed", ({ job }) => this.#tell(job.id));
    hooks.on("job:deleted", ({ job }) => this.#tell(job.id));
    hooks.on("jobs:touched", ({ jobs }) => {
      for (const id of jobs === "all" ? this.#followers.keys() : jobs) this.#tell(id);
    });
  }

  /** Number of the last entry in a job's log. */
  last(jobId: string): Promise<number> {
    return this.#log.last(jobId);
  }

  /**
   * The current job, then each entry of its log after number `after` as it is written, then `end` once the
   * job has ended. Entries are read from the log, not buffered per reader: missed ones are read again.
   */
  follow(jobId: string, after: number): StreamSource {
    let seen = after;
    let batch = FEWEST;
    let state: "new" | "following" | "over" = "new";
    let change: Subscription | undefined;

    return async (signal) => {
      if (state === "over") return undefined;
      change ??= this.#subscribe(jobId, signal);
      while (!signal.aborted) {
        change.expect();
        // The job is read before its log: once a job has ended, its log is complete.
        const job = await this.#jobs.find(jobId);
        if (job && state === "new") {
          state = "following";
          return `retry: 1000\n${toEventText({ event: "snapshot", data: await this.#jobs.show(job) })}`;
        }
        const entries = job ? await this.#log.read(jobId, { after: seen, limit: batch }) : [];
        if (entries.length > 0) {
          seen = entries.at(-1)!.seq;
          const text = entries
            .map(({ seq, entry }) => toEventText({ event: entry.type, id: seq, data: entry }))
            .join("");
          batch = text.length > LONG ? 1 : Math.min(batch * 2, MOST);
          return text;
        }
        if (!job || isTerminal(job.status)) {
          state = "over";
          return toEventText({ event: "end", data: { status: job?.status ?? "deleted" } });
        }
        await change.happened();
      }
      return undefined;
    };
  }

  /** Reports changes of a job since the last `expect`, until the reader disconnects. */
  #subscribe(jobId: string, signal: AbortSignal): Subscription {
    let changed = true;
    let settle: (() => void) | undefined;
    const tell = (): void => {
      changed = true;
      settle?.();
    };
    const followers = this.#followers.get(jobId) ?? new Set();
    this.#followers.set(jobId, followers.add(tell));
    const leave = (): void => {
      followers.delete(tell);
      if (followers.size === 0 && this.#followers.get(jobId) === followers) this.#followers.delete(jobId);
      tell();
    };
    signal.addEventListener("abort", leave, { once: true });
    return {
      expect: () => {
        changed = false;
      },
      happened: () =>
        new Promise((resolve) => {
          settle = resolve;
          if (changed) resolve();
        }),
    };
  }

  #tell(jobId: string): void {
    const followers = this.#followers.get(jobId);
    if (followers) for (const tell of [...followers]) tell();
  }
}
