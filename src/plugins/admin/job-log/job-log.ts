import type { LogRecord } from "../../../core/base/log.ts";
import type { HookListener } from "../../../core/entities/hooks.ts";
import type { Store, Transaction } from "../../../core/store/store.ts";
import { toLine } from "../console/buffer.ts";
import type { JobLine } from "./job-log-table.ts";

/** Lines in a part: what one more line rewrites at most. */
const PART_LINES = 50;
/** A line in a job's log is shorter than in the console: the log is stored. */
const LONGEST_LINE = 2000;
/** Lines of all jobs that wait for the store at most. */
const MOST_WAITING = 10_000;
/** How long lines are collected before they are stored together, milliseconds. */
const COLLECT = 1000;
/** Jobs whose lines one transaction stores. */
const JOBS_AT_ONCE = 50;

export interface JobLogParts {
  readonly store: Store;
  readonly hooks: HookListener;
  /** Lines that are kept of each job, to the next 50; 0 keeps none. */
  readonly most: number;
  /** Called once lines of a job are stored. */
  readonly onStored: (jobId: string) => void;
  readonly onError: (error: unknown) => void;
}

/** Keeps the last lines that each job has logged, with the job: until it is removed. */
export class JobLog {
  readonly #parts: JobLogParts;
  readonly #stop: () => void;
  #waiting = new Map<string, JobLine[]>();
  #count = 0;
  #timer: NodeJS.Timeout | undefined;
  #storing: Promise<void> = Promise.resolve();
  #isClosed = false;
  #isFailing = false;

  constructor(parts: JobLogParts) {
    this.#parts = parts;
    this.#stop = parts.most > 0 ? parts.hooks.on("log", (record) => this.#add(record)) : () => {};
  }

  /** The kept lines, oldest first. Those of the last second may be missing. */
  async read(jobId: string): Promise<JobLine[]> {
    const { items } = await this.#parts.store
      .table("JobLog")
      .list({ where: { job_id: jobId }, limit: Number.POSITIVE_INFINITY });
    return items.sort((a, b) => a.part - b.part).flatMap(({ lines }) => lines);
  }

  /** Differs once lines were added, removed or replaced. */
  async mark(jobId: string): Promise<string> {
    const table = this.#parts.store.table("JobLog");
    const ids = (await table.ids({ where: { job_id: jobId } })).sort();
    const last = ids.at(-1);
    return last === undefined ? "" : `${last} ${(await table.peek(last))?.lines.length ?? 0}`;
  }

  /** Stores what is collected. */
  async close(): Promise<void> {
    this.#stop();
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#storing;
    await this.#store();
  }

  #add(record: LogRecord): void {
    const { time, level, message, fields, job } = toLine(0, record, { without: ["job_id", "agent"] });
    if (job === undefined || this.#count >= MOST_WAITING) return;
    const lines = this.#waiting.get(job) ?? [];
    this.#waiting.set(job, lines);
    lines.push({
      ...{ time, level },
      message: message.slice(0, LONGEST_LINE),
      fields: fields.slice(0, LONGEST_LINE),
    });
    // Older ones would be removed with the same write.
    if (lines.length > this.#parts.most) lines.shift();
    else this.#count++;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#storing = this.#store().finally(() => {
        this.#timer = undefined;
        if (this.#waiting.size > 0) this.#schedule();
      });
    }, COLLECT);
    this.#timer.unref();
  }

  async #store(): Promise<void> {
    const all = [...this.#waiting];
    this.#waiting = new Map();
    this.#count = 0;
    for (let at = 0; at < all.length; at += JOBS_AT_ONCE) {
      const some = all.slice(at, at + JOBS_AT_ONCE);
      try {
        await this.#parts.store.transaction(async (tx) => {
          for (const [job, lines] of some) await append(tx, { job, lines, most: this.#parts.most });
        });
        this.#isFailing = false;
        for (const [job] of some) this.#parts.onStored(job);
      } catch (error) {
        // The log of the service still has them. It is reported once, not each second.
        if (!this.#isFailing) this.#parts.onError(error);
        this.#isFailing = true;
      }
    }
  }
}

/** Removes the log of a job in the transaction that removes the job. */
export async function forgetLog(tx: Transaction, jobId: string): Promise<void> {
  for (const id of await tx.ids("JobLog", "job_id", jobId)) await tx.remove("JobLog", id);
}

async function append(
  tx: Transaction,
  { job, lines, most }: { readonly job: string; readonly lines: readonly JobLine[]; readonly most: number },
): Promise<void> {
  // It may have been removed meanwhile.
  if (!(await tx.get("Job", job))) return;
  const ids = (await tx.ids("JobLog", "job_id", job)).sort();
  const newest = ids.at(-1);
  const last = newest === undefined ? undefined : await tx.get("JobLog", newest);
  let part = last?.part ?? -1;
  let rest = lines;
  const room = last ? PART_LINES - last.lines.length : 0;
  if (last && room > 0) {
    await tx.change("JobLog", last.id, (row) => ({ ...row, lines: [...row.lines, ...lines.slice(0, room)] }));
    rest = lines.slice(room);
  }
  for (; rest.length > 0; rest = rest.slice(PART_LINES)) {
    const id = `${job}/${String(++part).padStart(8, "0")}`;
    await tx.insert("JobLog", { id, job_id: job, part, lines: rest.slice(0, PART_LINES) });
    ids.push(id);
  }
  // The newest part may hold a single line.
  for (const id of ids.slice(0, -(Math.ceil(most / PART_LINES) + 1))) await tx.remove("JobLog", id);
}
