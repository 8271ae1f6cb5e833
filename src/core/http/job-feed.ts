import { isLongerThan } from "../agents/json-value.ts";
import { getOrMake } from "../base/get-or-make.ts";
import type { HookListener } from "../entities/hooks.ts";
import type { Jobs } from "../entities/jobs.ts";
import type { EmittedChunks } from "../models/emitted-chunks.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { CallEntry, RunEntry } from "../models/run-entry.ts";
import type { EmissionRelay } from "../runs/emissions/emission-relay.ts";
import type { Emissions } from "../runs/emissions/emissions.ts";
import { attemptKey, recordedChunks } from "../runs/emissions/recorded-chunks.ts";
import type { Log } from "../store/store.ts";
import type { StreamSource } from "./live-streams.ts";
import { type ServerEvent, toEventText } from "./server-event.ts";

/** Entries read from the log per batch: few at first because each may be long. */
const FEWEST = 4;
const MOST = 64;
/** Characters of a batch beyond which the next is smaller. */
const LONG = 256 * 1024;

const ELSEWHERE = {
  available: false,
  message: "The job runs at another instance: what its steps emit has not reached this one yet",
};

export interface WatchOptions {
  /** Number of the last entry that is known. @default 0 */
  readonly after?: number;
  /** Ends it. */
  readonly signal?: AbortSignal;
}

type Source = () => Promise<readonly ServerEvent[] | undefined>;

/** What a feed needs where several instances share the store. */
export interface SharedFeed {
  /** Id of this instance. */
  readonly instance: () => string | undefined;
  readonly relay: EmissionRelay;
}

interface JobFeedParts {
  readonly jobs: Jobs;
  readonly log: Log<RunEntry>;
  readonly hooks: HookListener;
  readonly emissions: Emissions;
  /** Where several instances share the store. */
  readonly shared?: SharedFeed;
}

/** Reports what happens to jobs: what is in their run logs, and what their steps emit now. */
export class JobFeed {
  readonly #parts: JobFeedParts;
  readonly #followers: Followers;

  constructor(parts: JobFeedParts, followers = new Followers(parts.hooks)) {
    this.#parts = parts;
    this.#followers = followers;
  }

  /** The same for a caller who sees a part: as these jobs show it. */
  seenBy(jobs: Jobs): JobFeed {
    return new JobFeed({ ...this.#parts, jobs }, this.#followers);
  }

  /** Number of the last entry in a job's log. */
  last(jobId: string): Promise<number> {
    return this.#parts.log.last(jobId);
  }

  /** What `watch` gives, as the texts of a stream; `show` says what its reader is shown of each event. */
  follow(jobId: string, after: number, show?: (event: ServerEvent) => ServerEvent): StreamSource {
    let next: Source | undefined;
    let isFirst = true;
    return async (signal) => {
      next ??= this.#open(jobId, after, signal);
      const events = await next();
      if (!events) return undefined;
      const text = (show ? events.map(show) : events).map(toEventText).join("");
      if (!isFirst) return text;
      isFirst = false;
      return `retry: 1000\n${text}`;
    };
  }

  /**
   * The current job as `snapshot`, then each entry of its log after number `after` as it is written, named by its type,
   * `chunk` with what steps emit, and `end` once the job has ended. What an attempt has emitted comes before the entry that
   * ends it, also to a reader who comes later: from the record, cut otherwise. Entries are read from the log, not buffered
   * for each reader: a slow one gets all of them. Of chunks, those are counted that a slow reader does not get. Where the
   * job runs at another instance, `chunks` says that they are not here, and once they come.
   */
  async *watch(jobId: string, { after = 0, signal }: WatchOptions = {}): AsyncGenerator<ServerEvent, void> {
    const left = new AbortController();
    const over = signal ? AbortSignal.any([signal, left.signal]) : left.signal;
    try {
      const next = this.#open(jobId, after, over, true);
      for (let events = await next(); events; events = await next()) yield* events;
    } finally {
      left.abort();
    }
  }

  /**
   * Gives what has happened since the last call, and waits until something has. With `isWhole`, chunks that come too late
   * to be heard come from the records of their attempts.
   */
  #open(jobId: string, after: number, signal: AbortSignal, isWhole = false): Source {
    const { jobs, shared } = this.#parts;
    let seen = after;
    let batch = FEWEST;
    let state: "new" | "following" | "over" = "new";
    const change = this.#subscribe(jobId, signal);
    const heard = new HeardAttempts();
    const chunksOf = (which: "over" | "all") =>
      isWhole ? heard.filter(change.chunks(which)) : change.chunks(which);
    const toEvents = ({ seq, entry }: { readonly seq: number; readonly entry: RunEntry }): ServerEvent[] => {
      const recorded = recordedChunks(entry);
      if (!recorded) return [{ event: entry.type, id: seq, data: entry }];
      const { emitted: _, ...data } = entry as CallEntry;
      const missing = isWhole && heard.ends(recorded) ? [recorded] : [];
      return [...missing.map(toEvent), { event: entry.type, id: seq, data }];
    };
    // Before that, chunks would come earlier than entries that were written before them.
    let isCurrent = !isWhole;
    let isHere = true;

    return async () => {
      if (state === "over") return undefined;
      while (!signal.aborted) {
        if (change.isStored) {
          change.isStored = false;
          // The job is read before its log: once a job has ended, its log is complete.
          const job = await jobs.find(jobId);
          if (job && state === "new") {
            state = "following";
            change.isStored = true;
            return [{ event: "snapshot", data: await jobs.show(job) }];
          }
          if (shared) {
            const runsHere = !job?.owner || isTerminal(job.status) || job.owner === shared.instance();
            if (!runsHere) change.relay();
            shared.relay.setOwner(jobId, job?.owner);
            const comeHere = runsHere || shared.relay.hears(jobId);
            if (comeHere !== isHere) {
              isHere = comeHere;
              change.isStored = true;
              return [{ event: "chunks", data: isHere ? { available: true } : ELSEWHERE }];
            }
          }
          const entries = job ? await jobs.log(jobId, { after: seen, limit: batch }) : [];
          shared?.relay.settle(jobId, entries);
          // They come before the entry that ends their attempt, which is read again.
          const ended = isCurrent ? chunksOf("over") : [];
          if (ended.length > 0) {
            change.isStored = true;
            return ended.map(toEvent);
          }
          if (entries.length > 0) {
            change.isStored = true;
            seen = entries.at(-1)!.seq;
            const events = entries.flatMap(toEvents);
            const isAll = entries.length < batch;
            isCurrent ||= isAll;
            batch = isLongerThan(LONG, entries) ? 1 : Math.min(batch * 2, MOST);
            return isAll ? [...events, ...chunksOf("all").map(toEvent)] : events;
          }
          isCurrent = true;
          if (!job || isTerminal(job.status)) {
            state = "over";
            return [{ event: "end", data: { status: job?.status ?? "deleted" } }];
          }
        }
        const chunks = chunksOf("all");
        if (chunks.length > 0) return chunks.map(toEvent);
        await change.happened();
      }
      return undefined;
    };
  }

  /** What happens to a job, until the signal fires. */
  #subscribe(jobId: string, signal: AbortSignal) {
    let settle: (() => void) | undefined;
    const wake = (): void => settle?.();
    const { emissions, shared } = this.#parts;
    const reader = emissions.follow(jobId, wake);
    let stopRelay: (() => void) | undefined;
    const change = {
      /** From now on, chunks come from other instances, too. */
      relay: () => {
        if (!signal.aborted) stopRelay ??= shared?.relay.follow(jobId, tell);
      },
      /** Whether something may have been stored since it was set to false. */
      isStored: true,
      chunks: (which: "over" | "all") => reader.take(which),
      /** Settles once something happens; not if it has. */
      happened: () =>
        new Promise<void>((resolve) => {
          settle = resolve;
          if (change.isStored || signal.aborted) resolve();
        }),
    };
    const tell = (): void => {
      change.isStored = true;
      wake();
    };
    const stopFollowing = this.#followers.add(jobId, tell);
    const leave = (): void => {
      stopRelay?.();
      reader.close();
      stopFollowing();
      wake();
    };
    if (signal.aborted) leave();
    else signal.addEventListener("abort", leave, { once: true });
    return change;
  }
}

/** Those who follow jobs, by job. While there are none, no hook is listened to. */
class Followers {
  readonly #hooks: HookListener;
  readonly #byJob = new Map<string, Set<() => void>>();
  #stop: (() => void)[] = [];

  constructor(hooks: HookListener) {
    this.#hooks = hooks;
  }

  /** Calls `tell` whenever something may have been stored of a job, until the result is called. */
  add(jobId: string, tell: () => void): () => void {
    if (this.#byJob.size === 0) this.#listen();
    const followers = getOrMake(this.#byJob, jobId, () => new Set());
    followers.add(tell);
    return () => {
      if (!followers.delete(tell) || followers.size > 0) return;
      this.#byJob.delete(jobId);
      if (this.#byJob.size === 0) for (const stop of this.#stop.splice(0)) stop();
    };
  }

  #listen(): void {
    this.#stop = [
      this.#hooks.on("run:entry", ({ job_id }) => this.#tell(job_id)),
      this.#hooks.on("job:changed", ({ job }) => this.#tell(job.id)),
      this.#hooks.on("job:deleted", ({ job }) => this.#tell(job.id)),
      this.#hooks.on("jobs:touched", ({ jobs }) => {
        for (const id of jobs === "all" ? this.#byJob.keys() : jobs) this.#tell(id);
      }),
    ];
  }

  #tell(jobId: string): void {
    const followers = this.#byJob.get(jobId);
    if (followers) for (const tell of [...followers]) tell();
  }
}

/** Of which attempts a reader has had chunks: each comes once, as it is emitted or from its record. */
class HeardAttempts {
  readonly #heard = new Map<string, "live" | "ended">();

  /** Without the chunks of attempts that have come from their records. */
  filter(chunks: readonly EmittedChunks[]): EmittedChunks[] {
    const known = chunks.filter((one) => this.#heard.get(attemptKey(one)) !== "ended");
    for (const one of known) this.#heard.set(attemptKey(one), "live");
    return known;
  }

  /** An attempt is over; gives whether its chunks were not heard. */
  ends(attempt: EmittedChunks): boolean {
    const key = attemptKey(attempt);
    // All that was emitted has come before.
    if (this.#heard.delete(key)) return false;
    this.#heard.set(key, "ended");
    return true;
  }
}

function toEvent(data: EmittedChunks): ServerEvent {
  return { event: "chunk", data };
}
