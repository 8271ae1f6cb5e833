import type { HookListener } from "../../../core/entities/hooks.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";

/** What changed since the last message. */
export interface LiveChange {
  readonly tick: number;
  readonly topics: readonly string[];
  /** Ids of changed jobs and cases, unless there are too many to name. */
  readonly jobs: readonly string[];
  readonly cases: readonly string[];
  readonly more: boolean;
  readonly added: { readonly jobs: number; readonly cases: number };
  /** Open questions, where cases changed. */
  readonly inbox?: number;
  /** Jobs that failed in the last 24 hours, where jobs changed. */
  readonly failures?: number;
  /** Text for screen readers. */
  readonly spoken: string;
}

type Send = (event: "change", data: string, tick: number) => void;

/** What a subscriber sees of everything, where that is a part. */
export interface PartSeen {
  /** Of these ids, those of jobs that it sees. */
  readonly jobs: (ids: readonly string[]) => Promise<readonly string[]>;
  /** The same for cases. */
  readonly cases: (ids: readonly string[]) => Promise<readonly string[]>;
  readonly countQuestions: () => Promise<number>;
  readonly countFailures: () => Promise<number>;
  /** Differs once a job or case that it sees has changed, or what is recorded or logged of this job. */
  readonly newest: (jobIds: readonly string[]) => Promise<string>;
  /** The same for all who see the same. */
  readonly who: string;
}

interface Subscriber {
  readonly jobId: string | undefined;
  readonly send: Send;
  readonly part: PartSeen | undefined;
  /** What it sees of everything, as last sent, or when it came. */
  known?: Known;
  /** Settles once that is known. */
  read?: Promise<void>;
  /** The number of all changes when something that it sees changed last. */
  toldAt?: number;
}

interface Known {
  readonly inbox: number;
  readonly failures: number;
  readonly newest: string;
}

export interface LiveHubParts {
  readonly hooks: HookListener;
  /** Something that changes with the newest change in the store, and with the logs of some jobs. */
  readonly newest: (jobIds: readonly string[]) => Promise<string>;
  /** Number of open questions; read when cases changed and a page listens. */
  readonly countQuestions: () => Promise<number>;
  /** Number of jobs that failed in the last 24 hours; read when jobs changed and a page listens. */
  readonly countFailures: () => Promise<number>;
  readonly onError: (error: unknown) => void;
  /** Minimum milliseconds between two messages. @default 1000 */
  readonly interval?: number;
}

const FIRST_WAIT = 120;
const MOST_IDS = 200;

/**
 * Notifies open pages of changes, in batches: with a thousand changes a second a page is notified once a
 * second, and a page without changes receives and requests nothing.
 */
export class LiveHub {
  /** Grows with every change; each process starts with a higher value. */
  tick = Date.now();
  readonly #parts: LiveHubParts;
  readonly #interval: number;
  readonly #subscribers = new Set<Subscriber>();
  readonly #stop: (() => void)[];
  #pending = new Pending();
  #timer: NodeJS.Timeout | undefined;
  #toldAt = 0;
  /** `newest` when it was last read. */
  #newest = "";

  constructor(parts: LiveHubParts) {
    this.#parts = parts;
    this.#interval = parts.interval ?? 1000;
    const { hooks } = parts;
    this.#stop = [
      hooks.on("job:created", ({ job }) => this.#note("jobs", job.id, job.id, "created")),
      hooks.on("job:changed", ({ job, previous }) => {
        const ended = isTerminal(job.status) && !isTerminal(previous.status);
        this.#note(
          "jobs",
          job.id,
          job.id,
          ended ? (job.status === "completed" ? "completed" : "failed") : undefined,
        );
      }),
      hooks.on("job:deleted", ({ job }) => this.#note("jobs", job.id, job.id)),
      hooks.on("job:restored", ({ job }) => this.#note("jobs", job.id, job.id)),
      hooks.on("case:opened", ({ case: item }) => this.#note("cases", item.id, item.job_id, "opened")),
      hooks.on("case:changed", ({ case: item, previous }) => {
        const asked = item.status === "awaiting" && previous.status !== "awaiting";
        this.#note("cases", item.id, item.job_id, asked ? "asked" : undefined);
      }),
      hooks.on("case:restored", ({ case: item }) => this.#note("cases", item.id, item.job_id)),
      hooks.on("case:deleted", ({ case: item }) => this.#note("cases", item.id, item.job_id)),
      hooks.on("run:entry", ({ job_id }) => this.#note("jobs", job_id, job_id)),
      hooks.on("jobs:touched", ({ jobs, cases }) => {
        if (jobs === "all") return this.#poll();
        for (const id of jobs) this.#note("jobs", id, id);
        for (const id of cases) this.#note("cases", id, "");
      }),
    ];
  }

  /** Grows with every change that open pages of somebody who sees a part were notified of; `""` for all changes. */
  tickOf(who: string): number {
    if (who === "") return this.tick;
    return Math.max(
      0,
      ...[...this.#subscribers].map(({ part, toldAt = 0 }) => (part?.who === who ? toldAt : 0)),
    );
  }

  get listeners(): number {
    return this.#subscribers.size;
  }

  /** Sends changes of one job, or of everything, or of the part that somebody sees; the result ends it. */
  subscribe(jobId: string | undefined, send: Send, part?: PartSeen): () => void {
    const subscriber: Subscriber = { jobId, send, part };
    // Else the first change of others would be sent for the number alone, and say that something happens.
    if (part)
      subscriber.read = readPart(subscriber, part)
        .then((known) => {
          subscriber.known ??= known;
        })
        .catch(this.#parts.onError);
    this.#subscribers.add(subscriber);
    return () => void this.#subscribers.delete(subscriber);
  }

  /** Notifies the open page of a job: what it shows beside the job and its cases has changed. */
  touch(jobId: string): void {
    if ([...this.#subscribers].some((one) => one.jobId === jobId)) this.#note("jobs", jobId, jobId);
  }

  /** Has the open pages that show figures of the whole service read them again, or of what somebody sees. */
  refresh(who = ""): void {
    if (this.#subscribers.size === 0) return;
    if (who !== "") {
      for (const { part, jobId, send } of this.#subscribers)
        if (part?.who === who && jobId === undefined) sendPart(send, { topics: ["service"] });
      return;
    }
    this.tick++;
    this.#pending.topics.add("service");
    this.#schedule();
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const stop of this.#stop) stop();
    this.#subscribers.clear();
  }

  /** Hints of other instances may get lost. */
  async #poll(): Promise<void> {
    if (this.#subscribers.size === 0) return;
    const ids = [...this.#subscribers].flatMap(({ jobId }) => (jobId === undefined ? [] : [jobId]));
    const newest = await this.#parts.newest([...new Set(ids)].sort());
    if (newest === this.#newest) return;
    this.#newest = newest;
    this.tick++;
    this.#pending.addAll(ids);
    this.#schedule();
  }

  #note(topic: "jobs" | "cases", id: string, jobId: string, happening?: Happening): void {
    this.tick++;
    if (this.#subscribers.size === 0) return;
    this.#pending.add(topic, id, jobId, happening);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#subscribers.size === 0) return;
    const wait = Math.max(FIRST_WAIT, this.#toldAt + this.#interval - performance.now());
    this.#timer = setTimeout(() => {
      this.#tell().catch(this.#parts.onError);
    }, wait);
    this.#timer.unref();
  }

  async #tell(): Promise<void> {
    const pending = this.#pending;
    this.#pending = new Pending();
    this.#timer = undefined;
    this.#toldAt = performance.now();
    const { tick } = this;
    const { countQuestions, countFailures } = this.#parts;
    const [inbox, failures] = await Promise.all([
      pending.topics.has("cases") ? countQuestions() : undefined,
      pending.topics.has("jobs") ? countFailures() : undefined,
    ]);
    const data = JSON.stringify(pending.toChange(tick, { inbox, failures }));
    for (const subscriber of this.#subscribers) {
      const { jobId, send, part } = subscriber;
      if (jobId !== undefined && !pending.jobIds.has(jobId)) continue;
      if (part) this.#tellPart(subscriber, part, pending).catch(this.#parts.onError);
      else send("change", data, tick);
    }
  }

  /** Sends what concerns the part that a subscriber sees, and nothing where nothing does: no id, and no number, of more. */
  async #tellPart(subscriber: Subscriber, part: PartSeen, pending: Pending): Promise<void> {
    await subscriber.read;
    const before = subscriber.known;
    const { jobs, cases, isAll } = pending.ids;
    const [seenJobs, seenCases, known] = await Promise.all([
      jobs.length > 0 ? part.jobs(jobs) : [],
      cases.length > 0 ? part.cases(cases) : [],
      readPart(subscriber, part, { before, topics: pending.topics, isAll }),
    ]);
    const isNew =
      known.inbox !== before?.inbox ||
      known.failures !== before?.failures ||
      known.newest !== before?.newest ||
      seenJobs.length + seenCases.length > 0;
    if (!isNew || !this.#subscribers.has(subscriber)) return;
    subscriber.known = known;
    subscriber.toldAt = this.tick;
    const { inbox, failures } = known;
    sendPart(subscriber.send, {
      topics: ["jobs", "cases"],
      inbox,
      failures,
      ...named(seenJobs, seenCases, isAll),
    });
  }
}

/** What is known of the part that somebody sees: what may have changed is read. */
async function readPart(
  { jobId }: Pick<Subscriber, "jobId">,
  part: PartSeen,
  pending: {
    readonly before?: Known | undefined;
    readonly topics?: ReadonlySet<string>;
    readonly isAll?: boolean;
  } = {},
): Promise<Known> {
  const { before, topics, isAll = false } = pending;
  const [inbox, failures, newest] = await Promise.all([
    before && !topics?.has("cases") ? before.inbox : part.countQuestions(),
    before && !topics?.has("jobs") ? before.failures : part.countFailures(),
    before && !isAll ? before.newest : part.newest(jobId === undefined ? [] : [jobId]),
  ]);
  return { inbox, failures, newest };
}

function sendPart(send: Send, change: Pick<LiveChange, "topics"> & Partial<LiveChange>): void {
  const tick = Date.now();
  const nothing = { jobs: [], cases: [], more: false, added: { jobs: 0, cases: 0 }, spoken: "" };
  send("change", JSON.stringify({ ...nothing, ...change, tick }), tick);
}

/** The ids, unless there are too many to name, or it is not known which. */
function named(
  jobs: readonly string[],
  cases: readonly string[],
  isAll: boolean,
): Pick<LiveChange, "jobs" | "cases" | "more"> {
  const more = isAll || jobs.length > MOST_IDS || cases.length > MOST_IDS;
  return { jobs: more ? [] : jobs, cases: more ? [] : cases, more };
}

type Happening = "created" | "completed" | "failed" | "opened" | "asked";

class Pending {
  readonly topics = new Set<string>();
  readonly jobIds = new Set<string>();
  readonly #ids = { jobs: new Set<string>(), cases: new Set<string>() };
  readonly #happenings = new Map<Happening, number>();
  #isAll = false;

  /** Anything may have changed, also in these jobs. */
  addAll(jobIds: readonly string[]): void {
    for (const topic of ["jobs", "cases"]) this.topics.add(topic);
    for (const id of jobIds) this.jobIds.add(id);
    this.#isAll = true;
  }

  add(topic: "jobs" | "cases", id: string, jobId: string, happening: Happening | undefined): void {
    this.topics.add(topic);
    this.jobIds.add(jobId);
    this.#ids[topic].add(id);
    if (happening) this.#happenings.set(happening, this.#count(happening) + 1);
  }

  /** All ids; `isAll`: and anything else may have changed. */
  get ids(): {
    readonly jobs: readonly string[];
    readonly cases: readonly string[];
    readonly isAll: boolean;
  } {
    const { jobs, cases } = this.#ids;
    return { jobs: [...jobs], cases: [...cases], isAll: this.#isAll };
  }

  toChange(tick: number, counts: { inbox: number | undefined; failures: number | undefined }): LiveChange {
    const { jobs, cases, isAll } = this.ids;
    return {
      tick,
      topics: [...this.topics],
      ...named(jobs, cases, isAll),
      added: { jobs: this.#count("created"), cases: this.#count("opened") },
      ...counts,
      spoken: this.#spoken(),
    };
  }

  #count(happening: Happening): number {
    return this.#happenings.get(happening) ?? 0;
  }

  #spoken(): string {
    const said = [
      [this.#count("asked"), "waiting for an answer"],
      [this.#count("completed"), "completed"],
      [this.#count("failed"), "failed or cancelled"],
      [this.#count("created"), "started"],
    ] as const;
    return said
      .filter(([count]) => count > 0)
      .map(([count, what]) => `${count} ${count === 1 ? "job" : "jobs"} ${what}`)
      .join(", ");
  }
}
