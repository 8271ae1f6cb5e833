export const LEVELS = ["info", "warn", "error", "fatal"] as const;
export type Level = (typeof LEVELS)[number];

/** One entry of a log file; a stack trace belongs to the entry above it. */
export interface LogEntry {
  /** File and line, such as `orders.log:12`. */
  readonly source: string;
  /** ISO 8601. */
  readonly time: string;
  readonly level: Level;
  readonly message: string;
  readonly stack: readonly string[];
  /** The client of the request, if the log has it. */
  readonly client?: string;
}
