import type { Case } from "../core/models/case.ts";
import type { EmittedChunks, EmittingStep } from "../core/models/emitted-chunks.ts";
import type { EntityStatus } from "../core/models/entity-status.ts";
import type { RunEntry } from "../core/models/run-entry.ts";
import { ClientError } from "./client-error.ts";
import type { JobEvent } from "./job-events.ts";
import { hasEnded } from "./job-result.ts";
import { pause } from "./outage.ts";
import type { RemoteJob, TypedJob } from "./remote-job.ts";

/** What a running step has emitted so far. */
export interface LiveOutput extends EmittingStep {
  readonly chunks: readonly unknown[];
  /** Its chunks that are text, joined. */
  readonly text: string;
  /** How many of its first chunks are missing: this reader was too slow, or there were too many. */
  readonly missing: number;
  /** Whether the step has ended: it is shown until its case has been read again, so that no text is lost for a moment. */
  readonly isOver: boolean;
}

/** What a page knows about a job. */
export interface JobState<Result = unknown> {
  /** `loading` until the service has answered; `deleted` once it was removed. */
  readonly status: EntityStatus | "loading" | "deleted";
  readonly job: TypedJob<Result> | undefined;
  /** Its record, oldest first. */
  readonly entries: readonly RunEntry[];
  /** Its cases, oldest first, up to 1000, each with its newest updates. */
  readonly cases: readonly Case[];
  /** Cases whose question is open. */
  readonly questions: readonly Case[];
  /** What steps that run now have emitted; gone once a step has ended and the job was read after that. */
  readonly output: readonly LiveOutput[];
  /** Why nothing further is known; `undefined` while all is well. */
  readonly error: Error | undefined;
}

/** Milliseconds in which changes are gathered before the job and its cases are read again. */
const GATHER = 50;
/** The newest updates that are read of each case. */
const UPDATES = 20;

export const UNKNOWN: JobState<never> = {
  status: "loading",
  job: undefined,
  entries: [],
  cases: [],
  questions: [],
  output: [],
  error: undefined,
};

/** Follows a job while somebody watches, and holds what is known of it. */
export class JobView<Result> {
  readonly #job: RemoteJob<Result>;
  readonly #watchers = new Set<() => void>();
  #state: JobState<Result> = UNKNOWN;
  #last = 0;
  #end: AbortController | undefined;
  #refreshing: Promise<void> | undefined;
  #isStale = false;

  constructor(job: RemoteJob<Result>) {
    this.#job = job;
  }

  readonly answer = (...given: Parameters<RemoteJob["answer"]>): Promise<void> => this.#job.answer(...given);

  readonly stop = (): Promise<void> => this.#job.stop();

  readonly state = (): JobState<Result> => this.#state;

  /** Calls `watcher` after each change; the result ends that. */
  readonly watch = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    if (!this.#end) void this.#follow();
    return () => {
      this.#watchers.delete(watcher);
      if (this.#watchers.size > 0) return;
      this.#end?.abort();
      this.#end = undefined;
    };
  };

  async #follow(): Promise<void> {
    const end = new AbortController();
    this.#end = end;
    try {
      let ended: JobState["status"] | undefined;
      for await (const event of this.#job.stream({ after: this.#last, signal: end.signal })) {
        if (end.signal.aborted) return;
        if (event.type === "end") ended = event.status;
        else this.#take(event, end.signal);
      }
      await this.#refresh(end.signal);
      // A job that was removed cannot be read, and has ended.
      if (ended !== undefined) this.#set({ status: ended, output: [] });
    } catch (error) {
      if (!end.signal.aborted) this.#set({ error: error as Error });
    }
  }

  #take(event: Exclude<JobEvent, { type: "end" }>, signal: AbortSignal): void {
    if (event.type === "snapshot") {
      const job = event.job as TypedJob<Result>;
      this.#set({ job, status: job.status, output: [] });
      this.#refreshSoon(signal);
    } else if (event.type === "chunk") {
      this.#set({ output: withChunks(this.#state.output, event) });
    } else {
      this.#last = event.id;
      const { entry } = event;
      const output = withoutEnded(this.#state.output, entry);
      const isShown = output !== this.#state.output;
      this.#set({
        entries: [...this.#state.entries, entry],
        output,
        // A job that has ended is shown with its result, which is read first.
        ...(entry.type === "status" &&
          entry.case_id === undefined &&
          !hasEnded({ status: entry.to }) && { status: entry.to }),
      });
      if (isShown || entry.type !== "call" || entry.call !== "step") this.#refreshSoon(signal);
    }
  }

  #refreshSoon(signal: AbortSignal): void {
    void this.#refresh(signal).catch((error: unknown) => {
      if (!signal.aborted) this.#set({ error: error as Error });
    });
  }

  /** Reads the job and its cases: once for all changes that came together. */
  async #refresh(signal: AbortSignal): Promise<void> {
    this.#isStale = true;
    this.#refreshing ??= this.#refreshAll(signal).finally(() => {
      this.#refreshing = undefined;
    });
    await this.#refreshing;
  }

  async #refreshAll(signal: AbortSignal): Promise<void> {
    while (this.#isStale) {
      await pause(GATHER, signal);
      this.#isStale = false;
      const over = new Set(this.#state.output.filter(({ isOver }) => isOver));
      try {
        const [job, cases] = await Promise.all([
          this.#job.read({ signal }),
          this.#job.cases({ limit: 1000, updates: UPDATES, signal }),
        ]);
        const questions = cases.filter(({ question }) => question);
        this.#set({ job, status: job.status, cases, questions });
      } catch (error) {
        // A job that was removed has no cases.
        const isNoMatter = error instanceof ClientError && error.status === 404;
        if (!isNoMatter) throw error;
      }
      if (over.size > 0) this.#set({ output: this.#state.output.filter((one) => !over.has(one)) });
    }
  }

  #set(change: Partial<JobState<Result>>): void {
    this.#state = { ...this.#state, ...change };
    for (const watcher of [...this.#watchers]) watcher();
  }
}

/** What is still shown after an entry: nothing of a failed attempt. The same list if the entry ends none of it. */
function withoutEnded(output: readonly LiveOutput[], entry: RunEntry): readonly LiveOutput[] {
  if (entry.type !== "attempt" && (entry.type !== "call" || entry.call === "open_case")) return output;
  const isOfEntry = (one: LiveOutput) => one.case_id === entry.case_id && one.position === entry.position;
  if (!output.some(isOfEntry)) return output;
  if (entry.type === "attempt") return output.filter((one) => !isOfEntry(one));
  return output.map((one) => (isOfEntry(one) ? { ...one, isOver: true } : one));
}

function withChunks(
  output: readonly LiveOutput[],
  { type: _type, index, skipped = 0, ...chunk }: EmittedChunks,
): readonly LiveOutput[] {
  const isSame = (one: LiveOutput) => one.case_id === chunk.case_id && one.position === chunk.position;
  const known = output.find(isSame);
  const continues =
    known?.run === chunk.run &&
    known.attempt === chunk.attempt &&
    index === known.missing + known.chunks.length;
  const chunks = continues ? [...known.chunks, ...chunk.chunks] : chunk.chunks;
  const text = chunks.filter((one) => typeof one === "string").join("");
  const next = {
    ...chunk,
    chunks,
    text,
    isOver: false,
    missing: continues ? known.missing : Math.max(skipped, index),
  };
  return known ? output.map((one) => (one === known ? next : one)) : [...output, next];
}
