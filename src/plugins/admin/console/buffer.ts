import { LOG_LEVELS, type LogLevel, type LogRecord } from "../../../core/base/log.ts";
import type { HookListener } from "../../../core/entities/hooks.ts";
import type { AnswerOf } from "../answers/answer-of.ts";
import type { ConsoleSchema } from "../answers/service.ts";

/** Longer lines are truncated: one stack trace must not push everything else out. */
const LONGEST_LINE = 8000;

/** A line of the log with its number, counted from 1 since the process started. */
export type ConsoleLine = AnswerOf<typeof ConsoleSchema>["items"][number];

export interface LineFilter {
  /** The lowest level. */
  readonly level?: LogLevel;
  readonly search?: string;
  readonly job?: string;
}

/** Keeps the last lines of the log, and passes on new ones. */
export class ConsoleBuffer {
  readonly #most: number;
  readonly #lines: ConsoleLine[] = [];
  readonly #listeners = new Set<(line: ConsoleLine) => void>();
  readonly #stop: () => void;
  #last = 0;

  constructor(hooks: HookListener, most: number) {
    this.#most = most;
    this.#stop = hooks.on("log", (record) => this.#add(record));
  }

  /** Number of the newest line. */
  get last(): number {
    return this.#last;
  }

  get most(): number {
    return this.#most;
  }

  /** Lines after a number that pass the filter, oldest first, the newest `limit` of them. */
  read(
    filter: LineFilter,
    { after = 0, limit = this.#most }: { after?: number; limit?: number } = {},
  ): ConsoleLine[] {
    const passes = toTest(filter);
    return this.#lines.filter((line) => line.seq > after && passes(line)).slice(-limit);
  }

  /** Number of lines after a number that are no longer kept. */
  lost(after: number): number {
    const first = this.#lines[0]?.seq ?? this.#last + 1;
    return Math.max(0, first - after - 1);
  }

  listen(filter: LineFilter, listener: (line: ConsoleLine) => void): () => void {
    const passes = toTest(filter);
    const hear = (line: ConsoleLine): void => {
      if (passes(line)) listener(line);
    };
    this.#listeners.add(hear);
    return () => void this.#listeners.delete(hear);
  }

  close(): void {
    this.#stop();
    this.#listeners.clear();
  }

  #add(record: LogRecord): void {
    const line = toLine(++this.#last, record);
    this.#lines.push(line);
    // Dropped in batches: removing one from the front for each line would copy the list each time.
    if (this.#lines.length > this.#most * 1.25) this.#lines.splice(0, this.#lines.length - this.#most);
    for (const listener of this.#listeners) listener(line);
  }
}

/** A line as pages show it; `without` names fields that its place shows already. */
export function toLine(
  seq: number,
  { time, level, message, fields }: LogRecord,
  { without = [] }: { readonly without?: readonly string[] } = {},
): ConsoleLine {
  const { error, ...rest } = fields;
  const pairs = Object.entries(rest)
    .filter(([key]) => !without.includes(key))
    .map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
  const text = [pairs.join(" "), typeof error === "string" ? error : ""]
    .filter((part) => part !== "")
    .join("\n");
  const job = fields.job_id ?? fields.job;
  return {
    seq,
    time,
    level,
    message: message.slice(0, LONGEST_LINE),
    fields: text.slice(0, LONGEST_LINE),
    job: typeof job === "string" ? job : undefined,
  };
}

function toTest({ level, search, job }: LineFilter): (line: ConsoleLine) => boolean {
  const least = level === undefined ? 0 : LOG_LEVELS.indexOf(level);
  const needle = search?.toLowerCase() ?? "";
  return (line) =>
    LOG_LEVELS.indexOf(line.level) >= least &&
    (job === undefined || line.job === job || line.fields.includes(job)) &&
    (needle === "" || `${line.message}\n${line.fields}`.toLowerCase().includes(needle));
}
